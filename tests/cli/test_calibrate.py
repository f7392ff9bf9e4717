"""`regiontalk calibrate`: three numbers fitted, reported, and written into a new folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import regiontalk
from regiontalk.cli.main import run
from regiontalk.data.records import Dataset
from regiontalk.model_folder import read_model_folder


@pytest.fixture(scope="module")
def data(untrained_run: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Drawn scenes with the model's best region of each as the truth, and in every second one another as well."""
    folder = tmp_path_factory.mktemp("judged") / "data"
    shutil.copytree(untrained_run / "data", folder)
    captioner, dataset = regiontalk.load(tiny_model), Dataset(folder)
    lines = []
    for number, record in enumerate(dataset):
        found = captioner(dataset.read_photo(record)).regions
        truths = [found[0], found[-1]] if number % 2 else [found[0]]
        boxes = [{"xyxy": list(region.xyxy), "phrase": "a thing"} for region in truths]
        lines.append(json.dumps(record.to_dict() | {"regions": boxes}) + "\n")
    (folder / "annotations.jsonl").write_text("".join(lines))
    return folder


def calibrate(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    assert run(["calibrate", *map(str, arguments), "--json", "-q"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_new_folder_gives_probabilities_in_the_old_order(
    tiny_model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, out = tmp_path / "reliability.svg", tmp_path / "calibrated"
    found = calibrate(capsys, tiny_model, data, "--fit", "train", "--check", "train", "-o", out, "--diagram", picture)
    assert (found["photos"], found["fitted_on"], found["checked_on"]) == (6, "train", "train")
    assert found["after"]["expected_calibration_error"] < found["before"]["expected_calibration_error"]
    assert picture.read_text().startswith("<svg")
    old, new = read_model_folder(tiny_model), read_model_folder(out)
    assert list(new.info.prediction.calibration) == found["calibration"]
    assert (new.graphs, new.words) == (old.graphs, old.words)
    dataset = Dataset(data, "dev")
    photo = dataset.read_photo(dataset[0])
    before, after = (regiontalk.load(folder)(photo).regions for folder in (tiny_model, out))
    assert [region.xyxy for region in after] == [region.xyxy for region in before]
    assert [region.score for region in after] != [region.score for region in before]
    assert regiontalk.load(out)(photo, threshold=after[0].score).regions == after[:1]


def test_a_calibrated_model_is_fitted_from_its_bare_scores(
    tiny_model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once = calibrate(capsys, tiny_model, data, "--check", "dev", "-o", tmp_path / "once")
    again = calibrate(capsys, tmp_path / "once", data, "--check", "dev", "-o", tmp_path / "again")
    assert again == once


def test_the_table_says_what_half_means(tiny_model: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", str(tiny_model), str(data), "--check", "train", "--photos", "3", "-q"]) == 0
    out = capsys.readouterr().out
    assert "3 train photos" in out
    assert "regions a photo ≥ 0.5" in out
    assert out.splitlines()[-1].startswith("calibration: ")


def test_what_cannot_be_done_is_said_first(
    tiny_model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["calibrate", str(tiny_model), str(data), "-o", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert run(["calibrate", str(tiny_model), str(data), "-q"]) == 4
    said = capsys.readouterr().err
    assert "no image in split test" in said
    assert "--check names another" in said
    assert run(["calibrate", str(tmp_path / "nowhere"), str(data), "--check", "dev"]) == 6
