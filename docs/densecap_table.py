"""DenseCap's table 1 as it is printed: systems × sources of regions, for docs/results.py.

A run's name says its cell: table1-SYSTEM-SOURCE.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Run = dict[str, Any]

PREFIX = "table1-"
SYSTEMS = {
    "full-image": "Full-image RNN",
    "region-rnn": "Region RNN",
    "edgeboxes": "FCLN on EdgeBoxes",
    "fcln": "FCLN",
}
SOURCES = {
    "edgeboxes": "EdgeBoxes",
    "rpn": "separate RPN",
    "own": "own proposals",
    "truth": "true boxes",
}
PUBLISHED = {"edgeboxes": "_edge_boxes", "rpn": "", "own": "", "truth": "_true_boxes"}
"""Source -> the ending of its keys in docs/published.toml."""
FIGURES = (("METEOR", "meteor", 1, 3), ("mAP", "map", 100, 2))
INTRO = (
    "DenseCap table 1: every system on regions from every source, 300 per photo, on Flickr8k's test photos. All our "
    "rows have the same backbone (EfficientNet-lite2), data and number of training photos, which is small: compare "
    "them with each other only. The paper's figures (Visual Genome, VGG-16) are shown for the order of the systems; "
    "their values are not comparable. (The paper has its FCLN on its own proposals in the column RPN.) Our EdgeBoxes "
    "use gradient edges, the paper's use structured edges. How the systems differ, and what the table shows: "
    "[evaluation.md](evaluation.md#densecaps-table-1)."
)


def is_cell(run: Run) -> bool:
    return run["kind"] == "dense" and str(run["name"]).startswith(PREFIX)


def headings() -> list[str]:
    return [
        "system",
        "",
        *(f"{figure}, {source}" for figure, *_ in FIGURES for source in SOURCES.values()),
    ]


def rows(runs: Sequence[Run], published: Sequence[Run]) -> Iterator[list[str]]:
    """A row for each system with a run, and the paper's below it."""
    cells = {run["name"]: run for run in runs if is_cell(run)}
    for system, title in SYSTEMS.items():
        own = {source: cells.get(f"{PREFIX}{system}-{source}") for source in SOURCES}
        if not any(own.values()):
            continue
        yield [
            f"**{title}**",
            "ours",
            *(
                _show(own[source], key, scale, digits)
                for _, key, scale, digits in FIGURES
                for source in SOURCES
            ),
        ]
        theirs = next(row for row in published if row.get("table1") == system)
        yield [
            title,
            "paper",
            *(
                _theirs(theirs, key, digits, source)
                for _, key, _, digits in FIGURES
                for source in SOURCES
            ),
        ]


def _show(run: Run | None, key: str, scale: float, digits: int) -> str:
    return "–" if run is None else f"{scale * run[key]:.{digits}f}"


def _theirs(row: Run, key: str, digits: int, source: str) -> str:
    if source == ("rpn" if row["table1"] == "fcln" else "own"):
        return "–"
    return f"{row[key + PUBLISHED[source]]:.{digits}f}"
