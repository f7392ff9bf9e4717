from __future__ import annotations

import dataclasses
import gzip
import io
import json
import re
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regiontalk.errors import DataError
from regiontalk.lab.data.records import (
    Dataset,
    Record,
    TrueRegion,
    epoch_order,
    evenly_spaced,
    parse_record,
    stream_records,
)

LINE = (
    '{"image":"a.jpg","width":448,"height":336,"split":"dev","sentences":["A dog runs ."],'
    '"regions":[{"xyxy":[10.0,20.5,200.0,300.0],"phrase":"a brown dog"}]}'
)

numbers = st.floats(-1e4, 1e4)
box = st.tuples(numbers, numbers, numbers, numbers)
json_values = (
    st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers(), max_size=3)
)
extra_keys = st.dictionaries(st.text(min_size=1).map("x_{}".format), json_values, max_size=3)
true_regions = st.builds(
    TrueRegion,
    xyxy=box,
    phrase=st.text(),
    type=st.none() | st.text(),
    boxes_xyxy=st.lists(box, max_size=2).map(tuple),
    more=extra_keys,
)
records = st.builds(
    Record,
    image=st.text(),
    width=st.integers(1, 10**5),
    height=st.integers(1, 10**5),
    split=st.sampled_from(["train", "dev", "test"]),
    shard=st.none() | st.text(),
    sentences=st.lists(st.text(), max_size=3).map(tuple),
    regions=st.lists(true_regions, max_size=3).map(tuple),
    more=extra_keys,
)


def some_records(count: int) -> list[Record]:
    return [Record(f"{number}.jpg", 10, 10) for number in range(count)]


def write(folder: Path, *lines: str) -> Path:
    (folder / "annotations.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@given(records)
def test_a_record_goes_through_json_and_back(record: Record) -> None:
    assert parse_record(json.dumps(record.to_dict()).encode(), "") == record


def test_the_form_of_the_design() -> None:
    record = parse_record(LINE.encode(), "")
    assert record.regions == (TrueRegion((10.0, 20.5, 200.0, 300.0), "a brown dog"),)
    assert json.dumps(record.to_dict(), separators=(",", ":")) == LINE


def test_unknown_keys_are_kept() -> None:
    data = json.loads(LINE)
    data["photographer"] = "me"
    data["regions"][0]["id"] = 7
    assert parse_record(json.dumps(data).encode(), "").to_dict() == data


def test_a_data_set_gives_records_by_number_and_in_order(tmp_path: Path) -> None:
    lines = [json.dumps(record.to_dict()) for record in some_records(5)]
    dataset = Dataset(write(tmp_path, *lines))
    assert len(dataset) == 5
    assert [record.image for record in dataset] == [f"{number}.jpg" for number in range(5)]
    assert dataset[3].image == "3.jpg"
    assert dataset[-1].image == "4.jpg"
    with pytest.raises(IndexError):
        dataset[5]


def test_a_split_is_chosen(tmp_path: Path) -> None:
    lines = [
        json.dumps({"image": f"{n}.jpg", "width": 1, "height": 1, "split": split})
        for n, split in enumerate(["train", "dev", "train", "test"])
    ]
    write(tmp_path, *lines)
    assert [record.image for record in Dataset(tmp_path, "train")] == ["0.jpg", "2.jpg"]
    assert Dataset(tmp_path, "test")[0].image == "3.jpg"


def test_blank_lines_and_foreign_line_ends_do_not_matter(tmp_path: Path) -> None:
    text = f"\r\n\n{LINE}\r\n   \n{LINE}"
    (tmp_path / "annotations.jsonl").write_bytes(text.encode())
    dataset = Dataset(tmp_path)
    assert [record.image for record in dataset] == ["a.jpg", "a.jpg"]
    assert len(list(stream_records(tmp_path))) == 2


def test_compressed_annotations_read_the_same(tmp_path: Path) -> None:
    (tmp_path / "annotations.jsonl.gz").write_bytes(gzip.compress(f"{LINE}\n{LINE}\n".encode()))
    assert [record.image for record in Dataset(tmp_path)] == ["a.jpg", "a.jpg"]
    assert len(list(stream_records(tmp_path))) == 2


@pytest.mark.parametrize("cut", [5, 40])
def test_broken_compression_is_named(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "annotations.jsonl.gz"
    path.write_bytes(gzip.compress(LINE.encode())[:cut])
    with pytest.raises(DataError, match=r"annotations\.jsonl\.gz"):
        Dataset(tmp_path)
    with pytest.raises(DataError, match=r"annotations\.jsonl\.gz"):
        list(stream_records(tmp_path))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{broken", "wrong JSON"),
        ("[1, 2]", "not of type dict"),
        ("null", "not of type dict"),
        ('{"width": 1, "height": 1}', "'image' is missing"),
        ('{"image": "a.jpg", "width": "wide", "height": 1}', "width: 'wide'"),
        ('{"image": "a.jpg", "width": 1e999, "height": 1}', "1e999. is too large"),
        ('{"image": 3, "width": 1, "height": 1}', "image: 3 is not of type str"),
        ('{"image": "a", "width": 1, "height": 1, "sentences": [1]}', r"sentences\[0\]: 1"),
        (
            '{"image": "a", "width": 1, "height": 1, "regions": [{"phrase": "x"}]}',
            "'xyxy' is missing",
        ),
        (
            '{"image": "a", "width": 1, "height": 1, "regions": [{"xyxy": [1, 2], "phrase": "x"}]}',
            "not a list of 4 values",
        ),
        (
            '{"image": "a", "width": 1, "height": 1, "regions": [{"xyxy": [1, 2, 3, 4], "phrase": null}]}',
            "phrase: None",
        ),
        ("[" * 100_000, "wrong JSON"),
    ],
)
def test_a_broken_record_is_named_by_its_line(tmp_path: Path, line: str, words: str) -> None:
    dataset = Dataset(write(tmp_path, LINE, "", line, LINE))
    assert dataset[0].image == "a.jpg"
    with pytest.raises(DataError, match=f"line 3.*{words}"):
        dataset[1]
    assert dataset[2].image == "a.jpg"


def test_a_folder_without_annotations_says_how_to_make_them(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(DataError, match="no data set here") as caught:
            Dataset(folder)
        assert "data prepare" in str(caught.value.hint)


def test_photos_are_read_from_files(tmp_path: Path) -> None:
    write(tmp_path, LINE)
    (tmp_path / "a.jpg").write_bytes(b"photo")
    dataset = Dataset(tmp_path)
    assert dataset.read_photo(dataset[0]) == b"photo"
    (tmp_path / "a.jpg").unlink()
    with pytest.raises(DataError, match=r"a\.jpg: No such file"):
        dataset.read_photo(dataset[0])


def test_an_absolute_path_stays_where_it_is(tmp_path: Path) -> None:
    photo = tmp_path / "elsewhere.jpg"
    photo.write_bytes(b"far")
    folder = tmp_path / "set"
    folder.mkdir()
    write(folder, json.dumps({"image": str(photo), "width": 1, "height": 1}))
    dataset = Dataset(folder)
    assert dataset.read_photo(dataset[0]) == b"far"


def add_shard(folder: Path, name: str, members: dict[str, bytes]) -> Path:
    with tarfile.open(folder / name, "w") as tar:
        for member, content in members.items():
            header = tarfile.TarInfo(member)
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
    return folder / name


def test_photos_are_read_from_tar_shards(tmp_path: Path) -> None:
    add_shard(
        tmp_path, "images-0.tar", {"a.jpg": b"first", "b.jpg": b"", "deep/ü.jpg": b"third" * 1000}
    )
    shard = {"width": 1, "height": 1, "shard": "images-0.tar"}
    dataset = Dataset(
        write(
            tmp_path,
            *(
                json.dumps({"image": name} | shard)
                for name in ("deep/ü.jpg", "a.jpg", "b.jpg", "no.jpg")
            ),
        )
    )
    assert [dataset.read_photo(dataset[n]) for n in range(3)] == [b"third" * 1000, b"first", b""]
    with pytest.raises(DataError, match=r"images-0\.tar: no member 'no\.jpg'"):
        dataset.read_photo(dataset[3])


@pytest.mark.parametrize("shard", ["missing.tar", "text.tar", "folder.tar", "nul\0.tar"])
def test_a_shard_that_is_no_tar_is_named(tmp_path: Path, shard: str) -> None:
    (tmp_path / "text.tar").write_text("this is no tar file" * 100)
    (tmp_path / "folder.tar").mkdir()
    dataset = Dataset(
        write(tmp_path, json.dumps({"image": "a.jpg", "width": 1, "height": 1, "shard": shard}))
    )
    with pytest.raises(DataError, match=r"\.tar: "):
        dataset.read_photo(dataset[0])


@pytest.mark.parametrize("size", [10**8, 10**12])
def test_c7_a_header_of_gigabytes_in_a_shard_is_refused(tmp_path: Path, size: int) -> None:
    header = tarfile.TarInfo("a.jpg")
    header.type, header.size = tarfile.XHDTYPE, size
    (tmp_path / "s.tar").write_bytes(header.tobuf(tarfile.GNU_FORMAT))
    with (tmp_path / "s.tar").open("rb+") as file:
        file.truncate(min(size, 10**9))
    dataset = Dataset(
        write(tmp_path, json.dumps({"image": "a.jpg", "width": 1, "height": 1, "shard": "s.tar"}))
    )
    with pytest.raises(DataError, match="a header that is too long"):
        dataset.read_photo(dataset[0])


def test_a_shard_cut_off_or_gone_after_its_index_was_read_is_named(tmp_path: Path) -> None:
    path = add_shard(tmp_path, "s.tar", {"a.jpg": b"x" * 5000})
    dataset = Dataset(
        write(tmp_path, json.dumps({"image": "a.jpg", "width": 1, "height": 1, "shard": "s.tar"}))
    )
    assert len(dataset.read_photo(dataset[0])) == 5000
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(DataError, match="cut off"):
        dataset.read_photo(dataset[0])
    path.unlink()
    with pytest.raises(DataError, match="No such file"):
        dataset.read_photo(dataset[0])


def test_an_epoch_order_depends_on_seed_and_epoch_alone() -> None:
    assert epoch_order(50, 1, 2).tolist() == epoch_order(50, 1, 2).tolist()
    assert epoch_order(50, 1, 2).tolist() != epoch_order(50, 1, 3).tolist()
    assert epoch_order(50, 1, 2).tolist() != epoch_order(50, 2, 2).tolist()
    assert sorted(epoch_order(50, 1, 2).tolist()) == list(range(50))


def test_the_examples_of_the_repository_are_sound(examples: Path) -> None:
    from regiontalk.images.photo import open_photo

    dataset = Dataset(examples)
    assert len(dataset) == 8
    for record in dataset:
        assert open_photo(examples / record.image).size == (record.width, record.height)
        assert record.sentences
        for region in record.regions:
            x0, y0, x1, y1 = region.xyxy
            assert 0 <= x0 < x1 <= record.width
            assert 0 <= y0 < y1 <= record.height
            assert region.phrase == region.phrase.strip().lower()


def test_evenly_spaced() -> None:
    assert evenly_spaced(10, 3) == [0, 4, 9]
    assert evenly_spaced(3, 10) == [0, 1, 2]
    assert evenly_spaced(5, 1) == [0]
    assert evenly_spaced(0, 4) == []


def test_the_manual_names_every_field() -> None:
    page = (Path(__file__).parents[3] / "docs" / "your-own-data.md").read_text(encoding="utf-8")
    table = page.partition("## The fields of a record")[2]
    named = [
        name
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    ]
    fields = [
        field.name
        for kind in (Record, TrueRegion)
        for field in dataclasses.fields(kind)
        if field.name != "more"
    ]
    assert sorted(named) == sorted(fields)
