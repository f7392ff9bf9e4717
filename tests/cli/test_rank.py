"""`regiontalk rank`: figures of photos it was not fitted on, and a model folder that ranks by it."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import regiontalk
from regiontalk.calibration import UNCHANGED
from regiontalk.cli.main import run
from regiontalk.data.records import Dataset
from regiontalk.errors import MissingExtra
from regiontalk.evaluation import language
from regiontalk.model_folder import read_model_folder, write_model_folder


@pytest.fixture(scope="module")
def data(untrained_run: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Drawn scenes in which the regions that the model puts last are the true ones, with the words it says."""
    folder = tmp_path_factory.mktemp("ranked") / "data"
    shutil.copytree(untrained_run / "data", folder)
    captioner, dataset = regiontalk.load(tiny_model), Dataset(folder)
    lines = []
    for record in dataset:
        found = captioner(dataset.read_photo(record)).regions
        boxes = [{"xyxy": list(region.xyxy), "phrase": region.caption} for region in found[len(found) // 2 :]]
        lines.append(json.dumps(record.to_dict() | {"regions": boxes}) + "\n")
    (folder / "annotations.jsonl").write_text("".join(lines))
    return folder


@pytest.fixture
def quick_language(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words in common in METEOR's place, which needs no tables."""
    monkeypatch.setattr(language, "open_meteor", lambda **_: nullcontext(language.UnigramF1()))


def rank(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    assert run(["rank", *map(str, arguments), "--json", "-q"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.usefixtures("quick_language")
def test_the_new_folder_ranks_what_it_learned(
    tiny_model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "ranking"
    found = rank(capsys, tiny_model, data, "--fit", "train", "-o", out)
    assert (found["model"], found["fitted_on"], found["photos"]) == ("tiny", "train", 6)
    assert found["after"]["map"] > found["before"]["map"]
    old, new = read_model_folder(tiny_model), read_model_folder(out)
    assert new.info.prediction.ranking is not None
    assert replace(new.info, prediction=replace(new.info.prediction, ranking=None)) == old.info
    assert (new.graphs, new.words) == (old.graphs, old.words)
    dataset = Dataset(data, "dev")
    photo = dataset.read_photo(dataset[0])
    before, after = (regiontalk.load(folder)(photo).regions for folder in (tiny_model, out))
    assert after[0].xyxy in [region.xyxy for region in before[len(before) // 2 :]]


@pytest.mark.usefixtures("quick_language")
def test_a_ranked_and_calibrated_model_is_ranked_from_its_bare_scores(
    tiny_model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once = rank(capsys, tiny_model, data, "-o", tmp_path / "once")
    folder = read_model_folder(tmp_path / "once")
    info = replace(folder.info, prediction=replace(folder.info.prediction, calibration=(0.5, 2.0, 0.0)))
    write_model_folder(tmp_path / "calibrated", info, folder.words, folder.graphs)
    again = rank(capsys, tmp_path / "calibrated", data, "-o", tmp_path / "again")
    assert again == once
    assert read_model_folder(tmp_path / "again").info == folder.info
    assert folder.info.prediction.calibration == UNCHANGED


@pytest.mark.usefixtures("quick_language")
def test_the_table_says_before_and_after_and_the_message_what_comes_next(
    tiny_model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["rank", str(tiny_model), str(data), "--photos", "3", "-o", str(tmp_path / "out")]) == 0
    said = capsys.readouterr()
    assert "3 dev photos, cross-validated" in said.out
    assert [name for name in ("before", "after", "boxes alone") if name not in said.out] == []
    assert "regiontalk calibrate it next" in said.err


@pytest.mark.usefixtures("quick_language")
def test_what_cannot_be_done_is_said(
    tiny_model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["rank", str(tiny_model), str(data), "-o", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert run(["rank", str(tiny_model), str(data), "--photos", "1", "-q"]) == 4
    assert "1 photo: a ranking is checked on other photos" in capsys.readouterr().err
    assert run(["rank", str(tmp_path / "nowhere"), str(data)]) == 6


def test_the_judge_is_meteor(
    tiny_model: Path, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(**_: object) -> None:
        raise MissingExtra("METEOR needs its tables", extra="evaluate")

    monkeypatch.setattr(language, "open_meteor", missing)
    assert run(["rank", str(tiny_model), str(data), "-q"]) == 7
    assert "pip install 'regiontalk[evaluate]'" in capsys.readouterr().err
