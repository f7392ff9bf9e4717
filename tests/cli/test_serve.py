"""What keeps the server from starting is told in a line."""

from __future__ import annotations

import importlib.util
import shutil
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from conftest import draw_scene
from regiontalk.cli.main import run
from regiontalk.search.index import Index

SERVE = ("serve", "--no-open", "--port", "0", "--workers", "1")


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "starlette" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    assert run([*SERVE]) == 7
    assert "pip install 'regiontalk[serve]'" in capsys.readouterr().err


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SERVE, str(tmp_path / "nothing")]) == 4
    assert "no such folder" in capsys.readouterr().err


def test_a_broken_model(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(tiny_model, tmp_path / "model")
    (tmp_path / "model" / "propose.onnx").write_bytes(b"nothing")
    assert run([*SERVE, "--model", str(tmp_path / "model")]) == 6
    assert "propose.onnx" in capsys.readouterr().err


def test_a_damaged_index(
    aligning_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw_scene().save(tmp_path / "a.png")
    place = Index.open(tmp_path).place
    place.mkdir()
    (place / "index.sqlite").write_bytes(b"no database" * 1000)
    assert run([*SERVE, str(tmp_path), "--model", str(aligning_model)]) == 5
    assert "damaged" in capsys.readouterr().err
