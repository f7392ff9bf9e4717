"""The OpenAPI description is true: schemathesis tries it on the server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from http_server import RunningServer

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")


def test_every_call_is_described(server: RunningServer) -> None:
    description = server.get("/openapi.json").json
    assert description["openapi"].startswith("3.1")
    calls = {
        f"{method} {path}" for path, methods in description["paths"].items() for method in methods
    }
    assert {
        "post /api/caption",
        "get /api/search",
        "put /api/photos/{id}/regions",
        "post /api/records",
    } <= calls


@pytest.mark.skipif(not SCHEMATHESIS.exists(), reason="schemathesis is not installed")
def test_what_is_described_holds(server: RunningServer, tmp_path: Path) -> None:
    """Not that all that is described is accepted: a box inside the photo is more than a schema can
    say."""
    address = f"http://127.0.0.1:{server.port}/openapi.json"
    options = ("--phases", "coverage,fuzzing", "--max-examples", "8", "--seed", "2")
    command = [
        SCHEMATHESIS,
        "run",
        address,
        *options,
        "--exclude-checks",
        "positive_data_acceptance",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    assert "Tested: 22" in done.stdout
