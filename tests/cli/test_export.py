"""`regiontalk export`: what it writes, what it takes, how it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from regiontalk.cli import export
from regiontalk.cli.main import run
from regiontalk.errors import MissingExtra
from regiontalk.lab.export import detector
from regiontalk.models.folder import read_model_folder


def test_a_checkpoint_becomes_a_model(
    shaken_checkpoint: Path,
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["export", str(shaken_checkpoint), "models/mine"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "models/mine" in err
    assert "step-00000007" in err
    model = read_model_folder(Path("models/mine"))
    assert (model.info.name, model.info.precision) == ("mine", "float32")
    assert [item.name for item in Path("models").iterdir()] == ["mine"]
    assert model.graphs == read_model_folder(tiny_model).graphs, "exporting twice gives other bytes"


def test_name_and_precision_are_passed_on(
    desk_with_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []

    def spy(*arguments: Any) -> None:
        asked.append(arguments)
        arguments[1].mkdir()
        (arguments[1] / "SHA256SUMS").touch()

    monkeypatch.setattr(detector, "export_model", spy)
    assert run(["export", "run", "out", "--name", "compact-1", "--precision", "int8", "-q"]) == 0
    assert asked == [(Path("run/checkpoints/step-00000000"), Path("out"), "compact-1", "int8", {})]


def test_a_folder_that_is_there_stays_as_it_is(
    desk_with_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", "run", "data"]) == 2
    assert "already exists" in capsys.readouterr().err


def test_what_is_no_checkpoint_is_a_models_fault(
    desk_with_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", "data", "out"]) == 6
    assert "no checkpoint here" in capsys.readouterr().err
    assert not Path("out").exists()


def test_an_impossible_precision_is_refused(desk_with_run: Path) -> None:
    assert run(["export", "run", "out", "--precision", "int4"]) == 2


def test_without_torch_the_extra_is_named(
    desk_with_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(extra: str, purpose: str, *_: str) -> None:
        raise MissingExtra(purpose, extra=extra)

    monkeypatch.setattr(export, "need", missing)
    assert run(["export", "run", "out"]) == 7


class TestHeads:
    def test_a_model_folder_gets_a_head(
        self, tiny_model: Path, alignment_run: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "out"
        assert (
            run(
                [
                    "export",
                    str(tiny_model),
                    str(out),
                    "--add",
                    str(alignment_run),
                    "--beta",
                    "0.25",
                    "-q",
                ]
            )
            == 0
        )
        model = read_model_folder(out)
        assert model.heads["words"].info.settings.beta == 0.25
        assert set(model.heads) == {"words"}
        assert (model.info.name, model.info.precision) == ("out", "float32")

    def test_the_precision_of_a_model_folder_stays(
        self, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["export", str(tiny_model), str(tmp_path / "out"), "--precision", "int8"]) == 2
        assert "whose precision stays as it is" in capsys.readouterr().err

    def test_what_is_no_head(
        self, tiny_model: Path, shaken_checkpoint: Path, tmp_path: Path
    ) -> None:
        assert (
            run(["export", str(tiny_model), str(tmp_path / "out"), "--add", str(shaken_checkpoint)])
            == 6
        )
        assert (
            run(["export", str(tiny_model), str(tmp_path / "out"), "--add", str(tmp_path / "none")])
            == 6
        )
        assert not (tmp_path / "out").exists()
