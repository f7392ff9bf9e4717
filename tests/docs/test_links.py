"""Links on the pages lead somewhere: to a file that is there, and to a heading that it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]


def without_code(page: Path) -> str:
    return re.sub(
        r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives the headings of a page; a heading that comes again gets a
    number."""
    found: dict[str, int] = {}
    names = set()
    for heading in re.findall(r"^#+ (.+)$", without_code(page), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        number = found[name] = found.get(name, -1) + 1
        names.add(f"{name}-{number}" if number else name)
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), target
