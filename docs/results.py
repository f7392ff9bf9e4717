"""Writes the pages of results from the recorded runs: docs/runs/NAME/metrics.json,
test-looks.jsonl and log.jsonl.

python docs/results.py             write the pages and the training curves
python docs/results.py --check     write nothing; fail if a file is out of date

docs/results.md             for readers: an overview, and a table for each kind of main figure
docs/results-details.md     all other tables, and those of dev photos
docs/results-old.md         runs that a person wrote down, which nobody can repeat exactly
docs/runs/NAME/README.md    one run: commands, data, models and recipe

`regiontalk evaluate … --record docs/runs/NAME` records a run, `python docs/record.py` a benchmark.
Published figures are in docs/published.toml, the overview is in docs/headlines.py, the tables are
in docs/tables.py (made of the parts in docs/columns.py) and docs/densecap_table.py. The runs are
read by docs/recorded_runs.py, docs/run_page.py writes the page of one, and docs/records.py says
what a record lacks.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import densecap_table
from columns import Column, Run, Section, find_figure
from curves import CURVES, draw_curves, read_curves
from headlines import HEADLINES, OTHER_PHOTOS, Headline
from markdown_page import markdown_table, page, sentence, write_or_check
from recorded_runs import read_runs
from records import is_old, standing
from run_page import about_run
from tables import DENSECAP, FORMER, GROUPS, SECTIONS

from regiontalk.lab.evaluation.reference_scores import label
from regiontalk.lab.runs import LOG

DOCS = Path(__file__).parent
USUAL_DATA = "flickr8k_entities, "  # left out of the rows

INTRO = """\
Written by `python docs/results.py` from the runs in `docs/runs`; do not edit. [evaluation.md](evaluation.md) explains
the metrics and how a run is recorded. Each run's name leads to its page. All other tables, also those of dev photos,
are in [results-details.md](results-details.md); runs of the first versions, which nobody can repeat exactly, are in
[results-old.md](results-old.md).

- **data**: Flickr8k's official split with the phrases and boxes of Flickr30k Entities (`flickr8k_entities`), unless
  another data set is named.
- **evaluations on test**: how often a result of that name was measured on test photos, earlier versions included. "≥":
  the count comes from the history of this repository and may be too low.
- **record**: whether the run can be traced to its recipe. *complete*: every step was a command of ours, at a commit of
  this repository, with unchanged files. *commit unknown*: a step ran where no commit was known, or at one that is in no
  history of this repository. *Training not recorded*: a model folder without its training's record, such as the models
  in the package ([how they were made](model-card.md#how-it-was-made)). *Judged outside this program*: the verdicts are
  in the run's folder, how they came about is not recorded."""
DETAILS = """\
Written by `python docs/results.py`; do not edit. The tables that [results.md](results.md) leaves out, also those of
earlier models in the package. It explains the columns."""
OLD = """\
Written by `python docs/results.py`; do not edit. Before 0.2.0, and for some benchmarks on GPUs, a person copied the
figures that a command printed. Recipe and commit may be inexact, so nobody can repeat these runs exactly, and
[results.md](results.md) leaves them out."""


def main() -> None:
    write_or_check("docs/results.py", __doc__, lambda: pages(DOCS))


def pages(docs: Path) -> dict[Path, str]:
    """Path -> text of the pages, and of the curves of runs that have a log."""
    published = tomllib.loads((docs / "published.toml").read_text(encoding="utf-8"))
    runs = read_runs(docs / "runs")
    texts = {
        docs / "results.md": render(runs, published),
        docs / "results-details.md": render_details(runs, published),
        docs / "results-old.md": render_old(runs),
    }
    for run in runs:
        folder = docs / "runs" / run["name"]
        texts[folder / "README.md"] = about_run(run)
        if run["curves"]:
            texts[folder / CURVES] = draw_curves(read_curves(folder / LOG))
    return texts


def render(runs: Sequence[Run], published: dict[str, list[Run]]) -> str:
    """The page for readers."""
    recorded = [run for run in runs if not is_old(run)]
    parts = [f"# Results\n\n{INTRO}", glance(HEADLINES, recorded, published)]
    for group in GROUPS:
        tables = [
            section_text(section, [run for run in recorded if section.takes(run)], published)
            for section in SECTIONS
            if section.group == group and section.is_main
        ]
        if group == DENSECAP:
            tables.insert(1, _table1(recorded, published["dense"]))
        parts += _under_heading(group, tables)
    return page(parts)


def render_details(runs: Sequence[Run], published: dict[str, list[Run]]) -> str:
    recorded = [run for run in runs if not is_old(run)]
    parts = [f"# Results in detail\n\n{DETAILS}"]
    sections = [*SECTIONS, *_more_sections(recorded)]
    for group in dict.fromkeys(section.group for section in sections):
        tables = []
        for section in sections:
            rows = [run for run in recorded if section.takes(run)]
            if section.group != group:
                continue
            if not section.is_main:
                tables.append(section_text(section, rows, published))
            elif hidden := [run for run in rows if _is_hidden(section, run)]:
                table = _runs_table(section, hidden, [])
                tables.append(f"### {section.heading}: dev photos, former models\n\n{table}")
        parts += _under_heading(group, tables)
    return page(parts)


def render_old(runs: Sequence[Run]) -> str:
    old = [run for run in runs if is_old(run)]
    parts = [f"# Old runs\n\n{OLD}"]
    for section in [*SECTIONS, *_more_sections(old)]:
        if rows := [run for run in old if section.takes(run)]:
            parts.append(f"## {section.heading}\n\n{_runs_table(section, rows, [])}")
    return page(parts)


def _under_heading(group: str, tables: Iterable[str]) -> list[str]:
    texts = [table for table in tables if table]
    return [f"## {group}", *texts] if texts else []


def _table1(runs: Sequence[Run], published: Sequence[Run]) -> str:
    rows = list(densecap_table.rows(runs, published))
    grid = markdown_table(densecap_table.headings(), rows, text_columns=(0, 1))
    return f"### Systems and sources of regions\n\n{densecap_table.INTRO}\n\n{grid}" if rows else ""


def _more_sections(runs: Sequence[Run]) -> Iterator[Section]:
    """Sections for kinds of runs that `SECTIONS` does not have: all their numbers, unconverted."""
    left = [
        run
        for run in runs
        if not (densecap_table.is_cell(run) or any(section.takes(run) for section in SECTIONS))
    ]
    for kind in sorted({run["kind"] for run in left}):
        numbers = [
            key
            for run in left
            if run["kind"] == kind
            for key, value in run.items()
            if _is_number(value)
        ]
        keys = [key for key in dict.fromkeys(numbers) if key not in ("seconds", "steps", "curves")]
        columns = tuple(Column(key.replace("_", " "), (key,), 1, None) for key in keys)
        yield Section(
            kind, "Others", kind.capitalize(), "", columns, hides_dev=False, is_main=False
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def glance(
    headlines: Sequence[Headline], runs: Sequence[Run], published: dict[str, list[Run]]
) -> str:
    """The overview table."""
    by_name = {run["name"]: run for run in runs}
    rows = []
    for headline in headlines:
        run = by_name.get(headline.run)
        if run is not None:
            theirs = _published_figure(headline, published)
            rows.append(
                [
                    f"**{headline.what}**",
                    f"**{headline.column.cell(run)}**{headline.unit}{_interval(headline, run)}",
                    theirs,
                    headline.explain(run),
                    standing(run),
                ]
            )
    headings = ["", "ours (95 % interval)", "published", "what it means", "record"]
    table = markdown_table(headings, rows, text_columns=(0, 3, 4))
    return f"## At a glance\n\n{table}\n\n{OTHER_PHOTOS}" if rows else ""


def _interval(headline: Headline, run: Run) -> str:
    """The 95 % interval, where the run has one."""
    ends = find_figure(run.get("intervals", {}), headline.column.keys)
    if not ends:
        return ""
    low, high = (headline.column.printed_figure(end) for end in ends)
    return f" ({low}–{high})"


def _published_figure(headline: Headline, published: dict[str, list[Run]]) -> str:
    if headline.published is None:
        return "–"
    kind, name, column, remark = headline.published
    row = next(row for row in published[kind] if row["name"] == name)
    doubt = ", unconfirmed" if row["source"] == "unconfirmed" else ""
    return f"{column.printed(row)}{headline.unit} ({remark}{doubt})"


def section_text(section: Section, own: Sequence[Run], published: dict[str, list[Run]]) -> str:
    """A heading, a table of runs and published rows on the same photos, then other published
    rows."""
    if not own:
        return ""
    rows = published.get(section.published or "", [])
    same = [
        row
        for row in rows
        if any(_plain(row.get("data", "Visual Genome")) in _plain(run["data"]) for run in own)
    ]
    others = [row for row in rows if row not in same]
    shown = [run for run in own if not (section.is_main and _is_hidden(section, run))]
    if not shown:
        return ""
    parts = [f"### {section.heading}", section.intro, _runs_table(section, shown, same)]
    if others:
        columns = section.published_columns or section.columns
        cells = [[_name(row), *(column.printed(row) for column in columns)] for row in others]
        where = " and ".join(dict.fromkeys(row.get("data", "Visual Genome") for row in others))
        table = markdown_table(["system", *(column.heading for column in columns)], cells)
        parts.append(
            f"Published on {where}: other photos, not comparable with the rows above.\n\n{table}"
        )
    return "\n\n".join(part for part in parts if part)


def _is_hidden(section: Section, run: Run) -> bool:
    """Whether a run stands apart from today's runs on test photos."""
    return run["name"] in FORMER or (section.hides_dev and ", dev" in run["data"])


def _runs_table(section: Section, own: Sequence[Run], published: Sequence[Run]) -> str:
    """Runs, the truth's reference scores, published rows, and below them the runs' remarks."""
    if not own:
        return ""
    tested = any(_is_test(run) for run in own)
    headings = [
        "run",
        "data",
        *["steps"] * section.steps,
        *(column.heading for column in section.columns),
    ]
    headings += ["evaluations on test"] * tested + ["record"]
    notes = list(dict.fromkeys(run["note"] for run in own if run.get("note")))
    rows = []
    for run in own:
        mark = f" <sup>{notes.index(run['note']) + 1}</sup>" if run.get("note") else ""
        cells = [f"[{run['name']}](runs/{run['name']}/README.md){mark}", _data(run)]
        cells += [f"{run['steps']:,}" if run["steps"] else "–"] * section.steps
        rows.append(
            [
                *cells,
                *(column.cell(run) for column in section.columns),
                *[_looks(run)] * tested,
                standing(run),
            ]
        )
    if section.references:
        rows += _reference_rows(own, len(headings))
    for row in published:
        figures = [column.printed(row) for column in section.columns]
        rows.append(
            [
                _name(row),
                row["data"],
                *["–"] * section.steps,
                *figures,
                *["–"] * tested,
                "published",
            ]
        )
    remarks = "".join(f"\n{number}. {sentence(note)}" for number, note in enumerate(notes, start=1))
    return markdown_table(headings, rows) + (f"\n{remarks}" if remarks else "")


def _reference_rows(own: Sequence[Run], width: int) -> list[list[str]]:
    """The truth's reference scores, once for each data set."""
    rows = {}
    for run in own:
        for name, values in run.get("reference_scores", {}).items():
            figures = [f"{100 * values['map']:.2f}", f"{100 * values['map_strict']:.2f}"]
            row = [f"*reference: {label(name, values)}*", _data(run), *figures]
            rows[name, run["data"]] = row + ["–"] * (width - len(row))
    return list(rows.values())


def _is_test(run: Run) -> bool:
    return ", test" in str(run["data"])


def _looks(run: Run) -> str:
    if not _is_test(run):
        return "–"
    certain = "record" in run and not any(look.get("source") for look in run["looks"])
    return f"{'' if certain else '≥ '}{len(run['looks'])}×"


def _plain(data: object) -> str:
    """ "Flickr8k" is found in "flickr8k_entities, test"."""
    return re.sub(r"[^a-z0-9]", "", str(data).lower())


def _data(run: Run) -> str:
    return str(run["data"]).removeprefix(USUAL_DATA)


def _name(row: Run) -> str:
    return f"{row['name']} *({row['source']})*"


if __name__ == "__main__":
    main()
