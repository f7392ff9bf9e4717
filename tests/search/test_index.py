from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import regiontalk
from conftest import draw_scene
from made_up_entries import entry
from regiontalk.errors import IndexProblem, InputError, UsageError
from regiontalk.model import Model
from regiontalk.search.build import identify
from regiontalk.search.sqlite.database import FOLDER
from regiontalk.search.store import Entry


@pytest.fixture(scope="module")
def model(aligning_model: Path) -> Model:
    return regiontalk.load(aligning_model, threads=1)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory, model: Model) -> Path:
    """A folder with three photos and their index; not to be changed."""
    folder = tmp_path_factory.mktemp("indexed")
    (folder / "trip").mkdir()
    for number, name in enumerate(("a.png", "b.png", "trip/c.png")):
        draw_scene((96 + 16 * number, 64)).save(folder / name)
    regiontalk.Index.open(folder).update(model)
    return folder


def test_photos_are_found_where_they_are(indexed: Path, model: Model) -> None:
    index = regiontalk.Index.open(str(indexed), model=model)
    found = index.search("red circle", top=2)
    assert len(found) == 2
    assert all(Path(hit.path).is_file() for hit in found)
    assert found[0].draw().width in (96, 112, 128)
    assert [hit.path for hit in index.search("red circle", folder="trip/")] == [
        str(indexed / "trip" / "c.png")
    ]
    assert found.to_dict()["hits"][0] == found[0].to_dict()
    assert set(found[0].to_dict()) == {"path", "score", "likely", "words", "regions"}
    index.close()


def test_a_folder_below_the_index_is_part_of_it(
    indexed: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, below = regiontalk.Index.around(indexed / "trip", model=model)
    assert (index.root, below) == (indexed, "trip")
    monkeypatch.chdir(indexed / "trip")
    index, below = regiontalk.Index.around(".", model=model)
    (hit,) = index.search("red circle", folder=below)
    assert hit.path == "../trip/c.png"
    index.close()


def test_regions_like_a_region_of_a_photo(indexed: Path, model: Model) -> None:
    index = regiontalk.Index.open(indexed, model=model)
    found = index.like(indexed / "a.png", [10, 8, 40, 32])
    assert str(indexed / "a.png") not in [hit.path for hit in found]
    assert len(found) == 2
    assert all(-1 <= hit.score <= 1.0001 and len(hit.regions) == 1 for hit in found)
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    (same, *_) = index.like(
        (indexed / "a.png").read_bytes()
    )  # the whole photo, and nobody knows which
    assert same.path == str(indexed / "a.png")
    assert same.score == pytest.approx(1, abs=0.01)
    index.close()


def test_an_index_notices_what_another_process_writes(
    indexed: Path, model: Model, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(indexed, tmp_path / "photos"))
    reader = regiontalk.Index.open(folder, model=model)
    assert reader.search("red").searched == 3
    draw_scene((40, 40)).save(folder / "new.png")
    regiontalk.Index.open(folder).update(model)
    assert reader.search("red").searched == 4
    reader.close()


def test_photos_are_listed_and_given_by_the_ids_that_were_issued(
    indexed: Path, model: Model
) -> None:
    index = regiontalk.Index.open(indexed, model=model)
    assert len(index) == 3
    first, *others = index.photos(limit=2)
    assert len(others) == 1
    assert index.photo(first.id) == first
    assert index.photo("1") is None
    assert Path(first.path).is_file()
    assert (first.width, first.height) in ((96, 64), (112, 64), (128, 64))
    assert {region.caption for region in first.regions} & {
        region.caption for region in model(first.path).regions
    }
    assert all(region.caption for region in first.regions)
    (hit, *_) = index.search("red circle")
    found = index.photo(hit.id)
    assert found is not None
    assert (found.path, found.width, found.height) == (hit.path, hit.width, hit.height)
    index.close()


def test_common_captions_have_likely_hits_and_filter(
    indexed: Path, model: Model, tmp_path: Path
) -> None:
    """What is offered as a search finds the very photos that it is offered for, above the line."""
    index = regiontalk.Index.open(indexed, model=model, place=tmp_path / "index")
    with index.writing() as store:
        for number, caption in enumerate(["a red circle", "red circles", "a red circle"]):
            made = entry_of(model, number)
            regions = [replace(made.regions[1], caption=caption, score=0.9, confidence=0.9)]
            regions.append(replace(made.regions[2], caption="a blue square", score=0.1))
            store.put([replace(made, regions=(made.regions[0], *regions), captions=(caption,))])
    common = index.captions()
    assert [one.to_dict() for one in common] == [
        {"caption": "a red circle", "photos": 2},
        {"caption": "red circles", "photos": 1},
    ]
    assert index.captions(top=1) == common[:1]
    for one in common:
        shown = index.photos(caption=one.caption)
        assert len(shown) == index.count(caption=one.caption) == one.photos
        likely = {hit.path for hit in index.search(one.caption).likely}
        assert {photo.path for photo in shown} <= likely
    assert len(index.photos(caption="a red circle", offset=1)) == 1
    assert index.photos(caption="a blue square") == [], "it is not shown"
    assert index.count() == len(index) == 3
    index.close()


def entry_of(model: Model, number: int) -> Entry:
    made, identified = entry(number, rows=3), identify(model)
    vectors = np.resize(made.vectors, (3, identified.size))
    return replace(made, vectors=vectors, state=np.zeros(identified.state, np.float32))


def test_an_index_is_searched_while_it_is_updated(
    indexed: Path, model: Model, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(indexed, tmp_path / "photos"))
    draw_scene((40, 40)).save(folder / "new.png")
    index, searched = regiontalk.Index.open(folder, model=model), []
    index.update(watch=lambda progress: searched.append(index.search("red").searched))
    assert searched[0] == 3
    assert index.search("red").searched == 4
    index.close()


def test_an_index_that_was_made_again_is_opened_again(
    indexed: Path, model: Model, tmp_path: Path
) -> None:
    folder, away = tmp_path / "photos", tmp_path / "away"
    shutil.copytree(indexed, folder)
    reader = regiontalk.Index.open(folder, model=model)
    before = {photo.id for photo in reader.photos()}
    regiontalk.Index.open(folder).update(model, rebuild=True)
    after = {photo.id for photo in reader.photos()}
    assert before.isdisjoint(after)
    folder.rename(away)
    assert {photo.id for photo in reader.photos()} == after, "what is open stays open"
    away.rename(folder)
    assert {photo.id for photo in reader.photos()} == after
    reader.close()


def test_photos_are_listed_and_counted_by_their_captions(indexed: Path, model: Model) -> None:
    index = regiontalk.Index.open(indexed, model=model)
    photos = index.photos()
    captions = {region.caption for photo in photos for region in photo.regions if region.caption}
    for caption in [*captions, "not a caption", "circle"]:
        shown = [
            photo.id
            for photo in photos
            if caption in {region.caption for region in photo.shown.choose(photo.regions)}
        ]
        assert [photo.id for photo in index.photos(caption=caption)] == shown
        assert index.count(caption=caption) == len(shown)
        assert [photo.id for photo in index.photos(caption=caption, offset=1, limit=1)] == shown[
            1:2
        ]
    assert index.count() == len(index) == 3
    assert index.count(folder="trip") == 1
    assert index.count(since="1970", until="1971") == 0
    index.close()


def test_another_models_index_is_refused_and_rebuilt(
    indexed: Path, model: Model, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(indexed, tmp_path / "photos"))
    connection = sqlite3.connect(folder / FOLDER / "index.sqlite")
    connection.execute("UPDATE about SET value = 'another' WHERE name IN ('name', 'fingerprint')")
    connection.commit()
    connection.close()
    index = regiontalk.Index.open(folder, model=model)
    for ask in (lambda: index.search("red"), index.update):
        with pytest.raises(IndexProblem, match="made with another model, 'another'") as problem:
            ask()
        assert "--rebuild" in (problem.value.hint or "")
    assert index.update(rebuild=True).added == 3
    assert index.search("red").searched == 3
    index.close()


def test_a_damaged_index_is_rebuilt(indexed: Path, model: Model, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(indexed, tmp_path / "photos"))
    (folder / FOLDER / "index.sqlite").write_bytes(b"no database" * 500)
    index = regiontalk.Index.open(folder, model=model)
    with pytest.raises(IndexProblem, match="damaged"):
        index.search("red")
    assert index.update(rebuild=True).added == 3
    index.close()


def test_what_makes_no_sense_is_said(indexed: Path, model: Model, tmp_path: Path) -> None:
    index = regiontalk.Index.open(indexed, model=model)
    for options in ({"top": 0}, {"threshold": 2.0}):
        with pytest.raises(UsageError):
            index.search("red", **options)  # type: ignore[arg-type]
    for date in (
        "May",
        "2021-5",
        "2021-13",
        "2021-02-30",
        "0000",
        "20210530",
        "2021-W01",
        "２０２１",
    ):
        with pytest.raises(UsageError, match="is not a date"):
            index.search("red", since=date)
        with pytest.raises(UsageError, match="is not a date"):
            index.photos(until=date)
    with pytest.raises(UsageError, match="nothing of it lies in the photo"):
        index.like(indexed / "a.png", [500, 500, 600, 600])
    with pytest.raises(IndexProblem, match="no index there"):
        regiontalk.Index.open(tmp_path, model=model).search("red")
    with pytest.raises(InputError, match="no such folder"):
        regiontalk.Index.open(tmp_path / "nothing").update(model)
    assert not (tmp_path / FOLDER).exists()
    index.close()
