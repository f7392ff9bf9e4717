"""One data set from several about the same photos."""

from __future__ import annotations

from pathlib import Path

import pytest

from regiontalk.errors import DataError, UsageError
from regiontalk.io.files import json_line
from regiontalk.lab.data.joining import join_datasets
from regiontalk.lab.data.records import Dataset, Record, TrueRegion

DOG, CAT = (
    TrueRegion((0, 0, 10, 10), "dog", "object"),
    TrueRegion((4, 8, 20, 16), "a cat", "phrase"),
)


def write(folder: Path, *records: Record) -> Path:
    folder.mkdir()
    (folder / "annotations.jsonl").write_bytes(
        b"".join(json_line(record.to_dict()) for record in records)
    )
    return folder


def test_photos_and_splits_are_the_firsts_and_regions_everybodys(
    tmp_path: Path, scene_path: Path
) -> None:
    first = write(
        tmp_path / "first",
        Record(str(scene_path), 96, 64, "dev", regions=(DOG,), id="7", more={"licence": 5}),
        Record("alone.jpg", 50, 50, regions=(DOG,), id="8"),
    )
    other = write(
        tmp_path / "other",
        Record("x", 96, 64, "test", None, ("A cat .",), (CAT,), "7"),
        Record("y", 9, 9, id="1"),
    )
    done = join_datasets(first, [other], tmp_path / "out")
    joined, alone = Dataset(tmp_path / "out")
    assert joined == Record(
        str(scene_path), 96, 64, "dev", None, ("A cat .",), (DOG, CAT), "7", more={"licence": 5}
    )
    assert alone.image == str(first / "alone.jpg")
    assert alone.regions == (DOG,)
    assert done["joined"] == {str(other): {"photos": 2, "joined_photos": 1, "dropped_regions": 0}}


def test_boxes_follow_the_size_of_the_photo(tmp_path: Path) -> None:
    plural = TrueRegion((0, 0, 40, 40), "cats", boxes_xyxy=((0, 0, 20, 20), (30, 30, 40, 40)))
    outside = TrueRegion((48, 0, 50, 9), "nothing")
    first = write(tmp_path / "first", Record("a.jpg", 96, 64, id="7"))
    other = write(
        tmp_path / "other", Record("b.jpg", 48, 64, regions=(CAT, plural, outside), id="7")
    )
    done = join_datasets(first, [other], tmp_path / "out")
    cat, cats = Dataset(tmp_path / "out")[0].regions
    assert cat.xyxy == (8, 8, 40, 16)
    assert cats.boxes_xyxy == ((0, 0, 40, 20), (60, 30, 80, 40))
    assert done["joined"][str(other)]["dropped_regions"] == 1


def test_phrases_still_find_their_sentences(tmp_path: Path) -> None:
    one = Record(
        "a.jpg",
        9,
        9,
        "dev",
        None,
        ("x",),
        (TrueRegion((0, 0, 9, 9), "x", sentences=(0,)),),
        "7",
        ("x",),
    )
    two = Record(
        "a.jpg",
        9,
        9,
        "dev",
        None,
        ("y",),
        (TrueRegion((0, 0, 9, 9), "y", sentences=(1,)),),
        "7",
        ("z", "y"),
    )
    join_datasets(
        write(tmp_path / "a", Record("a.jpg", 9, 9, id="7")),
        [write(tmp_path / "b", one), write(tmp_path / "c", two)],
        tmp_path / "out",
    )
    (record,) = Dataset(tmp_path / "out")
    assert record.sentences == ("x",)
    assert [record.entity_sentences[region.sentences[0]] for region in record.regions] == ["x", "y"]


def test_photos_are_packed(tmp_path: Path, scene_path: Path) -> None:
    first = write(tmp_path / "first", Record(str(scene_path), 96, 64, regions=(DOG,), id="7"))
    other = write(tmp_path / "other", Record("b.jpg", 192, 128, regions=(CAT,), id="7"))
    join_datasets(first, [other], tmp_path / "packed", pack=48)
    join_datasets(tmp_path / "packed", [other], tmp_path / "again", pack=48)
    for name, count in (("packed", 2), ("again", 3)):
        dataset = Dataset(tmp_path / name)
        (record,) = dataset
        assert (record.width, record.height, len(record.regions)) == (48, 32, count)
        assert record.regions[-1].xyxy == (1, 2, 5, 4)
        assert dataset.read_photo(record)


def test_a_photo_without_an_id_cannot_be_joined(tmp_path: Path) -> None:
    with_id = write(tmp_path / "with", Record("a.jpg", 9, 9, id="7"))
    without = write(tmp_path / "without", Record("a.jpg", 9, 9))
    for first, other in ((with_id, without), (without, with_id)):
        with pytest.raises(DataError, match=r"without: a\.jpg has no id"):
            join_datasets(first, [other], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_photos_that_are_too_small_to_pack(tmp_path: Path) -> None:
    with_id = write(tmp_path / "with", Record("a.jpg", 9, 9, id="7"))
    with pytest.raises(UsageError, match="at least 16 pixels"):
        join_datasets(with_id, [with_id], tmp_path / "out", pack=4)
