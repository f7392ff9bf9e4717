"""`regiontalk predict`: what it writes, which checkpoint it takes, how it fails."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regiontalk
from regiontalk.cli.main import run
from regiontalk.errors import ModelError
from regiontalk.lab.data.merging import merge_regions
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.training.checkpoints import find_checkpoint

STEP = "step-00000000"
ON_DEV = ["predict", "run", "data", "--split", "dev", "-o", "out.jsonl"]


def predicted(*options: str) -> list[dict[str, Any]]:
    assert run([*ON_DEV, "-q", *options]) == 0
    return [json.loads(line) for line in Path("out.jsonl").read_text(encoding="utf-8").splitlines()]


def scores_of(photos: list[dict[str, Any]]) -> list[list[float]]:
    return [[region["score"] for region in photo["regions"]] for photo in photos]


def change_state(change: Callable[[dict[str, Any]], None]) -> None:
    path = Path("run", "checkpoints", STEP, "state.json")
    state = json.loads(path.read_text())
    change(state)
    path.write_text(json.dumps(state))


def test_every_photo_of_the_split_has_a_line(desk_with_run: Path) -> None:
    photos = predicted()
    records = {record.image: record for record in Dataset("data", "dev")}
    assert [photo["path"] for photo in photos] == sorted(records)
    for photo in photos:
        record = records[photo["path"]]
        assert (photo["width"], photo["height"]) == (record.width, record.height)
        assert (photo["schema"], photo["model"]) == ("regiontalk/1", STEP)
        boxes = np.array([region["xyxy"] for region in photo["regions"]])
        assert 0 < len(boxes) <= 50
        assert (boxes >= 0).all()
        assert (boxes <= [record.width, record.height] * 2).all()
    assert all(scores == sorted(scores, reverse=True) for scores in scores_of(photos))


def test_the_evaluator_takes_the_output(
    desk_with_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos = predicted()
    files = ["--truth", "data", "--split", "dev", "--predictions", "out.jsonl"]
    assert run(["evaluate", "dense", *files, "--without", "meteor", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["images"] == 4
    assert result["detections"] == sum(len(photo["regions"]) for photo in photos), (
        "none was refused"
    )


def test_workers_change_nothing_but_speed(desk_with_run: Path) -> None:
    assert predicted("-j", "3") == predicted()


def test_a_model_folder_and_its_checkpoint_give_the_same(
    desk_with_run: Path, shaken_checkpoint: Path, tiny_model: Path
) -> None:
    for options in ([], ["--regions", "truth"], ["--beam", "3"]):
        photos = []
        for place in (shaken_checkpoint, tiny_model):
            assert run(["predict", str(place), *ON_DEV[2:], "-q", *options]) == 0
            photos.append(
                [
                    json.loads(line)
                    for line in Path("out.jsonl").read_text(encoding="utf-8").splitlines()
                ]
            )
        for ours, theirs in zip(*photos, strict=True):
            found = [[region["caption"] for region in photo["regions"]] for photo in (ours, theirs)]
            assert found[0] == found[1]
            for key, tolerance in (("xyxy", 0.02), ("score", 1e-4), ("logprob", 2e-3)):
                values = ([region[key] for region in photo["regions"]] for photo in (ours, theirs))
                np.testing.assert_allclose(*values, atol=tolerance)


def test_sentences_are_those_of_describe(desk_with_run: Path, speaking_model: Path) -> None:
    assert (
        run(["predict", str(speaking_model), *ON_DEV[2:], "-q", "--sentences", "--beam", "2"]) == 0
    )
    found = {
        line["path"]: line
        for line in map(json.loads, Path("out.jsonl").read_text(encoding="utf-8").splitlines())
    }
    dataset, model = Dataset("data", "dev"), regiontalk.load(speaking_model)
    assert set(found) == {record.image for record in dataset}
    for record in dataset:
        expected = model.describe(dataset.read_photo(record), beam=2)
        assert (found[record.image]["sentence"], found[record.image]["logprob"]) == (
            expected.sentence,
            round(expected.logprob, 4),
        )


def test_on_truths_the_boxes_are_the_merged_true_ones(desk_with_run: Path) -> None:
    for photo, record in zip(predicted("--regions", "truth"), Dataset("data", "dev"), strict=True):
        true_boxes = sorted(region.xyxy for region in merge_regions(record).regions)
        found = sorted(region["xyxy"] for region in photo["regions"])
        np.testing.assert_allclose(found, true_boxes, atol=0.02)
        assert all(isinstance(region["caption"], str) for region in photo["regions"])


def test_the_best_checkpoint_is_taken_else_the_newest(desk_with_run: Path) -> None:
    checkpoints = Path("run", "checkpoints")
    shutil.copytree(checkpoints / STEP, checkpoints / "step-00000007")
    assert find_checkpoint(Path("run")).name == "step-00000007"
    assert find_checkpoint(checkpoints).name == "step-00000007"
    assert find_checkpoint(checkpoints / STEP).name == STEP
    newest = checkpoints / "step-00000007" / "state.json"
    state = json.loads(newest.read_text())
    newest.write_text(json.dumps(state | {"best": [{"step": 0, "value": 0.5}]}))
    assert find_checkpoint(Path("run")).name == STEP
    newest.write_text(json.dumps(state | {"best": [{"step": 3, "value": 0.5}]}))
    assert find_checkpoint(Path("run")).name == "step-00000007", "the best one was deleted"
    with pytest.raises(ModelError, match="no checkpoint here"):
        find_checkpoint(Path("data"))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["none", "data", "--split", "dev", "-o", "out.jsonl"], 6, "none: no such model folder"),
        (["run", "none", "-o", "out.jsonl"], 4, "none: no data set here"),
        (["run", "data", "-o", "out.jsonl"], 4, "data: no image in split test"),
        (["run", "data"], 2, "Missing option '-o'"),
        (["run", "data", "-o", "data"], 2, "is a directory"),
        (
            ["run", "data", "--split", "dev", "-o", "data/annotations.jsonl/x"],
            2,
            "cannot be written",
        ),
        (
            ["run", "data", "--split", "dev", "-o", "out.jsonl", "--codes", "x.npz"],
            2,
            "--codes is for runs of kind",
        ),
        (
            ["run", "data", "-o", "out.jsonl", "--regions", "truth", "--sentences"],
            2,
            "cannot be used with --sentences",
        ),
        (
            ["run", "data", "--split", "dev", "-o", "out.jsonl", "--sentences"],
            6,
            "no head 'sentence'",
        ),
    ],
)
def test_a_failure_is_one_line_an_exit_code_and_nothing_written(
    desk_with_run: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    before = sorted(desk_with_run.rglob("*"))
    assert run(["predict", *arguments, "-q"]) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert sorted(desk_with_run.rglob("*")) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda state: state["recipe"]["net"].update(channels=32),
            "weights of another architecture",
        ),
        (lambda state: state.update(kind="alignment"), "a checkpoint of kind 'alignment'"),
        (lambda state: state.update(format=99), "a checkpoint of format 99"),
    ],
)
def test_another_net_is_refused(
    desk_with_run: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[dict[str, Any]], None],
    message: str,
) -> None:
    change_state(change)
    assert run([*ON_DEV, "-q"]) == 6
    assert message in capsys.readouterr().err


def test_a_run_that_fails_leaves_the_old_output_alone(
    desk_with_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("out.jsonl").write_text("old")
    annotations = Path("data", "annotations.jsonl")
    annotations.write_text(annotations.read_text().replace("scene-00009", "scene-99999"))
    before = sorted(desk_with_run.rglob("*"))
    assert run([*ON_DEV, "-q"]) == 4
    assert "scene-99999.png" in capsys.readouterr().err
    assert Path("out.jsonl").read_text() == "old"
    assert sorted(desk_with_run.rglob("*")) == before


def test_without_torch_the_extra_is_named(
    desk_with_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(ON_DEV) == 7
    assert "pip install 'regiontalk[train]'" in capsys.readouterr().err


def write_regions(**changes: Any) -> None:
    """A file with the true boxes of the dev photos, which is not in their order."""
    lines = []
    for record in reversed(list(Dataset("data", "dev"))):
        regions = [{"xyxy": list(region.xyxy), "score": 0.5} for region in record.regions]
        lines.append(
            {
                "path": record.image,
                "width": record.width,
                "height": record.height,
                "regions": regions,
            }
        )
    lines[0] |= changes
    Path("regions.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")


def test_regions_of_a_file_take_the_place_of_proposals(desk_with_run: Path) -> None:
    write_regions()
    own, given = predicted(), predicted("--regions", "regions.jsonl")
    counts = [len(record.regions) for record in Dataset("data", "dev")]
    assert all(
        0 < len(photo["regions"]) <= count for photo, count in zip(given, counts, strict=True)
    )
    assert given != own
    record = json.loads(Path("out.run.json").read_text())
    assert record["settings"]["boxes"] == "regions.jsonl"
    assert "regions" in {used["role"] for used in record["inputs"]}


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"width": 7}, 4, "boxes for 7×"),
        ({"path": "elsewhere.png"}, 4, "no regions of"),
    ],
)
def test_wrong_files_of_regions(
    desk_with_run: Path,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    code: int,
    said: str,
) -> None:
    write_regions(**changes)
    assert run([*ON_DEV, "--regions", "regions.jsonl"]) == code
    assert said in capsys.readouterr().err


def test_regions_that_are_nowhere(desk_with_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ON_DEV, "--regions", "nowhere.jsonl"]) == 2
    assert "--regions nowhere.jsonl: no such file" in capsys.readouterr().err


def test_edge_boxes_need_their_extra(
    desk_with_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "cv2" else found(name)
    )
    assert run([*ON_DEV, "--regions", "edgeboxes"]) == 7
    assert "regiontalk[edgeboxes]" in capsys.readouterr().err
