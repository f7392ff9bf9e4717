"""Addresses of captioners: code is loaded if it is named, and only then."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from regiontalk.captioners.loading import CaptionerAddress, address_of, load_captioner
from regiontalk.errors import ModelError

TOY = """
from dataclasses import dataclass

@dataclass
class Toy:
    weights: str = "none"
    name: str = "toy"

    def regions(self, photo):
        return []

class Nameless:
    def regions(self, photo):
        return []

class Mute:
    name = "mute"

class Ending:
    def __init__(self):
        raise SystemExit(2)
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    path = tmp_path / "toy_captioner.py"
    path.write_text(TOY)
    return path


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("my.py:Toy", CaptionerAddress("my.py", "Toy")),
        ("a/b c/my.py:Toy:/weights:1", CaptionerAddress("a/b c/my.py", "Toy", "/weights:1")),
        ("C:\\x\\my.py:Toy", CaptionerAddress("C:\\x\\my.py", "Toy")),
        ("package.part:Toy", CaptionerAddress("package.part", "Toy")),
        (
            "florence:base",
            CaptionerAddress("regiontalk.captioners.florence", "Florence", "base"),
        ),
        ("florence", CaptionerAddress("regiontalk.captioners.florence", "Florence")),
        ("fast", None),
        ("./runs:old", None),
        ("my.py", None),
        ("my.py:2", None),
    ],
)
def test_addresses(text: str, address: CaptionerAddress | None) -> None:
    assert address_of(text) == address


def test_a_folder_is_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models:new").mkdir()
    assert address_of("models:new") is None


def test_a_class_of_a_file_is_called_with_what_follows(toy: Path) -> None:
    path = list(sys.path)
    assert load_captioner(CaptionerAddress(str(toy), "Toy")).weights == "none"
    loaded = load_captioner(CaptionerAddress(str(toy), "Toy", "folder"))
    assert (loaded.name, loaded.weights) == ("toy", "folder")
    assert sys.path == path  # files beside it cannot take the place of other modules


def test_the_fingerprint_follows_the_file(toy: Path) -> None:
    address = CaptionerAddress(str(toy), "Toy")
    before = address.fingerprint
    assert before == CaptionerAddress(str(toy), "Toy").fingerprint
    assert before != CaptionerAddress(str(toy), "Toy", "folder").fingerprint
    toy.write_text(TOY + "\n# changed\n")
    assert address.fingerprint != before


@pytest.mark.parametrize(
    ("called", "line"),
    [
        ("Other", "cannot be loaded: AttributeError: .* no attribute 'Other'"),
        ("Ending", "cannot be loaded: SystemExit: 2"),
        ("Nameless", "no captioner: it has no attribute `name`"),
        ("Mute", r"no captioner: it has no method `regions\(photo\)`"),
    ],
)
def test_what_is_no_captioner(toy: Path, called: str, line: str) -> None:
    with pytest.raises(ModelError, match=line):
        load_captioner(CaptionerAddress(str(toy), called))


def test_missing_files_and_modules(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"gone\.py: no such file"):
        load_captioner(CaptionerAddress(str(tmp_path / "gone.py"), "Toy"))
    with pytest.raises(ModelError, match="cannot be loaded: ModuleNotFoundError"):
        load_captioner(CaptionerAddress("no_such_package_of_models", "Toy"))
    broken = tmp_path / "broken.py"
    broken.write_text("class Toy(:\n")
    with pytest.raises(ModelError, match="cannot be loaded: SyntaxError") as caught:
        load_captioner(CaptionerAddress(str(broken), "Toy"))
    assert "\n" not in caught.value.message
