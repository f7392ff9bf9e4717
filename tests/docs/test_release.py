"""What a release needs agrees: the version everywhere, and the files that the pages name."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import regiontalk

ROOT = Path(__file__).parents[2]


def test_the_version_is_the_same_everywhere() -> None:
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert cited[1] == regiontalk.__version__
    newest = re.search(r"^## (\d.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == regiontalk.__version__


def test_the_checklist_names_files_that_are_there() -> None:
    checklist = (ROOT / "docs" / "release.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:tests|docs|\.github|src)/[\w./-]+)`", checklist)
    assert len(named) > 4
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_the_container_gets_all_that_builds_the_wheel() -> None:
    """.dockerignore leaves out everything but what it names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {"pyproject.toml", "src", project["readme"], *project["license-files"]}
    steps = (ROOT / "Containerfile").read_text(encoding="utf-8")
    copied = [line.split()[1:-1] for line in steps.splitlines() if line.startswith("COPY")]
    assert {name for names in copied for name in names} == needed
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == needed


def test_the_lowest_versions_are_those_that_are_allowed() -> None:
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lines = (ROOT / "lowest-versions.txt").read_text(encoding="utf-8").splitlines()
    for name, version in (line.split("==") for line in lines if not line.startswith("#")):
        allowed = re.findall(rf'"{re.escape(name)}>=([\d.]+)', settings)
        assert allowed, name
        for lowest in allowed:
            assert version == lowest or version.startswith(f"{lowest}."), name


def test_the_security_page_names_the_lowest_versions_that_pyproject_allows() -> None:
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w-]+) \| ([\d.]+) \|", page, re.MULTILINE)
    assert len(rows) > 5
    for name, version in rows:
        pattern = rf'"{re.escape(name)}(?:\[\w+\])?>={re.escape(version)}[",]'
        assert re.search(pattern, settings), name
