"""The wheel: the model is in it, it is small enough, and it captions photos where nothing else
is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from regiontalk.models import loading

ROOT = Path(__file__).parents[2]
LARGEST = 70_000_000
CAPTION = "from regiontalk.cli.main import main; main()"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the tree."""
    desk = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE", "LICENSE-WEIGHTS"):
        shutil.copy(ROOT / name, desk)
    shutil.copytree(ROOT / "src", desk / "src", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
    subprocess.run(command, cwd=desk, check=True, capture_output=True, timeout=120)
    (built,) = (desk / "dist").iterdir()
    return built


def test_the_models_are_in_the_wheel(wheel: Path) -> None:
    models = loading.own_models().values()
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {
        f"regiontalk/models/{model.name}/{file.name}"
        for model in models
        for file in model.iterdir()
    } <= names
    pages = {f"regiontalk/show/page.{kind}" for kind in ("html", "css", "js")}
    shared = {"regiontalk/show/shared/regions.js", "regiontalk/show/shared/base.css"}
    assert {
        *pages,
        *shared,
        "regiontalk/language/object_names.toml",
        "regiontalk/py.typed",
    } <= names
    assert wheel.stat().st_size <= LARGEST


def test_it_captions_photos_alike_every_time(wheel: Path, examples: Path, tmp_path: Path) -> None:
    """In processes of their own, from the wheel's files alone, far from the tree."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}

    def caption(*options: str) -> bytes:
        command = [
            sys.executable,
            "-c",
            CAPTION,
            "caption",
            str(examples / "photos"),
            "--json",
            *options,
        ]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=120
        )
        return done.stdout

    found = caption()
    assert found.count(b"\n") == len(list((examples / "photos").iterdir()))
    assert b'"caption": "' in found
    assert caption() == found
    assert caption("-j", "2") == found
    assert caption("--model", "fast") != found
