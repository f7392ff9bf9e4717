"""`regiontalk evaluate alignment`, `naming`, `grounding` and `vector-lengths`."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import regiontalk
from regiontalk.cli.main import run
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.evaluation import vector_lengths
from regiontalk.lab.runs import read_looks
from regiontalk.lab.training.checkpoints import find_checkpoint


@pytest.fixture
def options(sentences_run: Path, untrained_run: Path) -> list[str]:
    return [
        "--codes",
        str(sentences_run / "codes.npz"),
        "--truth",
        str(untrained_run / "data"),
        "--split",
        "dev",
    ]


def test_ranking_is_the_mean_of_the_best(alignment_run: Path, options: list[str], capsys) -> None:
    assert run(["evaluate", "alignment", str(alignment_run), *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["images"], found["models"]) == (4, 2)
    assert set(found["image_to_text"]) == {"r1", "r5", "r10", "median_rank"}
    assert (
        run(
            [
                "evaluate",
                "alignment",
                str(alignment_run),
                *options,
                "--first",
                "3",
                "--device",
                "cpu",
            ]
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert "sentence → image" in shown
    assert "3 images" in shown


def test_a_model_reads_codes_that_it_made_instead_of_looking_again(
    aligning_model: Path, options: list[str], capsys
) -> None:
    answers = []
    for given in (options, options[2:]):
        assert run(["evaluate", "alignment", str(aligning_model), *given, "--json"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1]


def test_codes_of_another_model_are_refused(
    aligning_model: Path, sentences_run: Path, options: list[str], tmp_path: Path, capsys
) -> None:
    other = replace(CodedPhotos.load(sentences_run / "codes.npz"), detector="another")
    other.save(tmp_path / "other.npz")
    of_other = ["--codes", str(tmp_path / "other.npz"), *options[2:]]
    assert run(["evaluate", "alignment", str(aligning_model), *of_other]) == 6
    assert "another detector" in capsys.readouterr().err


def write_entities(scenes: Path, folder: Path) -> int:
    """Drawn scenes as a download of Flickr30k Entities; how many phrases they have."""
    (folder / "Annotations").mkdir(parents=True)
    (folder / "Sentences").mkdir()
    dataset = Dataset(scenes, "dev")
    for record in dataset:
        name = Path(record.image).stem
        (folder / record.image).write_bytes(dataset.read_photo(record))
        objects = [
            f"<object><name>{number}</name><bndbox><xmin>{x0 + 1}</xmin><ymin>{y0 + 1}</ymin><xmax>{x1}</xmax>"
            f"<ymax>{y1}</ymax></bndbox></object>"
            for number, (x0, y0, x1, y1) in enumerate(region.xyxy for region in record.regions)
        ]
        (folder / "Annotations" / f"{name}.xml").write_text(
            f"<annotation><filename>{record.image}</filename><size><width>{record.width}</width>"
            f"<height>{record.height}</height></size>{''.join(objects)}</annotation>"
        )
        marked = [
            f"[/EN#{number}/other {region.phrase}]" for number, region in enumerate(record.regions)
        ]
        (folder / "Sentences" / f"{name}.txt").write_text(" and ".join(marked) + " .\n")
    return sum(len(record.regions) for record in dataset)


def test_grounding_on_a_prepared_data_set(
    alignment_run: Path, untrained_run: Path, tiny_model: Path, tmp_path: Path, capsys
) -> None:
    phrases = write_entities(untrained_run / "data", tmp_path / "entities")
    data, codes = str(tmp_path / "data"), str(tmp_path / "codes.npz")
    assert run(["data", "prepare", "flickr30k-entities", str(tmp_path / "entities"), data]) == 0
    assert run(["data", "check", data]) == 0
    assert run(["data", "codes", data, codes, "--model", str(tiny_model)]) == 0
    capsys.readouterr()
    options = ["--codes", codes, "--truth", data, "--split", "train"]
    assert run(["evaluate", "grounding", str(alignment_run), *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mentions"] == phrases
    assert set(found["types"]) == {"other"}
    assert run(["evaluate", "grounding", str(alignment_run), *options, "--beta", "0.1"]) == 0
    assert "centre box" in capsys.readouterr().out
    assert (
        run(["evaluate", "grounding", str(alignment_run), *options, "--place-weight", "0.5"]) == 0
    )


@pytest.fixture
def phrased(untrained_run: Path, tmp_path: Path) -> Path:
    """The data set of `untrained_run` with every phrase as a sentence of its own."""
    shutil.copytree(untrained_run / "data", tmp_path / "data")
    path = tmp_path / "data" / "annotations.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        record["entity_sentences"] = [region["phrase"] for region in record["regions"]]
        for number, region in enumerate(record["regions"]):
            region |= {"sentences": [number], "type": "shape"}
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return tmp_path / "data"


@pytest.mark.parametrize("verb", ["alignment", "grounding"])
def test_a_model_folder_is_measured_by_looking_at_the_photos(
    verb: str, alignment_run: Path, aligning_model: Path, sentences_run: Path, phrased: Path, capsys
) -> None:
    """Its head is the run's best checkpoint, and the run's codes come from its detector: the
    figures are the same."""
    options = ["--truth", str(phrased), "--split", "dev", "--json"]
    codes = ["--codes", str(sentences_run / "codes.npz")]
    checkpoint = find_checkpoint(alignment_run)
    assert run(["evaluate", verb, str(checkpoint), *options, *codes]) == 0
    from_codes = json.loads(capsys.readouterr().out)
    assert run(["evaluate", verb, str(aligning_model), *options]) == 0
    found = json.loads(capsys.readouterr().out)
    assert ("chain" in found) == (verb == "grounding")
    assert found == from_codes


def test_figures_and_looks_are_kept(
    alignment_run: Path, sentences_run: Path, untrained_run: Path, tmp_path: Path, capsys
) -> None:
    shutil.copytree(alignment_run, tmp_path / "run")
    text = (untrained_run / "data" / "annotations.jsonl").read_text()
    (tmp_path / "annotations.jsonl").write_text(text.replace('"dev"', '"test"'))
    options = ["--codes", str(sentences_run / "codes.npz"), "--truth", str(tmp_path)]
    assert (
        run(
            [
                "evaluate",
                "alignment",
                str(tmp_path / "run"),
                *options,
                "--record",
                str(tmp_path / "kept"),
            ]
        )
        == 0
    )
    stored = json.loads((tmp_path / "kept" / "metrics.json").read_text())
    assert (stored["kind"], stored["models"]) == ("ranking", 2)
    assert [one["role"] for one in stored["record"]["inputs"]] == ["codes", "model", "model"]
    assert len(read_looks(tmp_path / "run")) == len(read_looks(tmp_path / "kept")) == 1


def test_a_run_needs_codes(alignment_run: Path, options: list[str], capsys) -> None:
    assert run(["evaluate", "alignment", str(alignment_run), *options[2:]]) == 2
    assert "--codes FILE" in capsys.readouterr().err


def test_grounding_needs_phrases(alignment_run: Path, options: list[str], capsys) -> None:
    assert run(["evaluate", "grounding", str(alignment_run), *options]) == 4
    assert "no phrase" in capsys.readouterr().err


def test_vector_lengths_are_drawn(
    alignment_run: Path, options: list[str], tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_lengths, "MIN_OCCURRENCES", 1)
    picture = tmp_path / "words.svg"
    assert (
        run(["evaluate", "vector-lengths", str(alignment_run), *options, "-o", str(picture)]) == 0
    )
    assert "longest of" in capsys.readouterr().out
    assert picture.read_text().startswith("<svg")


def test_what_is_no_run(tmp_path: Path, options: list[str], shaken_checkpoint: Path) -> None:
    assert run(["evaluate", "alignment", str(tmp_path), *options]) == 6
    assert run(["evaluate", "alignment", str(shaken_checkpoint), *options]) == 6


def test_names_straight_from_a_model(
    tiny_model: Path, phrased: Path, tmp_path: Path, capsys
) -> None:
    """The same figures as from a file with what `caption` says of the boxes; the run names the
    model."""
    path = phrased / "annotations.jsonl"
    path.write_text(path.read_text().replace('"shape"', '"object"'))
    model, data = regiontalk.load(tiny_model), Dataset(phrased, "dev")
    with (tmp_path / "said.jsonl").open("w") as file:
        for record in data:
            found = model(data.read_photo(record), boxes=[region.xyxy for region in record.regions])
            file.write(json.dumps(found.to_dict() | {"path": record.image}) + "\n")
    options = [
        "evaluate",
        "names",
        "--data",
        str(phrased),
        "--split",
        "dev",
        "--smallest",
        "0",
        "--json",
    ]
    assert run([*options, "--predictions", str(tmp_path / "said.jsonl")]) == 0
    from_file = json.loads(capsys.readouterr().out)
    assert run([*options, "--model", str(tiny_model), "--record", str(tmp_path / "kept")]) == 0
    assert json.loads(capsys.readouterr().out) == from_file
    assert (from_file["missing"], from_file["objects"]) == (
        0,
        sum(len(record.regions) for record in data),
    )
    stored = json.loads((tmp_path / "kept" / "metrics.json").read_text())
    assert (stored["kind"], stored["settings"]) == (
        "names",
        {"boxes": "true", "smallest": 0, "longest_side": None},
    )
    assert [one["role"] for one in stored["record"]["inputs"]] == ["model"]


def test_names_come_from_a_file_or_from_a_model(phrased: Path, tiny_model: Path) -> None:
    options = ["evaluate", "names", "--data", str(phrased)]
    assert run(options) == 2
    assert (
        run(
            [
                *options,
                "--model",
                str(tiny_model),
                "--predictions",
                str(phrased / "annotations.jsonl"),
            ]
        )
        == 2
    )
    assert run([*options[:3], str(phrased / "annotations.jsonl"), "--model", str(tiny_model)]) == 2
    assert run([*options, "--model", str(phrased)]) == 6


def test_two_towers_rank_photos_by_both_scores(
    towers_run: Path, towers_desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    on_data = ["--truth", str(towers_desk / "data"), "--split", "dev", "--device", "cpu"]
    assert run(["evaluate", "alignment", str(towers_run), *on_data, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["images"], figures["sentences"]) == (16, 16)
    log = [json.loads(line) for line in (towers_run / "log.jsonl").read_text().splitlines()]
    best = max((line["dev"] for line in log if "dev" in line), key=lambda dev: float(dev["r1"]))
    for name, figure in {
        "": figures,
        "global_": figures["global"],
        "words_": figures["words"],
    }.items():
        mean = (figure["image_to_text"]["r1"] + figure["text_to_image"]["r1"]) / 2
        assert mean == pytest.approx(best[f"{name}r1"])
    assert run(["evaluate", "alignment", str(towers_run), *on_data, "--first", "5"]) == 0
    shown = capsys.readouterr().out
    assert "5 images" in shown
    assert "by words and patches" in shown


def test_two_towers_name_boxes(
    towers_run: Path, named_scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "evaluate",
        "naming",
        str(towers_run),
        "--truth",
        str(named_scenes),
        "--smallest",
        "0",
    ]
    command += ["--split", "dev", "--device", "cpu"]
    assert run([*command, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["names"] == 4
    assert figures["right"] > 40  # chance: 25
    names = tmp_path / "names.txt"
    names.write_text("red\nblue\nred\n\n", encoding="utf-8")
    assert run([*command, "--names", str(names), "--longest-side", "32"]) == 0
    assert "among 2 names" in capsys.readouterr().out
    names.write_text("\n \n", encoding="utf-8")
    assert run([*command, "--names", str(names)]) == 2
    assert "no names in it" in capsys.readouterr().err
