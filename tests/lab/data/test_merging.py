"""Heavily overlapping regions become one with several references (DenseCap section 4)."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regiontalk import boxes
from regiontalk.errors import DataError, UsageError
from regiontalk.io.files import json_line
from regiontalk.lab.data.checking import Checker
from regiontalk.lab.data.drawn import write_scenes
from regiontalk.lab.data.merging import merge_dataset, merge_regions
from regiontalk.lab.data.packing import Packer
from regiontalk.lab.data.prepare import Settings, prepare
from regiontalk.lab.data.records import Dataset, Record, TrueRegion

corner = st.integers(0, 30)
regions = st.builds(
    lambda x, y, w, h, n: TrueRegion((x, y, x + w, y + h), f"phrase {n}"),
    corner, corner, st.integers(1, 30), st.integers(1, 30), st.integers(0, 9),
)  # fmt: skip


def test_boxes_are_averaged_and_phrases_kept():
    record = Record(
        "a.jpg",
        100,
        100,
        regions=(
            TrueRegion((0, 0, 10, 10), "a dog", "animals", entity="1"),
            TrueRegion((50, 50, 60, 60), "a cat", "animals"),
            TrueRegion((0, 0, 10, 12), "the dog", "animals"),
        ),
    )
    dog, cat = merge_regions(record).regions
    assert dog == TrueRegion((0, 0, 10, 11), "a dog", "animals", phrases=("a dog", "the dog"))
    assert cat.phrases == ("a cat",)


def test_a_type_is_kept_where_all_agree():
    record = Record(
        "a.jpg",
        9,
        9,
        regions=(TrueRegion((0, 0, 9, 9), "x", "people"), TrueRegion((0, 0, 9, 9), "y")),
    )
    assert merge_regions(record).regions[0].type is None


@given(st.lists(regions, max_size=12), st.sampled_from([0.3, 0.7, 1.0]))
def test_every_phrase_stays_and_every_merged_box_is_close_to_its_own(several, threshold):
    record = Record("a.jpg", 60, 60, regions=tuple(several))
    merged = merge_regions(record, threshold)
    phrases = [phrase for region in merged.regions for phrase in region.phrases]
    assert sorted(phrases) == sorted(region.phrase for region in several)
    assert all(region.phrase == region.phrases[0] for region in merged.regions)
    groups = boxes.merge_groups([region.xyxy for region in several], threshold)
    for region, group in zip(merged.regions, groups, strict=True):
        np.testing.assert_allclose(region.xyxy, np.mean([several[n].xyxy for n in group], axis=0))


def test_merging_again_loses_no_phrase():
    record = Record(
        "a.jpg", 9, 9, regions=tuple(TrueRegion((0, 0, 9, 9), phrase) for phrase in "xyz")
    )
    assert merge_regions(merge_regions(record)).regions[0].phrases == ("x", "y", "z")


def test_a_data_set_is_merged_with_its_photos_in_place(tmp_path, scene):
    folder = tmp_path / "data"
    (folder / "photos").mkdir(parents=True)
    scene.save(folder / "photos" / "a.png")
    twice = (TrueRegion((0, 0, 9, 9), "x"), TrueRegion((0, 0, 9, 9), "y"))
    packer = Packer(folder, 96)
    packed = packer.pack(Record("b.jpg", 96, 64, regions=twice), scene)
    packer.close()
    plain = Record("photos/a.png", 96, 64, "dev", regions=twice)
    (folder / "annotations.jsonl").write_bytes(
        b"".join(json_line(r.to_dict()) for r in (plain, packed))
    )
    description = merge_dataset(folder, tmp_path / "merged")
    assert (description["merged_from_regions"], description["regions"]) == (4, 2)
    assert json.loads((tmp_path / "merged" / "dataset.json").read_text()) == description
    assert list(Checker(tmp_path / "merged").problems()) == []
    assert [record.split for record in Dataset(tmp_path / "merged")] == ["dev", "train"]


def test_bad_input_leaves_nothing(tmp_path):
    with pytest.raises(DataError, match="no data set here"):
        merge_dataset(tmp_path, tmp_path / "out")
    (tmp_path / "annotations.jsonl").write_text("")
    with pytest.raises(DataError, match="an empty data set"):
        merge_dataset(tmp_path, tmp_path / "out")
    with pytest.raises(UsageError, match="the IoU must be"):
        merge_dataset(tmp_path, tmp_path / "out", 1.5)
    with pytest.raises(UsageError, match="the source itself"):
        merge_dataset(tmp_path, tmp_path, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["annotations.jsonl"]


def test_photos_that_the_new_data_set_needs_are_not_replaced(tmp_path):
    """`merged` only points at the shards in `packed`: to write over `packed` would lose them."""
    write_scenes(tmp_path / "packed", train=2, dev=0)
    merge_dataset(tmp_path / "packed", tmp_path / "merged")
    before = {path.name: path.read_bytes() for path in (tmp_path / "packed").iterdir()}
    with pytest.raises(UsageError, match=r"images-00\.tar, which the new data set needs"):
        prepare("jsonl", tmp_path / "merged", tmp_path / "packed", Settings(force=True))
    assert {path.name: path.read_bytes() for path in (tmp_path / "packed").iterdir()} == before
    prepare("jsonl", tmp_path / "merged", tmp_path / "packed", Settings(force=True, pack=64))


def test_c7_fifteen_thousand_regions_are_refused(tmp_path):
    region = {"xyxy": [0, 0, 9, 9], "phrase": "a dot"}
    line = {"image": "a.jpg", "width": 9, "height": 9, "regions": [region] * 15_000}
    (tmp_path / "annotations.jsonl").write_text(json.dumps(line))
    with pytest.raises(DataError, match="line 1: 15000 regions"):
        merge_dataset(tmp_path, tmp_path / "out")


def test_c7_a_pair_of_regions_takes_little_memory():
    """A byte, and not several numbers: 2,000 regions are four million pairs."""
    dots = tuple(TrueRegion((n, 0, n + 1, 1), "a dot") for n in range(2000))
    tracemalloc.start()
    merged = merge_regions(Record("a.jpg", 2001, 1, regions=dots))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(merged.regions) == 2000
    assert peak < 40e6


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('"regions": [{"xyxy": [NaN, 0, 1, 1], "phrase": "x"}]', "NaN is not JSON"),
        ('"regions": [{"xyxy": [1e999, 0, 1, 1], "phrase": "x"}]', "1e999"),
        (
            '"regions": [{"xyxy": [0, 0, 1, 1], "phrase": "x", "phrases": 5}]',
            r"phrases: 5 is not a list",
        ),
        ('"licence": 1e999', "1e999"),
        (f'"licence": {"9" * 5000}', "digits"),
        (f'"licence": {"[" * 100_000}', "wrong JSON"),
    ],
)
def test_c10_values_that_are_no_records_are_named(text, problem, tmp_path):
    (tmp_path / "annotations.jsonl").write_text(
        f'{{"image": "a.jpg", "width": 9, "height": 9, {text}}}'
    )
    with pytest.raises(DataError, match=rf"annotations\.jsonl, line 1: .*{problem}"):
        merge_dataset(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
