"""What people correct on the page teaches the model: corrections are checked, taught, and a page
shows what changed (issue 29)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import regiontalk
from regiontalk.cli.main import run
from regiontalk.images.limits import Limits
from regiontalk.images.photo import Photo
from regiontalk.search.build import digest_of
from regiontalk.serve.corrections import Correction, Corrections, PhotoFacts, pixels_of

PHOTOS = Path(__file__).parents[2] / "examples" / "photos"
CHELSEA = {"xyxy": [14, 2, 401, 300], "caption": "Chelsea"}
MUG = {"xyxy": [143, 20, 352, 255], "caption": "Our mug"}
LONG = {"xyxy": [164, 192, 224, 268], "caption": "a small spoon beside the cup"}


def correct(corrections: Corrections, photo: Path, *regions: dict[str, object]) -> None:
    size = Photo(photo).size
    pixels = pixels_of(photo, Limits())
    facts = PhotoFacts(corrections.name_of(photo), digest_of(photo).hex(), size, pixels)
    corrections.save(facts, Correction.of({"regions": list(regions)}))


def test_corrections_teach_and_a_page_shows_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REGIONTALK_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("REGIONTALK_THREADS", "1")
    album = tmp_path / "album"
    album.mkdir()
    for name in ("chelsea", "coffee"):
        shutil.copy(PHOTOS / f"{name}.jpg", album)
    folder = album / ".regiontalk" / "corrections"
    corrections = Corrections(folder)
    correct(corrections, album / "chelsea.jpg", CHELSEA)
    correct(corrections, album / "coffee.jpg", MUG, LONG)
    assert run(["data", "check", str(folder), "-q"]) == 0
    page = tmp_path / "changes.html"
    assert run(["teach", "--from", str(folder), "--page", str(page)]) == 0
    out, err = capsys.readouterr()
    assert [line.split("\t")[0] for line in out.splitlines()] == ["Chelsea", "Our mug"]
    assert "left out 1 phrase of more than 3 words" in err
    assert "2 captions changed" in err
    said = page.read_text()
    assert "Chelsea (before: a cat)" in said
    assert "Our mug (before: a cup)" in said
    model = regiontalk.load(threads=1)
    assert "Our mug" in [region.caption for region in model(album / "coffee.jpg").likely]
    # taught again with a folder of photos, the same region counts once
    assert run(["teach", "--from", str(folder), "-q"]) == 0
    assert [report.examples for report in model.taught_words()] == [1, 1]
