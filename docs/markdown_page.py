"""Pieces of Markdown for the pages that programs write."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


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
