"""`regiontalk fit`: settings, ranking, calibration and confidence fitted, reported, written into a
new folder."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regiontalk
from regiontalk.cli.main import run
from regiontalk.errors import MissingExtra
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.drawn import write_scenes
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.evaluation import scoring_pool
from regiontalk.lab.evaluation.language import UnigramF1
from regiontalk.lab.fitting import names as names_module
from regiontalk.lab.fitting import settings as settings_module
from regiontalk.language.colours import COLOURS
from regiontalk.models.folder import read_model_folder
from regiontalk.models.settings import UNCHANGED
from regiontalk.results import Region


def plant(
    scenes: Path,
    model: Path,
    folder: Path,
    true: Callable[[int, tuple[Region, ...]], tuple[Region, ...]],
) -> Path:
    """Drawn scenes whose true regions are some of those that the model finds, with the words it
    says, but where it says many: there is a zebra."""
    shutil.copytree(scenes, folder)
    asked = DatasetModel(regiontalk.load(model), Dataset(folder))
    lines = []
    for number, record in enumerate(asked.dataset):
        chosen = true(number, asked.regions(record).regions)
        regions = [
            {
                "xyxy": list(one.xyxy),
                "phrase": one.caption if len(one.caption.split()) < 4 else "a zebra",
            }
            for one in chosen
        ]
        lines.append(json.dumps(record.to_dict() | {"regions": regions}) + "\n")
    (folder / "annotations.jsonl").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scenes") / "data"
    write_scenes(folder, train=12, dev=12)
    return folder


@pytest.fixture(scope="module")
def data(scenes: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The regions that the model puts last are the true ones."""
    folder = tmp_path_factory.mktemp("ranked") / "data"
    return plant(scenes, tiny_model, folder, lambda _, found: found[len(found) // 2 :])


@pytest.fixture(scope="module")
def well_scored(scenes: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model's best region is true, and in every second photo its last one as well."""
    folder = tmp_path_factory.mktemp("judged") / "data"
    return plant(
        scenes, tiny_model, folder, lambda n, found: (found[0], found[-1]) if n % 2 else found[:1]
    )


@pytest.fixture(autouse=True)
def few_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_module, "FINAL_NMS", (0.3, 0.5))
    monkeypatch.setattr(settings_module, "TRIED_PROPOSALS", (5, 60))
    monkeypatch.setattr(settings_module, "CAPTION_WEIGHTS", (0.0, 1.0))


@pytest.fixture
def quick_language(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words in common in METEOR's place, which needs no tables."""
    monkeypatch.setattr(scoring_pool, "open_meteor", lambda **_: nullcontext(UnigramF1()))


def fit(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    assert run(["fit", *map(str, arguments), "--json", "-q"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.usefixtures("quick_language")
def test_all_of_it_in_one_go(
    tiny_model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, picture = tmp_path / "fitted", tmp_path / "reliability.svg"
    found = fit(capsys, tiny_model, data, "-o", out, "--diagram", picture)
    assert list(found) == [
        "model",
        "fitted_on",
        "photos",
        "settings",
        "ranking",
        "calibration",
        "confidence",
        "find",
    ]
    assert (found["model"], found["fitted_on"], found["photos"]) == ("tiny", "dev", 12)
    old, new = read_model_folder(tiny_model), read_model_folder(out)
    settings, best = new.info.prediction, found["settings"]["tried"][0]
    assert {
        name: getattr(settings, name)
        for name in ("score", "final_nms", "proposals", "caption_weight")
    } == {name: best[name] for name in ("score", "final_nms", "proposals", "caption_weight")}
    assert settings.ranking is not None
    assert list(settings.calibration) == found["calibration"]["calibration"]
    assert settings.confidence is not None
    assert settings.confidence.likely == found["confidence"]["threshold"]
    assert settings.find is not None
    assert settings.find.likely == found["find"]["likely"]
    assert replace(new.info, prediction=old.info.prediction) == old.info
    assert (new.graphs, new.words, new.heads) == (old.graphs, old.words, old.heads)
    assert picture.read_text().startswith("<svg")


@pytest.mark.usefixtures("quick_language")
def test_in_one_go_is_one_by_one(
    tiny_model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at_once = fit(capsys, tiny_model, data, "-o", tmp_path / "at-once")
    folder, report = tiny_model, {}
    for part in ("settings", "ranking", "calibration", "confidence", "find"):
        report |= fit(capsys, folder, data, "--only", part, "-o", tmp_path / part)
        folder = tmp_path / part
    assert report == at_once
    assert read_model_folder(folder).info == read_model_folder(tmp_path / "at-once").info


class TestSettings:
    @pytest.mark.usefixtures("quick_language")
    def test_every_setting_is_tried_and_the_best_stands_first(
        self, tiny_model: Path, data: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        rows = fit(capsys, tiny_model, data, "--only", "settings")["settings"]["tried"]
        tried = {
            tuple(row[key] for key in ("score", "final_nms", "proposals", "caption_weight"))
            for row in rows
        }
        assert len(tried) == len(rows) == 16
        maps = [row["map"] for row in rows]
        assert maps == sorted(maps, reverse=True)
        assert maps[0] > maps[-1]

    @pytest.mark.usefixtures("quick_language")
    def test_what_was_fitted_to_other_settings_is_dropped(
        self, tiny_model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fit(capsys, tiny_model, data, "-o", tmp_path / "fitted")
        fit(capsys, tmp_path / "fitted", data, "--only", "settings", "-o", tmp_path / "again")
        settings = read_model_folder(tmp_path / "again").info.prediction
        assert (settings.ranking, settings.calibration, settings.confidence) == (
            None,
            UNCHANGED,
            None,
        )


class TestRanking:
    @pytest.mark.usefixtures("quick_language")
    def test_the_new_folder_ranks_what_it_learned(
        self, tiny_model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "ranking"
        found = fit(capsys, tiny_model, data, "--only", "ranking", "--split", "train", "-o", out)[
            "ranking"
        ]
        assert found["after"]["map"] > found["before"]["map"]
        old, new = read_model_folder(tiny_model), read_model_folder(out)
        assert new.info.prediction.ranking is not None
        assert replace(new.info.prediction, ranking=None) == old.info.prediction
        dataset = Dataset(data, "dev")
        photo = dataset.read_photo(dataset[0])
        before, after = (regiontalk.load(folder)(photo).regions for folder in (tiny_model, out))
        assert after[0].xyxy in [region.xyxy for region in before[len(before) // 2 :]]

    @pytest.mark.usefixtures("quick_language")
    def test_one_photo_is_too_few(
        self, tiny_model: Path, data: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert (
            run(["fit", str(tiny_model), str(data), "--only", "ranking", "--photos", "1", "-q"])
            == 4
        )
        assert "1 photo: cross-validation needs at least 2" in capsys.readouterr().err


class TestCalibration:
    def test_the_new_folder_gives_probabilities_in_the_old_order(
        self,
        tiny_model: Path,
        well_scored: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        out = tmp_path / "calibrated"
        part = ("--only", "calibration", "--split", "train")
        found = fit(capsys, tiny_model, well_scored, *part, "-o", out)["calibration"]
        assert (
            found["after"]["expected_calibration_error"]
            < found["before"]["expected_calibration_error"]
        )
        dataset = Dataset(well_scored, "dev")
        photo = dataset.read_photo(dataset[0])
        before, after = (regiontalk.load(folder)(photo).regions for folder in (tiny_model, out))
        assert [region.xyxy for region in after] == [region.xyxy for region in before]
        assert [region.score for region in after] != [region.score for region in before]
        assert regiontalk.load(out)(photo, threshold=after[0].score).regions == after[:1]
        assert fit(capsys, out, well_scored, *part)["calibration"] == found, (
            "fitted on raw scores every time"
        )


class TestConfidence:
    def test_the_new_folder_knows_how_likely_its_words_are_right(
        self, tiny_model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        part = ("--only", "confidence", "--split", "train")
        found = fit(capsys, tiny_model, data, *part, "-o", tmp_path / "sure")["confidence"]
        assert 0 < found["all_right"] < 1
        dataset = Dataset(data, "dev")
        photo = dataset.read_photo(dataset[0])
        before, after = (
            regiontalk.load(folder)(photo).regions for folder in (tiny_model, tmp_path / "sure")
        )
        assert [replace(region, confidence=None) for region in after] == list(before), (
            "the rest stays"
        )
        sure = {True: [0.0], False: [0.0]}
        for region in after:
            assert region.confidence is not None
            sure[len(region.caption.split()) < 4].append(region.confidence)
        assert max(sure[True]) > max(sure[False]), "of fewer words, which are right"

    def test_all_data_sets_count(
        self, tiny_model: Path, data: Path, well_scored: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        found = fit(capsys, tiny_model, data, well_scored, "--only", "confidence")
        figures = found["confidence"]
        assert list(figures["data"]) == [str(data), str(well_scored)]
        assert (
            found["photos"]
            == figures["photos"]
            == sum(one["photos"] for one in figures["data"].values())
            == 24
        )
        assert figures["captions"] == sum(one["captions"] for one in figures["data"].values())


class TestAlignment:
    @pytest.fixture
    def phrased(self, scenes: Path, tmp_path: Path) -> Path:
        """Every phrase stands in the scene's sentence."""
        folder = tmp_path / "phrased"
        shutil.copytree(scenes, folder)
        lines = []
        for record in Dataset(folder):
            regions = [
                one | {"sentences": [0], "type": "shape"} for one in record.to_dict()["regions"]
            ]
            own = record.to_dict() | {
                "regions": regions,
                "entity_sentences": list(record.sentences),
            }
            lines.append(json.dumps(own) + "\n")
        (folder / "annotations.jsonl").write_text("".join(lines))
        return folder

    def test_the_new_folder_aligns_with_what_was_fitted(
        self,
        aligning_model: Path,
        phrased: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        out = tmp_path / "fitted"
        found = fit(capsys, aligning_model, phrased, "--only", "alignment", "-o", out)["alignment"]
        old, new = (read_model_folder(folder) for folder in (aligning_model, out))
        settings = replace(old.heads["words"].info.settings, **found["fitted"])
        assert new.heads["words"].info.settings == settings
        assert (new.info.prediction, new.graphs) == (old.info.prediction, old.graphs)
        truth = ["--truth", str(phrased), "--split", "dev", "--json"]
        assert run(["evaluate", "grounding", str(aligning_model), *truth]) == 0
        measured = json.loads(capsys.readouterr().out)
        assert measured["mentions"] == found["phrases"]
        assert measured["accuracy"] == pytest.approx(found["before"]["accuracy"])
        assert measured["chain"]["accuracy"] == pytest.approx(found["before"]["chain"])

    def test_records_without_phrases_in_sentences(
        self, aligning_model: Path, data: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["fit", str(aligning_model), str(data), "-q", "--only", "alignment"]) == 4
        assert "alignment cannot be fitted" in capsys.readouterr().err


@pytest.mark.usefixtures("quick_language")
def test_the_tables(
    tiny_model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(["fit", str(tiny_model), str(data), "--photos", "10", "-o", str(tmp_path / "x")]) == 0
    )
    said = capsys.readouterr()
    wanted = (
        "settings, best first: tiny, 10 dev photos",
        "ranking, cross-validated: tiny",
        "calibration, cross-validated: tiny",
        "confidence, cross-validated: tiny",
        "cross-validated",
    )
    assert [text for text in wanted if text not in said.out] == []
    assert sum("│ final" in line or "│ product" in line for line in said.out.splitlines()) == 5
    assert "settings, ranking, calibration, confidence, find fitted on 10 dev photos" in said.err


def test_the_background_learns_nothing_from_names_that_are_left_out(
    tiny_model: Path, scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = tmp_path / "named"
    shutil.copytree(scenes, named)
    lines = []
    for number, record in enumerate(Dataset(scenes, "train")):
        thing = [
            replace(region, phrase=f"Thing {number % 2}", type="object")
            for region in record.regions
        ]
        lines.append(json.dumps(replace(record, regions=tuple(thing)).to_dict()) + "\n")
    (named / "annotations.jsonl").write_text("".join(lines))
    names = tmp_path / "names.txt"
    names.write_text("thing 1\n\n")
    wanted = ("--only", "background", "--split", "train")
    every = fit(capsys, tiny_model, named, *wanted)["background"]
    left = fit(capsys, tiny_model, named, *wanted, "--leave-out", names)["background"]
    assert (every["photos"], left["photos"]) == (12, 6)
    assert 0 < left["examples"] < every["examples"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-o", "."], 2, "already exists"),
        (["--split", "test"], 2, "'test' is not one of"),
        (["--only", "words"], 2, "'words' is not one of"),
        (["--only", "ranking", "--diagram", "x.svg"], 2, "--diagram needs the part calibration"),
        (["--only", "ranking", "--leave-out", "x"], 2, "--leave-out needs the part background"),
        (["--split", "train", "--photos", "1"], 4, "1 photo: cross-validation needs at least 2"),
    ],
)
def test_a_failure_is_one_line_and_an_exit_code(
    tiny_model: Path,
    data: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    assert run(["fit", str(tiny_model), str(data), "-q", *arguments]) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
    assert run(["fit", "nowhere", str(data)]) == 6


def test_the_judge_is_meteor(
    tiny_model: Path,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def missing(**_: object) -> None:
        raise MissingExtra("METEOR needs its tables", extra="evaluate")

    monkeypatch.setattr(scoring_pool, "open_meteor", missing)
    assert run(["fit", str(tiny_model), str(data), "-q"]) == 7
    assert "pip install 'regiontalk[evaluate]'" in capsys.readouterr().err


def test_neither_torch_nor_meteor_is_needed_to_calibrate(
    tiny_model: Path, well_scored: Path
) -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['regiontalk.lab.evaluation.scoring_pool'] = None;"
        "from regiontalk.cli.main import run; sys.exit(run(sys.argv[1:]))"
    )
    arguments = ["fit", str(tiny_model), str(well_scored), "--only", "calibration", "-q"]
    assert (
        subprocess.run(
            [sys.executable, "-c", code, *arguments], check=False, capture_output=True
        ).returncode
        == 0
    )


def test_names_are_fitted_on_request_and_kept_by_later_fits(
    scenes: Path,
    well_scored: Path,
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(names_module, "STEPS", 20)
    folder = tmp_path / "data"
    shutil.copytree(scenes, folder)
    records = [record.to_dict() for record in Dataset(folder)]
    for record in records:
        for region in record["regions"]:
            region |= {"type": "object", "phrase": region["phrase"].split()[-1], "coarse": "shape"}
    (folder / "annotations.jsonl").write_text(
        "".join(json.dumps(record) + "\n" for record in records)
    )
    named = tmp_path / "named"
    command = [
        "fit",
        str(tiny_model),
        str(folder),
        "--only",
        "names",
        "--split",
        "train",
        "-o",
        str(named),
        "--json",
    ]
    assert run(command) == 0
    report = json.loads(capsys.readouterr().out)["names"]
    assert report["photos"] == 12
    model = regiontalk.load(named, threads=1)
    assert report["names"] == len(model.names) > 1
    (region,) = model.name(Dataset(folder).read_photo(Dataset(folder)[0])).regions
    assert region.names[0].name in model.names
    again = tmp_path / "again"
    calibrate = [
        "fit",
        str(named),
        str(well_scored),
        "--only",
        "calibration",
        "--split",
        "train",
        "-o",
        str(again),
    ]
    assert run([*calibrate, "-q"]) == 0
    assert regiontalk.load(again, threads=1).names == model.names


def test_colours_are_fitted_on_request_and_kept_by_later_fits(
    scenes: Path,
    well_scored: Path,
    tiny_model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(scenes, folder)
    records = [record.to_dict() for record in Dataset(folder)]
    for record in records:
        for region in record["regions"]:
            region["type"] = "other"
    (folder / "annotations.jsonl").write_text(
        "".join(json.dumps(record) + "\n" for record in records)
    )
    coloured = tmp_path / "coloured"
    on_train = ("--only", "colours", "--split", "train", "-o", str(coloured))
    assert run(["fit", str(tiny_model), str(folder), *on_train, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["colours"]
    assert report["photos"] == 12
    assert report["right"] > 50, "drawn shapes have one colour each"
    colours = regiontalk.load(coloured, threads=1).runtime.colours
    assert colours is not None
    assert set(colours.names) <= set(COLOURS)
    assert (coloured / "model.json").read_bytes() == (tiny_model / "model.json").read_bytes()
    again = tmp_path / "again"
    on_train = ("--only", "calibration", "--split", "train", "-o", str(again))
    assert run(["fit", str(coloured), str(well_scored), *on_train, "-q"]) == 0
    kept = regiontalk.load(again, threads=1).runtime.colours
    assert kept is not None
    assert kept.names == colours.names
    assert np.allclose(kept.weights, colours.weights, atol=0.02 * np.abs(colours.weights).max())
