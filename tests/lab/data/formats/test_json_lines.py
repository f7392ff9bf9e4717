"""A user's own lines of JSON."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.prepare import Settings, prepare
from regiontalk.lab.data.records import Dataset, Record, TrueRegion
from regiontalk.results import ImageRegions, Region


def write(folder: Path, *entries: Any) -> Path:
    path = folder / "lines.jsonl"
    path.write_text("".join((e if isinstance(e, str) else json.dumps(e)) + "\n" for e in entries))
    return path


def test_our_own_records_come_back_as_they_were(tmp_path, scene_path):
    region = TrueRegion(
        (1, 2, 30, 40), "two dogs", "animals", ((1, 2, 3, 4), (5, 6, 30, 40)), "7", (0,)
    )
    said = ("Two dogs .",)
    record = Record(
        str(scene_path),
        96,
        64,
        "dev",
        None,
        said,
        (region,),
        "5",
        said,
        192,
        128,
        more={"licence": 5},
    )
    prepare("jsonl", write(tmp_path, record.to_dict()), tmp_path / "out")
    assert list(Dataset(tmp_path / "out")) == [record]


def test_what_caption_prints_can_be_corrected_and_learnt_from(tmp_path, scene_path):
    said = ImageRegions(
        str(scene_path), 96, 64, "compact-1", (Region((1, 2, 30, 40), 0.9, "a house", -3.0),)
    )
    prepare("jsonl", write(tmp_path, said.to_dict()), tmp_path / "out")
    [record] = Dataset(tmp_path / "out")
    assert record == Record(
        str(scene_path), 96, 64, regions=(TrueRegion((1, 2, 30, 40), "a house", score=0.9),)
    )


@pytest.mark.parametrize("text", ["[\n{},\n{}\n]\n", " \r\n [{}, {}]", "{}\n{}\n"])
def test_one_array_is_read_like_lines(text, tmp_path, scene_path):
    path = tmp_path / "said.json"
    lines = [
        json.dumps({"path": f"{name}.png", "width": 9, "height": 9, "sentences": [name]})
        for name in "ab"
    ]
    path.write_text(text.replace("{}", lines[0], 1).replace("{}", lines[1], 1))
    prepare("jsonl", path, tmp_path / "out")
    assert [record.sentences for record in Dataset(tmp_path / "out")] == [("a",), ("b",)]
    path.write_text("[5]")
    with pytest.raises(DataError, match=r"said\.json, item 1: 5 is not a JSON object"):
        prepare("jsonl", path, tmp_path / "new")


def test_corner_and_size_and_no_size_of_the_photo(tmp_path, scene_path):
    line = {
        "image": scene_path.name,
        "regions": [{"xywh": [1, 2, 3, 4], "phrase": "a thing"}],
        "split": "val",
    }
    prepare("jsonl", write(tmp_path, line), tmp_path / "out")
    [record] = Dataset(tmp_path / "out")
    assert (record.image, record.width, record.height, record.split) == (
        str(scene_path),
        96,
        64,
        "dev",
    )
    assert record.regions[0].xyxy == (1, 2, 4, 6)


def test_a_packed_data_set_can_be_prepared_again(tmp_path, scene_path):
    line = {"image": scene_path.name, "regions": [{"xyxy": [48, 32, 96, 64], "phrase": "a corner"}]}
    prepare("jsonl", write(tmp_path, line), tmp_path / "large", Settings(pack=96))
    prepare("jsonl", tmp_path / "large", tmp_path / "small", Settings(pack=48))
    [record] = Dataset(tmp_path / "small")
    assert (record.width, record.height) == (48, 32)
    assert record.regions[0].xyxy == (24, 16, 48, 32)
    prepare("jsonl", tmp_path / "large", tmp_path / "same")
    same = Dataset(tmp_path / "same")
    assert same.read_photo(same[0]) == Dataset(tmp_path / "large").read_photo(
        Dataset(tmp_path / "large")[0]
    )


def test_compressed_lines_are_read(tmp_path, scene_path):
    path = tmp_path / "lines.jsonl.gz"
    path.write_bytes(
        gzip.compress(json.dumps({"image": scene_path.name, "sentences": ["A house."]}).encode())
    )
    prepare("jsonl", path, tmp_path / "out")
    assert Dataset(tmp_path / "out")[0].sentences == ("A house.",)


@pytest.mark.parametrize("cut", [5, 30, -5])
def test_a_compressed_file_that_breaks_off_is_named(tmp_path, scene_path, cut):
    path = tmp_path / "lines.jsonl.gz"
    path.write_bytes(
        gzip.compress(json.dumps({"image": scene_path.name, "sentences": ["A house."]}).encode())[
            :cut
        ]
    )
    with pytest.raises(DataError, match=r"lines\.jsonl\.gz"):
        prepare("jsonl", path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


GOOD = {"image": "scene.png", "sentences": ["A house."]}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{oops}", "line 2: wrong JSON at character 2"),
        ('{"image": "scene.png", "width": NaN, "height": 5}', "line 2: wrong JSON: NaN"),
        ([1], r"line 2: \[1\] is not a JSON object"),
        ({"sentences": []}, "line 2: image: None is not of type str"),
        ({"image": 5}, "line 2: image: 5 is not of type str"),
        ({"image": "scene.png", "width": 9}, "line 2: there is no 'height'"),
        ({"image": "scene.png", "shard": "images-00000.tar"}, "line 2: there is no 'width'"),
        ({"image": "scene.png", "split": 3}, "line 2: split: 3 is not of type str"),
        (
            {"image": "scene.png", "regions": [{"xyxy": [1, 2, 3], "phrase": "x"}]},
            r"line 2: regions\[0\]\.xyxy: \[1, 2, 3\]",
        ),
        (
            {"image": "scene.png", "regions": [{"phrase": "x"}]},
            r"line 2: regions\[0\]: 'xyxy' is missing",
        ),
        (
            {"image": "scene.png", "regions": [{"xyxy": [1, 2, 3, 4]}]},
            r"line 2: regions\[0\]: 'phrase' is missing",
        ),
        (
            {
                "image": "b.png",
                "width": 9,
                "height": 9,
                "regions": [{"xyxy": [5, 5, 5, 9], "phrase": "x"}],
            },
            "line 2, region 1: box without area",
        ),
        (
            {
                "image": "b.png",
                "width": 9,
                "height": 9,
                "regions": [{"xyxy": [1, 1, 5, 9], "phrase": ""}],
            },
            "line 2, region 1: empty phrase",
        ),
        ("[" * 100_000, "line 2: "),
    ],
)
def test_bad_input_is_named_with_file_and_line(tmp_path, scene_path, line, problem):
    path = write(tmp_path, GOOD, line)
    with pytest.raises(DataError, match=problem) as caught:
        prepare("jsonl", path, tmp_path / "out")
    assert str(path) in caught.value.message
    assert not (tmp_path / "out").exists()
