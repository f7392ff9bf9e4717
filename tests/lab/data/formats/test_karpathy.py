"""Karpathy's JSON files."""

import json
from pathlib import Path

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.prepare import Settings, prepare
from regiontalk.lab.data.records import Dataset


def entry(name: str, split: str, *sentences: str, **more: object) -> dict[str, object]:
    texts = [
        {"tokens": s.lower().split(), "raw": s, "imgid": 0, "sentid": n}
        for n, s in enumerate(sentences)
    ]
    return {"sentids": [0], "imgid": 0, "sentences": texts, "split": split, "filename": name} | more


@pytest.fixture
def source(tmp_path, scene) -> Path:
    folder = tmp_path / "karpathy"
    (folder / "val2014").mkdir(parents=True)
    names = ("COCO_val2014_1.jpg", "COCO_val2014_2.jpg", "COCO_val2014_3.jpg", "COCO_val2014_4.jpg")
    images = [
        entry(names[0], "test", "A man with a red helmet. ", "\n", filepath="val2014", cocoid=1),
        entry(names[1], "restval", "A dirt path.", filepath="val2014", cocoid=2),
        entry(names[2], "val", "A plane.", filepath="val2014", cocoid=3),
        entry(names[3], "train", "A boat.", filepath="train2014", cocoid=4),
    ]
    (folder / "dataset_coco.json").write_text(json.dumps({"images": images, "dataset": "coco"}))
    for name in names[:3]:
        scene.save(folder / "val2014" / name)
    return folder


def test_a_sample_becomes_records(source, tmp_path):
    done = prepare("karpathy", source, tmp_path / "out")
    records = list(Dataset(tmp_path / "out"))
    assert [record.split for record in records] == ["test", "train", "dev"]
    assert records[0].image == str(source / "val2014" / "COCO_val2014_1.jpg")
    assert records[0].sentences == ("A man with a red helmet.",)
    assert (records[0].width, records[0].height) == (96, 64)
    [skipped] = done.skipped
    assert skipped.place.endswith("dataset_coco.json, image 4")
    assert "train2014/COCO_val2014_4.jpg" in skipped.reason


def test_flickr_files_have_no_filepath(tmp_path, scene):
    (tmp_path / "flickr30k-images").mkdir()
    scene.save(tmp_path / "flickr30k-images" / "1.jpg")
    path = tmp_path / "dataset_flickr30k.json"
    path.write_text(
        json.dumps({"images": [entry("1.jpg", "train", "A dog.")], "dataset": "flickr30k"})
    )
    prepare("karpathy", path, tmp_path / "out")
    [record] = Dataset(tmp_path / "out")
    assert record.image == str(tmp_path / "flickr30k-images" / "1.jpg")


def test_a_split_file_takes_the_place_of_the_files_own_splits(source, tmp_path):
    splits = tmp_path / "splits.json"
    splits.write_text(json.dumps({"train": ["COCO_val2014_1.jpg"]}))
    prepare("karpathy", source, tmp_path / "out", Settings(split_file=splits))
    [record] = Dataset(tmp_path / "out")
    assert record.split == "train"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            '{"images": [{"filename": "a.jpg"}]}',
            r"dataset_coco\.json, image 1: there is no 'sentences'",
        ),
        (json.dumps({"images": [entry("a.jpg", "later", "x")]}), "image 1: unknown split 'later'"),
        ('{"images": [', "wrong JSON at character 13"),
        ("[]", r"expected '{', found '\['"),
        ('{"images": [5]}', "image 1: 5 is not a JSON object"),
        ("{}", "an empty data set"),
    ],
)
def test_bad_input_is_named_with_file_and_place(tmp_path, content, problem):
    path = tmp_path / "dataset_coco.json"
    path.write_text(content)
    with pytest.raises(DataError, match=problem):
        prepare("karpathy", path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_must_hold_one_file(source, tmp_path):
    (source / "dataset_flickr8k.json").write_text("{}")
    with pytest.raises(DataError, match="2 files named dataset"):
        prepare("karpathy", source, tmp_path / "out")
    with pytest.raises(DataError, match="no file named dataset"):
        prepare("karpathy", source / "val2014", tmp_path / "out")
