"""The results page, written from the runs that are kept: `docs/runs/NAME/metrics.json` to `docs/results.md`.

A run is one JSON object: `kind`, `name`, `recipe`, `commit`, `data`, `device`, `seconds`, `notes` and the
result's keys. Nothing on the page is typed by hand, so a figure can always be followed to its run.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regiontalk.errors import DataError
from regiontalk.evaluation.curves import draw_curves, read_curves
from regiontalk.evaluation.published import PUBLISHED, Row
from regiontalk.files import read_json

COMMAND = "regiontalk evaluate tables docs/runs docs/results.md"
CURVES = "curves.svg"
ABOUT_RUN = ("recipe", "commit", "data", "device", "seconds", "notes")


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"


def _plain(value: float) -> str:
    return f"{value:.1f}"


def _fraction(value: float) -> str:
    return f"{value:.3f}"


@dataclass(frozen=True)
class Column:
    """A heading, where the figure stands in a run (keys, outermost first), and how it is printed."""

    heading: str
    keys: tuple[str, ...]
    show: Callable[[float], str] = _percent

    def cell(self, run: Row) -> str:
        value: Any = run
        for key in self.keys:
            value = value.get(key) if isinstance(value, dict) else None
        return self.show(float(value)) if isinstance(value, int | float) else "–"


@dataclass(frozen=True)
class Section:
    """One kind of run: a heading, what to know before reading, and the columns."""

    kind: str
    heading: str
    note: str
    columns: tuple[Column, ...]


def _sentence_columns() -> tuple[Column, ...]:
    bleu = [Column(f"BLEU-{n}", (f"bleu{n}",)) for n in (1, 2, 3, 4)]
    return (
        *bleu,
        Column("METEOR", ("meteor",)),
        Column("CIDEr", ("cider",)),
        Column("ROUGE-L", ("rouge_l",)),
    )


def _rank_columns(direction: str, arrow: str) -> tuple[Column, ...]:
    recall = [Column(f"{arrow} R@{cut}", (direction, f"r{cut}"), _plain) for cut in (1, 5, 10)]
    return (*recall, Column("med. r", (direction, "median_rank"), _plain))


SECTIONS = (
    Section(
        "dense",
        "Dense captioning",
        "mAP in percent over 5 IoU × 6 METEOR thresholds; “≥ .1” leaves out the two METEOR thresholds that a "
        "shared “a” passes. Region figures on our data do not compare with Visual Genome's: other photos, "
        "other phrases, fewer regions. Only the yardsticks beside them, computed from the same truth, do.",
        (
            Column("mAP", ("dense", "map")),
            Column("≥ .1", ("dense", "map_strict")),
            Column("boxes alone", ("dense", "detection_map")),
            Column("METEOR", ("dense", "meteor"), _fraction),
            Column("true boxes: mAP", ("ground_truth_boxes", "map")),
            Column("≥ .1", ("ground_truth_boxes", "map_strict")),
            Column("METEOR", ("ground_truth_boxes", "meteor"), _fraction),
        ),
    ),
    Section(
        "ranking",
        "Images by sentences, sentences by images",
        "R@k in percent. Published rows are on the same photos and split, with other image features: those of an "
        "R-CNN's crops.",
        (
            *_rank_columns("image_to_text", "image → sentence"),
            *_rank_columns("text_to_image", "sentence → image"),
        ),
    ),
    Section(
        "grounding",
        "Phrases on their regions",
        "Of the phrases of Flickr30k Entities, the share aligned with a region of IoU ≥ 0.5 with the true box, in "
        "percent, and of those whose centre lies in it (pointing). The words learned from sentences alone; whether the "
        "detector had seen phrases is said with the runs. “Best there is” is the detector's limit.",
        (
            Column("IoU ≥ .5", ("accuracy",)),
            Column("pointing", ("pointing",)),
            Column("random region", ("baselines", "random region", "accuracy")),
            Column("centre box", ("baselines", "centre box", "accuracy")),
            Column("largest region", ("baselines", "largest region", "accuracy")),
            Column("whole photo", ("baselines", "whole photo", "accuracy")),
            Column("best there is", ("baselines", "best region there is", "accuracy")),
        ),
    ),
    Section(
        "captions",
        "One sentence a photo",
        "In percent (CIDEr × 100). The last column: sentences that stand word for word in the training data.",
        (*_sentence_columns(), Column("in training", ("in_training",))),
    ),
    Section("regions", "Captions of given regions", "In percent (CIDEr × 100).", _sentence_columns()),
    Section(
        "retrieval",
        "Photos and regions from four captions",
        "In percent, but for median rank and median IoU. Other photos and phrases than Visual Genome's.",
        (
            *(Column(f"R@{cut}", (f"r{cut}",), _plain) for cut in (1, 5, 10)),
            Column("med. rank", ("median_rank",), _plain),
            *(Column(f"IoU@{cut}", (f"iou@{cut}",), _plain) for cut in (0.1, 0.3, 0.5)),
            Column("med. IoU", ("median_iou",), _fraction),
        ),
    ),
)


def update_page(runs: Path, page: Path, check: bool = False) -> None:
    """Writes the page and the runs' curves, or with `check` raises when they are not what the runs give."""
    texts = {page: render(read_runs(runs))}
    for log in sorted(runs.glob("*/log.jsonl")):
        texts[log.with_name(CURVES)] = draw_curves(read_curves(log))
    for path, text in texts.items():
        try:
            if not check:
                path.write_text(text, encoding="utf-8")
            elif not path.is_file() or path.read_text(encoding="utf-8") != text:
                raise DataError(f"{path} is out of date with {runs}", hint=COMMAND)
        except OSError as error:
            raise DataError(f"{path}: {error.strerror or error}") from error


def read_runs(folder: Path) -> list[Row]:
    """Every run below a folder, by name."""
    runs = []
    for path in sorted(folder.glob("*/metrics.json")):
        run = read_json(path)
        if not isinstance(run, dict) or not isinstance(run.get("kind"), str):
            raise DataError(f"{path}: a run is a JSON object with a 'kind'")
        logged = path.with_name("log.jsonl").is_file()
        runs.append({"name": path.parent.name, "curves": f"{folder.name}/{path.parent.name}/{CURVES}" * logged} | run)
    return runs


def render(runs: Sequence[Row]) -> str:
    """The page as Markdown."""
    parts = [f"# Results\n\nWritten by `{COMMAND}` from the runs in `docs/runs`; do not edit."]
    known = [section.kind for section in SECTIONS]
    for section in SECTIONS:
        ours = [run for run in runs if run["kind"] == section.kind]
        if ours:
            parts.append(_section(section, ours))
    grounded = [run for run in runs if run["kind"] == "grounding" and run.get("types")]
    if grounded:
        parts.append(_types_section(grounded))
    recalls = [run for run in runs if "proposal_recall" in run]
    if recalls:
        parts.append(_recall_section(recalls))
    others = sorted({run["kind"] for run in runs} - {*known, "proposals"})
    parts += [_plain_section(kind, [run for run in runs if run["kind"] == kind]) for kind in others]
    if runs:
        parts.append(_about_runs(runs))
    return "\n\n".join(parts) + "\n"


def _section(section: Section, ours: Sequence[Row]) -> str:
    # metrics.json of a dense run may be the evaluator's object itself.
    ours = [run | {"dense": run.get("dense", run)} if section.kind == "dense" else run for run in ours]
    theirs = [row for row in PUBLISHED if row["kind"] == section.kind and _comparable(row, ours)]
    headings = ["run", "data", *(column.heading for column in section.columns)]
    rows = [[_name(run), _data(run), *(column.cell(run) for column in section.columns)] for run in ours]
    rows += _yardstick_rows(ours, len(section.columns)) if section.kind == "dense" else []
    rows += [[_name(row), _data(row), *(column.cell(row) for column in section.columns)] for row in theirs]
    return f"## {section.heading}\n\n{section.note}\n\n{markdown_table(headings, rows)}"


def _comparable(row: Row, ours: Iterable[Row]) -> bool:
    """A published row stands beside runs on the same data alone."""
    return any(_bare(row["data"]) in _bare(run.get("data", "")) for run in ours)


def _bare(data: Any) -> str:
    """ "Flickr8k" and "flickr8k_entities, test" are the same photos."""
    return re.sub(r"[^a-z0-9]", "", str(data).lower())


def _yardstick_rows(runs: Sequence[Row], columns: int) -> list[list[str]]:
    """The truth's own yardsticks, once for each data set."""
    rows = {}
    for run in runs:
        for name, values in run["dense"].get("yardsticks", {}).items():
            said = f"“{values['caption']}” everywhere" if "caption" in values else "a left-out person"
            figures = ["–"] * 4 + [_percent(values["map"]), _percent(values["map_strict"])]
            row = [f"*yardstick: {said}*", _data(run), *figures]
            rows[name, _data(run)] = row + ["–"] * (columns + 2 - len(row))
    return list(rows.values())


def _types_section(runs: Sequence[Row]) -> str:
    types = sorted({name for run in runs for name in run["types"]})
    columns = [Column(name, ("types", name, "accuracy"), _percent) for name in types]
    rows = [[_name(run), _data(run), *(column.cell(run) for column in columns)] for run in runs]
    table = markdown_table(["run", "data", *types], rows)
    return f"## Phrases on their regions, by type\n\nThe share with IoU ≥ 0.5, in percent.\n\n{table}"


def _recall_section(runs: Sequence[Row]) -> str:
    places = sorted({(int(n), iou) for run in runs for n, recalls in run["proposal_recall"].items() for iou in recalls})
    columns = [Column(f"{n} at IoU {iou}", ("proposal_recall", str(n), iou), _percent) for n, iou in places]
    rows = [[_name(run), _data(run), *(column.cell(run) for column in columns)] for run in runs]
    table = markdown_table(["run", "data", *(column.heading for column in columns)], rows)
    return f"## Recall of proposals\n\nTrue boxes with a proposal on them, in percent.\n\n{table}"


def _plain_section(kind: str, ours: Sequence[Row]) -> str:
    """Any other kind: its figures as they are, and published rows of the kind."""
    rows = [*ours, *(row for row in PUBLISHED if row["kind"] == kind)]
    skipped = {"kind", "name", "source", *ABOUT_RUN} - {"device"}
    keys = list(dict.fromkeys(key for row in rows for key, value in row.items() if _is_figure(value)))
    keys = ["device", *(key for key in keys if key not in skipped)]
    cells = [[_name(row), *(_figure(row.get(key, "–")) for key in keys)] for row in rows]
    return f"## {kind.capitalize()}\n\n{markdown_table(['run', *keys], cells)}"


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _figure(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _about_runs(runs: Sequence[Row]) -> str:
    rows = [[_name(run), *(str(run.get(key, "–")) for key in ABOUT_RUN)] for run in runs]
    curves = [
        f"**{run['name']}**\n\n![the curves of {run['name']}]({run['curves']})" for run in runs if run.get("curves")
    ]
    return "\n\n".join([f"## The runs\n\n{markdown_table(['run', *ABOUT_RUN], rows)}", *curves])


def _name(run: Row) -> str:
    return f"{run['name']} *({run['source']})*" if "source" in run else f"**{run['name']}**"


def _data(run: Row) -> str:
    return str(run.get("data", "–"))


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, figures to the right."""
    lines = [headings, ["---"] + ["---:"] * (len(headings) - 1), *rows]
    return "\n".join("| " + " | ".join(_one_line(cell) for cell in line) + " |" for line in lines)


def _one_line(cell: str) -> str:
    return " ".join(cell.split()).replace("|", "\\|")


if __name__ == "__main__":
    from regiontalk.cli.main import main

    main(["evaluate", "tables", *sys.argv[1:]])
