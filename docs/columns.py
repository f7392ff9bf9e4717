"""The parts of the tables of docs/results.md: columns of figures, and sections for runs of one
kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import densecap_table

Run = dict[str, Any]

SERIES = ("sampling-",)
RANKS = ("r1", "r5", "r10", "median_rank")


@dataclass(frozen=True)
class Column:
    """A heading, the keys of the figure in a run (outermost first), and how it is printed.

    Our figures are multiplied by `scale`; published ones are printed as they are. `digits` None:
    four significant digits.
    """

    heading: str
    keys: tuple[str, ...]
    scale: float = 100
    digits: int | None = 2

    def cell(self, run: Run) -> str:
        return self.printed_figure(find_figure(run, self.keys))

    def printed_figure(self, value: Any) -> str:
        """One of our figures."""
        return self._show(value, self.scale)

    def printed(self, row: Run) -> str:
        """A published row has a list where a run has a group of ranking figures."""
        value = find_figure(row, self.keys[:1])
        if isinstance(value, list):
            place = RANKS.index(self.keys[1])
            value = value[place] if place < len(value) else None
        return self._show(value, 1)

    def _show(self, value: Any, scale: float) -> str:
        if not isinstance(value, int | float):
            return "–"
        return f"{scale * value:.4g}" if self.digits is None else f"{scale * value:.{self.digits}f}"


def find_figure(values: Any, keys: tuple[str, ...]) -> Any:
    """What is under the keys of nested dicts, outermost first; None where there is nothing."""
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values


@dataclass(frozen=True)
class Section:
    """One kind of run."""

    kind: str
    group: str
    heading: str
    intro: str
    columns: tuple[Column, ...]
    published: str | None = None
    """The key of the published rows in docs/published.toml; `published_columns` are theirs if they
    differ from ours."""
    published_columns: tuple[Column, ...] = ()
    true_boxes: bool = False
    """Only runs on true boxes, or only runs on other boxes."""
    references: bool = False
    """Has rows with the truth's reference scores."""
    steps: bool = False
    """Has a column with the number of training steps."""
    hides_dev: bool = True
    is_main: bool = True
    """Whether its runs on test are on docs/results.md; else they are in results-details.md."""
    series: str = ""
    """Only runs whose names start with this; no other section takes them."""

    def takes(self, run: Run) -> bool:
        if self.kind == "proposals":
            return "proposal_recall" in run
        if densecap_table.is_cell(run) or _series(run) != self.series:
            return False
        is_true_boxes = run.get("settings", {}).get("boxes") == "true"
        return bool(
            run["kind"] == self.kind and (self.kind != "dense" or is_true_boxes == self.true_boxes)
        )


def _series(run: Run) -> str:
    return next((one for one in SERIES if run["name"].startswith(one)), "")


def sentence_columns() -> tuple[Column, ...]:
    bleu = [Column(f"BLEU-{n}", (f"bleu{n}",), digits=1) for n in (1, 2, 3, 4)]
    named = {"METEOR": "meteor", "CIDEr": "cider", "ROUGE-L": "rouge_l"}
    return (*bleu, *(Column(heading, (key,), digits=1) for heading, key in named.items()))


def rank_columns() -> tuple[Column, ...]:
    headings = ("R@1", "R@5", "R@10", "med. r")
    directions = {"image_to_text": "image → sentence ", "text_to_image": "sentence → image "}
    return tuple(
        Column(arrow + heading, (direction, key), 1, 1)
        for direction, arrow in directions.items()
        for heading, key in zip(headings, RANKS, strict=True)
    )


def milliseconds(**headings: str) -> tuple[Column, ...]:
    return tuple(Column(heading, (key,), 1, 1) for key, heading in headings.items())
