"""The terms of the package's models: complete, and the same in all places."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from regiontalk.models import packaged
from regiontalk.models.folder import read_model_folder

ROOT = Path(__file__).parents[2]
FOLDERS = [packaged.EMBEDDED, packaged.FAST]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_model_of_the_package_states_its_terms(folder: Path) -> None:
    terms = read_model_folder(folder).info.terms
    assert terms is not None
    assert "non-commercial" in terms.summary
    assert all(source.obtained_from for source in terms.weights)
    text = (ROOT / "LICENSE-WEIGHTS").read_text()
    for source in (*terms.weights, *terms.training_data):
        assert source.licence
        assert source.name.split(" ")[0].strip(",") in text


def test_the_metadata_has_the_licences_of_code_and_weights() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license-files"] == ["LICENSE", "LICENSE-WEIGHTS", "LICENSE-WORDS"]
    for folder in FOLDERS:
        terms = read_model_folder(folder).info.terms
        assert terms is not None
        assert set(terms.licence.split(" AND ")) <= set(project["license"].split(" AND "))


def test_the_licence_of_the_words_is_that_of_their_file() -> None:
    """The metadata name it, and both have its notice as it has to be kept."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = (ROOT / "LICENSE-WORDS").read_text()
    assert stated.partition(":")[0] in project["license"].split(" AND ")
    words = (ROOT / "src" / "regiontalk" / "language" / "english_words.txt").read_text()
    notice = " ".join(line[2:] for line in words.splitlines() if line.startswith("#"))
    assert (
        notice[notice.index("Copyright") :].split() == stated[stated.index("Copyright") :].split()
    )
