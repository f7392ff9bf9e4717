"""Pages that programs write: pieces of Markdown, and writing or checking the files."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path


def write_or_check(
    program: str, description: str | None, render: Callable[[], Mapping[Path, str]]
) -> None:
    """The command of a program that writes pages: `render` gives their texts. With --check it
    writes nothing and fails if a page is out of date."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a file is out of date"
    )
    update(program, render(), parser.parse_args().check)


def update(program: str, texts: Mapping[Path, str], check: bool = False) -> None:
    """Writes the texts, or with `check` fails if one is not what its file has."""
    for path, text in texts.items():
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            raise SystemExit(f"{path} is out of date: python {program}")


def markdown_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], text_columns: Collection[int] = (0,)
) -> str:
    """A Markdown table; columns of figures are aligned to the right."""
    rules = ["---" if place in text_columns else "---:" for place in range(len(headings))]
    lines = [headings, rules, *rows]
    return "\n".join("| " + " | ".join(_one_line(cell) for cell in line) + " |" for line in lines)


def _one_line(cell: str) -> str:
    return " ".join(cell.split()).replace("|", "\\|")


def page(parts: Iterable[str]) -> str:
    """The text of a page; empty parts are left out."""
    return "\n\n".join(part for part in parts if part) + "\n"


def sentence(text: str) -> str:
    """A remark as a sentence."""
    return text[0].upper() + text[1:] + "."
