from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regiontalk.errors import DataError
from regiontalk.evaluation.tables import markdown_table, read_runs, render, update_page

YARDSTICKS = {
    "constant": {"caption": "a man", "map": 0.17, "map_strict": 0.016},
    "human": {"truths": 9, "map": 0.547, "map_strict": 0.458},
}
DENSE = {
    "kind": "dense",
    "recipe": "recipes/compact.toml",
    "commit": "abc123",
    "data": "flickr8k_entities, test",
    "device": "a GPU",
    "seconds": 12.5,
    "notes": "two | bars\nand lines",
    "dense": {"map": 0.2, "map_strict": 0.1, "detection_map": 0.4, "meteor": 0.25, "yardsticks": YARDSTICKS},
    "ground_truth_boxes": {"map": 0.35, "map_strict": 0.224, "meteor": 0.3},
    "proposal_recall": {"100": {"0.5": 0.88}, "300": {"0.5": 0.939, "0.7": 0.772}},
}
RANKING = {
    "kind": "ranking",
    "data": "Flickr8k",
    "image_to_text": {"r1": 30.0, "r5": 63.1, "r10": 76.3, "median_rank": 3},
    "text_to_image": {"r1": 24.8, "r5": 55.3, "r10": 69.0, "median_rank": 4},
}


def runs(folder: Path, **found: Any) -> Path:
    for name, run in found.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "metrics.json").write_text(json.dumps(run))
    return folder


def rows(text: str, start: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith(f"| {start}")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def page(tmp_path: Path, **found: Any) -> str:
    return render(read_runs(runs(tmp_path / "runs", **found)))


def test_a_dense_run_with_its_yardsticks(tmp_path: Path) -> None:
    text = page(tmp_path, compact=DENSE)
    figures = ["20.00", "10.00", "40.00", "0.250", "35.00", "22.40", "0.300"]
    assert rows(text, "**compact**")[0] == ["**compact**", "flickr8k_entities, test", *figures]
    constant = rows(text, "*yardstick: “a man” everywhere*")[0]
    assert constant[2:] == ["–", "–", "–", "–", "17.00", "1.60", "–"]
    assert rows(text, "*yardstick: a left-out person*")[0][6:8] == ["54.70", "45.80"]
    assert "do not compare with Visual Genome" in text
    assert "5.39" not in text  # published on Visual Genome alone


def test_visual_genome_runs_stand_beside_the_published_ones(tmp_path: Path) -> None:
    text = page(tmp_path, ours=DENSE | {"data": "visual-genome 1.0"})
    assert rows(text, "FCLN, RPN boxes")[0][2] == "5.39"
    assert "unconfirmed" in rows(text, "CAG-Net")[0][0]


def test_the_evaluators_own_object_is_a_run_too(tmp_path: Path) -> None:
    text = page(tmp_path, plain={"kind": "dense", "map": 0.5, "map_strict": 0.25})
    assert rows(text, "**plain**")[0][2:4] == ["50.00", "25.00"]


def test_proposal_recall_has_a_column_for_every_setting(tmp_path: Path) -> None:
    other = {"kind": "proposals", "proposal_recall": {"300": {"0.5": 0.5}}}
    text = page(tmp_path, compact=DENSE, other=other)
    table = text.split("## Recall of proposals")[1].split("##")[0]
    assert "| 100 at IoU 0.5 | 300 at IoU 0.5 | 300 at IoU 0.7 |" in table
    assert rows(table, "**compact**")[0][2:] == ["88.00", "93.90", "77.20"]
    assert rows(table, "**other**")[0][2:] == ["–", "50.00", "–"]


def test_ranking_stands_beside_the_published_rows_of_the_same_photos(tmp_path: Path) -> None:
    text = page(tmp_path, **{"align-brnn": RANKING})
    ours = ["30.0", "63.1", "76.3", "3.0", "24.8", "55.3", "69.0", "4.0"]
    assert rows(text, "**align-brnn**")[0][2:] == ours
    assert rows(text, "BRNN (K&FF)")[0][2] == "16.5"
    assert "SCAN" not in text  # Flickr30k


def test_other_kinds_show_their_figures(tmp_path: Path) -> None:
    speed = {"kind": "speed", "device": "H200", "milliseconds": 4.4321, "seconds": 60, "batch": 1}
    text = page(tmp_path, fast=speed)
    assert "| run | device | milliseconds | batch |" in text
    assert rows(text, "**fast**")[0] == ["**fast**", "H200", "4.432", "1"]
    assert rows(text, "FCLN, 300 proposals")[0][1:] == ["Titan X", "240", "–"]


def test_every_run_is_told_about(tmp_path: Path) -> None:
    text = page(tmp_path, compact=DENSE)
    about = text.split("## The runs")[1]
    assert "abc123" in about
    assert "two \\| bars and lines" in about


def test_no_runs_make_an_empty_page(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    assert render(read_runs(tmp_path / "runs")).startswith("# Results")


def test_the_check_notices_an_old_page(tmp_path: Path) -> None:
    folder = runs(tmp_path / "runs", compact=DENSE)
    out = tmp_path / "results.md"
    with pytest.raises(DataError, match="out of date"):
        update_page(folder, out, check=True)
    update_page(folder, out)
    update_page(folder, out, check=True)
    runs(folder, second=RANKING)
    with pytest.raises(DataError, match="out of date"):
        update_page(folder, out, check=True)
    assert "**second**" not in out.read_text()


@pytest.mark.parametrize("text", ["{", "[]", '{"map": 1}'])
def test_a_broken_run_is_named(tmp_path: Path, text: str) -> None:
    folder = runs(tmp_path / "runs", good=RANKING, bad={})
    (folder / "bad" / "metrics.json").write_text(text)
    with pytest.raises(DataError, match=r"bad/metrics\.json"):
        read_runs(folder)


def test_markdown_cells_stay_in_their_cells() -> None:
    assert markdown_table(["a", "b"], [["x|y", "1\n2"]]) == "| a | b |\n| --- | ---: |\n| x\\|y | 1 2 |"


def test_the_kept_results_page_is_what_the_kept_runs_give() -> None:
    docs = Path(__file__).parents[2] / "docs"
    update_page(docs / "runs", docs / "results.md", check=True)


def test_grounding_is_also_shown_by_type(tmp_path: Path) -> None:
    people, both = {"people": {"accuracy": 0.6}}, {"people": {"accuracy": 0.5}, "animals": {"accuracy": 0.25}}
    found = {
        name: {"kind": "grounding", "accuracy": 0.5, "types": types} for name, types in (("a", people), ("b", both))
    }
    table = page(tmp_path, **found).split("by type")[1].split("##")[0]
    assert "| run | data | animals | people |" in table
    assert rows(table, "**a**")[0][2:] == ["–", "60.00"]
    assert rows(table, "**b**")[0][2:] == ["25.00", "50.00"]


def test_sentences_say_how_many_stand_in_the_training_data(tmp_path: Path) -> None:
    text = page(tmp_path, ours={"kind": "captions", "data": "mine", "cider": 0.5, "in_training": 0.125})
    assert rows(text, "**ours**")[0][-1] == "12.50"
