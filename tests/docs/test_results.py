"""docs/results.py lays out what runs recorded, and refuses what does not hold together."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from markdown_page import markdown_table, update
from recorded_runs import read_runs, recipe_differences
from results import pages, render, render_details, render_old
from run_page import about_run

from regiontalk.lab.runs import RunRecord, keep_metrics, log_test_look
from regiontalk.lab.training.recipe import load_recipe, to_dict

PROGRAM = "docs/results.py"
ROOT = Path(__file__).parents[2]
PUBLISHED = tomllib.loads((ROOT / "docs" / "published.toml").read_text(encoding="utf-8"))
TINY = Path("recipes/tiny.toml")
PROGRAM = {"version": "1.0", "commit": "abc123", "clean": True}
RECORD = {
    "verb": "evaluate dense",
    "command": "regiontalk evaluate dense",
    "seconds": 1,
    "device": "a CPU",
    "program": PROGRAM,
    "data": [],
    "inputs": [],
}
BY_HAND = {"recorded": "by hand", "commit": "abc123", "notes": "two | bars\nand lines"}
DENSE = {
    "kind": "dense",
    "record": RECORD,
    "data": "flickr8k_entities, test (9 photos)",
    "map": 0.2,
    "map_strict": 0.1,
    "detection_map": 0.4,
    "meteor": 0.25,
    "reference_scores": {
        "constant": {"caption": "a man", "map": 0.17, "map_strict": 0.016},
        "human": {"truths": 9, "map": 0.547, "map_strict": 0.458},
    },
}
OLD = {key: value for key, value in DENSE.items() if key != "record"} | BY_HAND
RANKING = {
    "kind": "ranking",
    "record": RECORD,
    "data": "Flickr8k",
    "image_to_text": {"r1": 30.0, "r5": 63.1, "r10": 76.3, "median_rank": 3},
    "text_to_image": {"r1": 24.8, "r5": 55.3, "r10": 69.0, "median_rank": 4},
}


def write_runs(folder: Path, **found: Any) -> Path:
    for name, run in found.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "metrics.json").write_text(json.dumps(run))
    return folder


def rows(text: str, start: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith(f"| {start}")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def stored(tmp_path: Path, **found: Any) -> list[Any]:
    return read_runs(write_runs(tmp_path / "runs", **found))


def page(tmp_path: Path, **found: Any) -> str:
    return render(stored(tmp_path, **found), PUBLISHED)


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of runs with one that the program recorded on test, by a net of recipes/tiny.toml
    with a change."""
    monkeypatch.chdir(ROOT)
    data = tmp_path / "toy.jsonl"
    data.write_text("{}\n")
    trained = RunRecord("train")
    trained.uses_recipe(TINY, ["run.steps=7"], to_dict(load_recipe(TINY, ("run.steps=7",))))
    record = RunRecord("evaluate dense")
    record.uses_data(data, "test", 9)
    record.values["inputs"].append(
        {"role": "model", "path": "m", "sha256": "0" * 64, "record": trained.finish()}
    )
    folder = tmp_path / "runs" / "mine"
    figures = {"map": 0.125, "map_strict": 0.1}
    keep_metrics(folder, "dense", figures, record, "a remark")
    log_test_look(record, "dense", figures, folder)
    return tmp_path / "runs"


def test_the_kept_page_is_what_the_kept_runs_give() -> None:
    update(PROGRAM, pages(ROOT / "docs"), check=True)


def test_the_check_notices_an_old_page_and_old_curves(tmp_path: Path) -> None:
    shutil.copy(ROOT / "docs" / "published.toml", tmp_path)
    write_runs(tmp_path / "runs", mine=DENSE)
    with pytest.raises(SystemExit, match=r"results\.md is out of date"):
        update(PROGRAM, pages(tmp_path), check=True)
    update(PROGRAM, pages(tmp_path))
    update(PROGRAM, pages(tmp_path), check=True)
    (tmp_path / "runs" / "mine" / "log.jsonl").write_text('{"step": 3, "loss": 2.0}\n')
    update(PROGRAM, pages(tmp_path))
    assert "(curves.svg)" in (tmp_path / "runs" / "mine" / "README.md").read_text()
    (tmp_path / "runs" / "mine" / "log.jsonl").write_text(
        '{"step": 3, "loss": 1.0}\n{"step": 3, "loss": 9.0}\n'
    )
    with pytest.raises(SystemExit, match=r"curves\.svg is out of date"):
        update(PROGRAM, pages(tmp_path), check=True)


def test_a_run_written_down_by_hand_is_an_old_one(tmp_path: Path) -> None:
    runs = stored(tmp_path, mine=OLD)
    assert "mine" not in render(runs, PUBLISHED)
    assert "mine" not in render_details(runs, PUBLISHED)
    assert rows(render_old(runs), "[mine]")[0] == [
        "[mine](runs/mine/README.md)",
        *("test (9 photos)", "20.00", "10.00", "40.00", "0.250", "≥ 0×", "written down by hand"),
    ]
    about = about_run(runs[0])
    assert "- record: written down by hand" in about
    assert "abc123" in about


def test_a_run_that_the_program_recorded_shows_its_whole_way(recorded: Path) -> None:
    runs = read_runs(recorded)
    text = render(runs, PUBLISHED)
    row = rows(text, "[mine](runs/mine/README.md) <sup>1</sup>")[0]
    assert (row[2], row[-2]) == ("12.50", "1×")
    assert "1. A remark." in text
    about = about_run(runs[0])
    assert "recipes/tiny.toml, but run.steps = 7 (now 400)" in about
    assert about.index("- train:") < about.index("- evaluate dense:")


def test_looks_at_test_are_counted(recorded: Path) -> None:
    looks = recorded / "mine" / "test-looks.jsonl"
    looks.write_text(looks.read_text() * 3)
    assert rows(render(read_runs(recorded), PUBLISHED), "[mine]")[0][-2] == "3×"


def change(recorded: Path, **values: Any) -> None:
    """Changes the recipe in the kept record."""
    path = recorded / "mine" / "metrics.json"
    run = json.loads(path.read_text())
    recipe = run["record"]["inputs"][0]["record"]["recipe"]
    recipe |= values
    path.write_text(json.dumps({**run}))


def test_a_recipe_that_was_changed_afterwards_is_refused(recorded: Path) -> None:
    change(recorded, as_used={"run": {"steps": 9}})
    with pytest.raises(
        SystemExit, match=r"mine/metrics\.json: the recipe in the record was changed"
    ):
        read_runs(recorded)


def test_a_record_without_its_recipe_as_used_is_refused(recorded: Path) -> None:
    path = recorded / "mine" / "metrics.json"
    path.write_text(path.read_text().replace('"as_used"', '"used"'))
    with pytest.raises(SystemExit, match="lacks the recipe as used"):
        read_runs(recorded)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"recorded": None}, "neither a record nor marked"),
        ({"recipe": "recipes/none.toml"}, "there is no recipes/none"),
    ],
)
def test_a_run_that_says_too_little_is_refused(
    tmp_path: Path, changed: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SystemExit, match=problem):
        page(tmp_path, bad=OLD | changed)


@pytest.mark.parametrize("text", ["{", "[]", '{"map": 1}'])
def test_a_broken_run_is_named(tmp_path: Path, text: str) -> None:
    folder = write_runs(tmp_path / "runs", good=RANKING, bad={})
    (folder / "bad" / "metrics.json").write_text(text)
    with pytest.raises(SystemExit, match=r"bad/metrics\.json"):
        read_runs(folder)


def test_a_recipe_as_in_its_file_has_no_differences() -> None:
    used = {"file": str(TINY), "as_used": json.loads(json.dumps(to_dict(load_recipe(ROOT / TINY))))}
    assert recipe_differences(used) == []
    del used["as_used"]["augmentation"]  # a key that came later
    assert recipe_differences(used) == []
    assert recipe_differences(used | {"file": "mine/own.toml"}) is None


def test_true_boxes_have_a_table_with_reference_scores(tmp_path: Path) -> None:
    text = page(tmp_path, mine=DENSE, given=DENSE | {"settings": {"boxes": "true"}})
    own, true = text.split("### Dense captioning on true boxes")
    assert "[given]" not in own
    assert rows(true, "[given]")[0][2:4] == ["20.00", "10.00"]
    assert rows(true, "*reference: “a man” everywhere*")[0][2:4] == ["17.00", "1.60"]
    assert rows(true, "*reference: a held-out person*")[0][2:4] == ["54.70", "45.80"]


def test_published_figures_on_other_photos_stand_apart(tmp_path: Path) -> None:
    text = page(tmp_path, mine=DENSE)
    assert "Published on Visual Genome: other photos, not comparable" in text
    name, edge_boxes, rpn, *_ = rows(text, "FCLN trained on EdgeBoxes")[0]
    assert (edge_boxes, rpn) == ("4.88", "3.21")
    assert "paper" in name


def test_published_figures_on_the_same_photos_stand_beside_ours(tmp_path: Path) -> None:
    text = page(tmp_path, **{"align-brnn": RANKING}).split("Published on")[0]
    ours = ["30.0", "63.1", "76.3", "3.0", "24.8", "55.3", "69.0", "4.0"]
    assert rows(text, "[align-brnn]")[0][3:11] == ours
    assert rows(text, "BRNN (K&FF)")[0][3] == "16.5"
    assert "SCAN" not in text  # on Flickr30k


def test_the_first_screen_sets_ours_beside_the_published_figure(tmp_path: Path) -> None:
    first = page(tmp_path, vit=DENSE).split("## DenseCap")[0]
    cells = rows(first, "**Dense captioning, mAP**")[0]
    assert cells[1:3] == ["**20.00**", "5.39 (FCLN, other photos)"]
    assert "10.00 where METEOR ≥ .1" in cells[3]
    assert cells[4] == "complete"
    assert "do not compare with Visual Genome" in first


def test_dev_runs_and_former_models_are_in_the_details(tmp_path: Path) -> None:
    dev = DENSE | {"data": "flickr8k_entities, dev (9 photos)"}
    runs = stored(tmp_path, mine=DENSE, tried=dev, compact=DENSE)
    text, details = render(runs, PUBLISHED), render_details(runs, PUBLISHED)
    assert rows(text, "[mine]")
    assert not rows(text, "[tried]") + rows(text, "[compact]")
    assert len(rows(details, "[tried]") + rows(details, "[compact]")) == 2
    assert not rows(details, "[mine]")


def test_the_overview_shows_an_interval_where_a_run_has_one(tmp_path: Path) -> None:
    judged = {"kind": "judged", "record": RECORD, "data": "", "right": 68.3}
    name = "**Captions judged right by two language models**"
    assert rows(page(tmp_path, **{"judged-vit": judged}), name)[0][1] == "**68.3** %"
    sure = judged | {"intervals": {"right": [62.94, 73.2]}}
    assert rows(page(tmp_path, **{"judged-vit": sure}), name)[0][1] == "**68.3** % (62.9–73.2)"
    ranked = RANKING | {"intervals": {"text_to_image": {"r1": [22.5, 27.1]}}}
    name = "**… with the paper's BRNN, R@1**"
    text = page(tmp_path, **{"align-brnn": ranked})
    assert rows(text, name)[0][1] == "**24.8** % (22.5–27.1)"


def test_a_kind_that_nobody_knows_shows_its_numbers(tmp_path: Path) -> None:
    juggling = {"kind": "juggling", "record": RECORD, "balls": 4.4321, "seconds": 60}
    text = render_details(stored(tmp_path, fast=juggling), PUBLISHED)
    assert rows(text.split("### Juggling")[1], "[fast]")[0] == [
        "[fast](runs/fast/README.md)",
        "–",
        "4.432",
        "complete",
    ]


def test_no_runs_make_an_empty_page(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    assert render(read_runs(tmp_path / "runs"), PUBLISHED).startswith("# Results")


def test_markdown_cells_stay_in_their_cells() -> None:
    assert (
        markdown_table(["a", "b"], [["x|y", "1\n2"]])
        == "| a | b |\n| --- | ---: |\n| x\\|y | 1 2 |"
    )


def test_table_1_has_a_row_for_each_system_and_a_column_for_each_source(tmp_path):
    own, truth = {**DENSE, "map": 0.123, "meteor": 0.2}, {**DENSE, "map": 0.31, "meteor": 0.3}
    text = page(tmp_path, **{"table1-fcln-own": own, "table1-fcln-truth": truth, "compact": DENSE})
    assert rows(text, "**FCLN**") == [
        ["**FCLN**", "ours", "–", "–", "0.200", "0.300", "–", "–", "12.30", "31.00"]
    ]
    assert rows(text, "FCLN | paper") == [
        ["FCLN", "paper", "0.264", "–", "0.273", "0.305", "5.24", "–", "5.39", "27.03"]
    ]
    assert "Region RNN | ours" not in text, "it has no run"
    assert not rows(text, "[table1"), "a cell is no row of the other tables"
