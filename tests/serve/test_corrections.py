"""Corrections are a data set that the other verbs take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hostile_files import encode
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from conftest import draw_scene
from regiontalk.cli.main import run
from regiontalk.errors import DataError, UsageError
from regiontalk.images.limits import Limits
from regiontalk.lab.data.records import Dataset
from regiontalk.models.loading import load
from regiontalk.search.build import digest_of
from regiontalk.search.index import Index
from regiontalk.serve import corrections as corrections_module
from regiontalk.serve.corrections import Correction, Corrections, PhotoFacts, pixels_of

CORRECTION = Correction.of({"regions": [{"xyxy": [4, 4, 40, 40], "caption": "a yellow circle"}]})


def facts(corrections: Corrections, photo: Path) -> PhotoFacts:
    """Of a photo as it is now."""
    with Image.open(photo) as image:
        size = image.size
    digest, pixels = digest_of(photo).hex(), pixels_of(photo, Limits())
    return PhotoFacts(corrections.name_of(photo), digest, size, pixels)


def unread(image: str) -> PhotoFacts:
    """Of a photo that need not exist."""
    return PhotoFacts(image, None, (64, 64))


@pytest.fixture
def corrected(tmp_path: Path) -> Path:
    """The folder of corrections of four photos in `album`, one of which was dropped."""
    album, folder = tmp_path / "album", tmp_path / "album" / ".regiontalk" / "corrections"
    album.mkdir()
    corrections = Corrections(folder)
    for number in range(3):
        photo = album / f"{number}.png"
        draw_scene((64, 48 + number)).save(photo)
        corrections.save(facts(corrections, photo), CORRECTION)
    dropped = corrections.keep(encode(draw_scene((72, 64)), "PNG"))
    corrections.save(facts(corrections, folder / dropped), CORRECTION)
    return folder


@pytest.fixture
def index(corrected: Path, aligning_model: Path) -> Iterator[Index]:
    """Of the corrected photos."""
    index = Index.open(corrected.parents[1], model=load(aligning_model))
    index.update()
    yield index
    index.close()


def follow(index: Index) -> Corrections:
    """After the photos were changed."""
    index.update(prune=True)
    corrections = Corrections.of(index)
    corrections.follow(index)
    return corrections


def test_data_check_finds_nothing_broken(
    corrected: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["data", "check", str(corrected)]) == 0
    assert "4 records, nothing broken" in capsys.readouterr().err


def test_they_move_with_the_photos(corrected: Path) -> None:
    moved = corrected.parents[2] / "moved"
    corrected.parents[1].rename(moved)
    assert run(["data", "check", str(moved / ".regiontalk" / "corrections")]) == 0


def test_a_correction_follows_its_photo_to_another_name(index: Index, corrected: Path) -> None:
    album = corrected.parents[1]
    (album / "trip").mkdir()
    moved = (album / "0.png").rename(album / "trip" / "first.png")
    before = Corrections.of(index).read(facts(Corrections.of(index), moved))
    assert before[0] is not None, "known by its bytes, before the index knows the new name"
    corrections = follow(index)
    record, is_replaced = corrections.read(facts(corrections, moved))
    assert record is not None
    assert (record.image, is_replaced) == ("../../trip/first.png", False)
    assert run(["data", "check", str(corrected)]) == 0


def test_names_that_are_exchanged_exchange_their_corrections(index: Index, corrected: Path) -> None:
    album = corrected.parents[1]
    other = Correction.of({"regions": [{"xyxy": [1, 1, 9, 9], "caption": "a corner"}]})
    corrections = Corrections.of(index)
    corrections.save(facts(corrections, album / "1.png"), other)
    (album / "0.png").rename(album / "spare.png")
    (album / "1.png").rename(album / "0.png")
    (album / "spare.png").rename(album / "1.png")
    corrections = follow(index)
    for name, phrase in (("0.png", "a corner"), ("1.png", "a yellow circle")):
        record, _ = corrections.read(facts(corrections, album / name))
        assert record is not None
        assert (record.image, record.regions[0].phrase) == (f"../../{name}", phrase)
    assert run(["data", "check", str(corrected)]) == 0


def test_a_correction_stays_when_only_metadata_change(index: Index, corrected: Path) -> None:
    """Such as keywords that exiftool writes."""
    photo, text = corrected.parents[1] / "0.png", PngInfo()
    text.add_text("Keywords", "a circle")
    with Image.open(photo) as image:
        image.save(photo, pnginfo=text)
    corrections = Corrections.of(index)
    edited = facts(corrections, photo)
    assert corrections.read(edited)[0] is not None
    record, _ = follow(index).read(edited._replace(pixels=None))
    assert record is not None, "the record has the new digest"
    with Image.open(photo) as image:
        image.rotate(180).save(photo)
    assert follow(index).read(facts(corrections, photo)) == (None, True)


def test_a_correction_of_a_replaced_photo_is_kept_and_comes_back_with_it(
    index: Index, corrected: Path, tmp_path: Path
) -> None:
    album = corrected.parents[1]
    old = (album / "0.png").rename(tmp_path / "old.png")
    draw_scene((80, 60)).save(album / "0.png")
    for _ in range(2):  # before and after the index knows of it
        corrections = Corrections.of(index)
        assert corrections.read(facts(corrections, album / "0.png")) == (None, True)
        corrections = follow(index)
    images = [record.image for record in Dataset(corrected)]
    assert "../../0.png" not in images, "nobody trains with the old boxes on the new photo"
    corrections.save(facts(corrections, album / "0.png"), CORRECTION)
    old.rename(album / "0.png")
    corrections = follow(index)
    record, is_replaced = corrections.read(facts(corrections, album / "0.png"))
    assert record is not None
    assert (record.width, record.height, is_replaced) == (64, 48, False)
    assert len((corrected / "kept.jsonl").read_bytes().splitlines()) == 2
    assert run(["data", "check", str(corrected)]) == 0


def test_what_is_saved_for_a_new_photo_leaves_the_one_of_the_old_photo(
    index: Index, corrected: Path, tmp_path: Path
) -> None:
    """Also if no index was made in between."""
    album = corrected.parents[1]
    (album / "0.png").rename(tmp_path / "old.png")
    draw_scene((80, 60)).save(album / "0.png")
    corrections = Corrections.of(index)
    corrections.save(facts(corrections, album / "0.png"), CORRECTION)
    old = facts(corrections, tmp_path / "old.png")
    record, _ = corrections.read(old)
    assert record is not None
    assert (record.width, record.height) == (64, 48)


def test_the_correction_of_a_deleted_photo_is_kept(index: Index, corrected: Path) -> None:
    album = corrected.parents[1]
    deleted = facts(Corrections.of(index), album / "2.png")
    (album / "2.png").unlink()
    corrections = follow(index)
    record, _ = corrections.read(deleted)
    assert record is not None
    assert run(["data", "check", str(corrected)]) == 0


def test_a_record_without_a_digest_belongs_to_the_name_and_size(tmp_path: Path) -> None:
    """Of 0.9."""
    corrections = Corrections(tmp_path)
    corrections.save(PhotoFacts("a.png", None, (64, 64)), CORRECTION)
    assert corrections.read(PhotoFacts("a.png", "0" * 32, (64, 64)))[0] is not None
    assert corrections.read(PhotoFacts("a.png", "0" * 32, (32, 32))) == (None, True)


def test_a_deleted_correction_does_not_come_back(index: Index, corrected: Path) -> None:
    album = corrected.parents[1]
    photo = facts(Corrections.of(index), album / "0.png")
    (album / "0.png").rename(corrected / "elsewhere.png")
    follow(index)
    (corrected / "elsewhere.png").rename(album / "0.png")
    corrections = follow(index)
    assert corrections.read(photo)[0] is not None
    corrections.delete(photo)
    assert follow(index).read(photo) == (None, False)


@pytest.mark.parametrize("fails_at", ["kept.jsonl", "annotations.jsonl"])
def test_nothing_is_lost_if_putting_aside_fails_in_the_middle(
    index: Index, corrected: Path, fails_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    album = corrected.parents[1]
    every = [facts(Corrections.of(index), album / f"{number}.png") for number in range(3)]
    (album / "0.png").unlink()
    (album / "1.png").rename(album / "one.png")
    write = corrections_module.write_json_lines

    def fail(path: Path, values: Any) -> int:
        if path.name == fails_at:
            raise OSError("no space")
        return write(path, values)

    monkeypatch.setattr(corrections_module, "write_json_lines", fail)
    with pytest.raises(OSError, match="no space"):
        follow(index)
    monkeypatch.undo()
    for corrections in (Corrections.of(index), follow(index)):
        assert all(corrections.read(photo)[0] for photo in every)


def test_a_network_trains_on_them(
    corrected: Path, quick_recipe: Callable[..., Any], tmp_path: Path
) -> None:
    import torch

    from regiontalk.lab.training.detector.task import FCLNTask
    from regiontalk.lab.training.engine import Engine

    class Nobody:
        def step(self, *_: object) -> None: ...
        def say(self, _: str) -> None: ...

    recipe = quick_recipe(f"data.0.path={corrected}", "run.steps=2")
    Engine(FCLNTask.begin(recipe), tmp_path / "run", torch.device("cpu"), Nobody()).train()
    assert (tmp_path / "run" / "checkpoints").exists()


def test_several_at_once_are_all_kept(tmp_path: Path) -> None:
    """From threads of two servers."""
    servers = [Corrections(tmp_path / "corrections") for _ in range(2)]
    with ThreadPoolExecutor(8) as threads:
        list(
            threads.map(
                lambda number: servers[number % 2].save(unread(f"{number}.png"), CORRECTION),
                range(40),
            )
        )
    assert {record.image for record in Dataset(tmp_path / "corrections")} == {
        f"{n}.png" for n in range(40)
    }


def test_a_refused_correction_and_a_damaged_file_change_nothing(tmp_path: Path) -> None:
    corrections = Corrections(tmp_path)
    corrections.save(unread("a.png"), CORRECTION)
    before = (tmp_path / "annotations.jsonl").read_bytes()
    with pytest.raises(UsageError, match="outside the image"):
        corrections.save(PhotoFacts("a.png", None, (20, 20)), CORRECTION)
    assert (tmp_path / "annotations.jsonl").read_bytes() == before
    (tmp_path / "annotations.jsonl").write_bytes(before[:-20])
    with pytest.raises(DataError):
        corrections.save(unread("b.png"), CORRECTION)
    assert (tmp_path / "annotations.jsonl").read_bytes() == before[:-20]
