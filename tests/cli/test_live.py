"""`regiontalk live` is the server with another page and the fast model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from regiontalk.cli.main import run
from regiontalk.models.packaged import FAST
from regiontalk.serve.settings import Settings


def test_it_opens_the_live_view_with_the_fast_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[Settings] = []
    opened: list[str] = []

    def serve(settings: Settings, ready: Callable[[str], None]) -> None:
        started.append(settings)
        ready("http://127.0.0.1:8765/")

    monkeypatch.setattr("regiontalk.serve.server.run", serve)
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert run(["live"]) == 0
    assert opened == ["http://127.0.0.1:8765/live"]
    assert capsys.readouterr().err == "http://127.0.0.1:8765/live  (Ctrl-C ends it)\n"
    assert run(["live", "--no-open", "-q", "--model", "other", "--port", "9"]) == 0
    assert len(opened) == 1
    first, second = started
    assert (first.model, first.folder, first.workers) == (FAST, None, 1)
    assert (second.model, second.port) == (Path("other"), 9)
