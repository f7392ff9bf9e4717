"""COCO's captions and instances."""

import json
from pathlib import Path
from typing import Any

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.formats.coco import to_coco
from regiontalk.lab.data.prepare import Settings, prepare
from regiontalk.lab.data.records import Dataset, TrueRegion
from regiontalk.results import ImageRegions, Region

CATEGORIES = [
    {"supercategory": "animal", "id": 18, "name": "dog"},
    {"supercategory": "outdoor", "id": 10, "name": "traffic light"},
]


def image(number: int) -> dict[str, Any]:
    return {
        "license": 5,
        "file_name": f"{number:012d}.jpg",
        "height": 64,
        "width": 96,
        "id": number,
    }


def thing(image_id: int, box: list[float], category: int = 18, crowd: int = 0) -> dict[str, Any]:
    rest = {"segmentation": [[1.0, 2.0]], "area": 1.0, "id": 900}
    return {"image_id": image_id, "bbox": box, "category_id": category, "iscrowd": crowd} | rest


def caption(image_id: int, text: str) -> dict[str, Any]:
    return {"image_id": image_id, "id": 48, "caption": text}


def write(path: Path, **members: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"info": {"year": 2017}, "licenses": [], **members}))


@pytest.fixture
def source(tmp_path, scene) -> Path:
    folder = tmp_path / "coco"
    write(
        folder / "annotations" / "captions_train2017.json",
        images=[image(9), image(25)],
        annotations=[caption(9, "A dog at a light. "), caption(25, " "), caption(9, "Two dogs.\n")],
    )
    write(
        folder / "annotations" / "instances_train2017.json",
        images=[image(9), image(25)],
        annotations=[
            thing(9, [1.5, 2.25, 20.11, 30.6]),
            thing(9, [80, 50, 40, 40], 10),
            thing(9, [0, 0, 96, 64], 18, crowd=1),
            thing(25, [10, 10, 0, 5]),
        ],
        categories=CATEGORIES,
    )
    write(
        folder / "annotations" / "instances_val2017.json",
        images=[image(30)],
        annotations=[thing(30, [0, 0, 5, 5])],
        categories=CATEGORIES,
    )
    write(
        folder / "annotations" / "person_keypoints_train2017.json",
        images=[image(77)],
        annotations=[],
    )
    (folder / "train2017").mkdir()
    scene.save(folder / "train2017" / f"{9:012d}.jpg")
    return folder


def test_a_sample_becomes_records(source, tmp_path):
    done = prepare("coco", source, tmp_path / "out")
    train, dev = Dataset(tmp_path / "out")
    assert train.image == str(source / "train2017" / "000000000009.jpg")
    assert (train.width, train.height, train.split, train.id) == (96, 64, "train", "9")
    assert train.sentences == ("A dog at a light.", "Two dogs.")
    assert [(r.xyxy, r.phrase, r.type) for r in train.regions] == [
        ((1.5, 2.25, 21.61, 32.85), "dog", "object"),
        ((80, 50, 96, 64), "traffic light", "object"),
    ]
    assert (dev.split, dev.image) == ("dev", str(source / "val2017" / "000000000030.jpg"))
    assert done.description["left_out_images"] == {"neither region nor sentence": 1}
    assert done.description["dropped_regions"] == {"box without area inside the image": 1}
    assert done.description["missing_photos"] == 1


def test_the_annotations_folder_finds_the_photos_beside_it(source, tmp_path):
    prepare("coco", source / "annotations", tmp_path / "out")
    assert Dataset(tmp_path / "out")[0].image == str(source / "train2017" / "000000000009.jpg")


def test_one_file_of_any_name_will_do(tmp_path, scene_path):
    write(
        tmp_path / "my_export.json",
        annotations=[thing(1, [0, 0, 5, 5])],
        categories=CATEGORIES,
        images=[image(1) | {"file_name": scene_path.name}],
    )
    prepare("coco", tmp_path / "my_export.json", tmp_path / "out")
    [record] = Dataset(tmp_path / "out")
    assert (record.image, record.split, record.regions[0].phrase) == (
        str(scene_path),
        "train",
        "dog",
    )


def test_a_split_file_may_name_ids_or_files(source, tmp_path):
    splits = tmp_path / "splits.json"
    splits.write_text(json.dumps({"test": [9], "dev": ["000000000030.jpg"]}))
    prepare("coco", source, tmp_path / "out", Settings(split_file=splits))
    assert [record.split for record in Dataset(tmp_path / "out")] == ["test", "dev"]


def test_the_same_photos_in_two_years_are_an_error(source, tmp_path):
    write(
        source / "annotations" / "captions_val2014.json",
        images=[image(9)],
        annotations=[caption(9, "A dog.")],
    )
    with pytest.raises(
        DataError, match=r"captions_val2014\.json, images item 1: image 9 is in train2017 too"
    ):
        prepare("coco", source, tmp_path / "out")


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        (
            {"images": [image(1)], "annotations": [caption(2, "x")]},
            "annotations item 1: no image has the id 2",
        ),
        (
            {"images": [image(1)], "annotations": [thing(1, [0, 0, 5, 5])]},
            "no category has the id 18",
        ),
        ({"images": [image(1)], "annotations": [thing(1, [0, 0, 5])]}, "annotations item 1: "),
        (
            {"images": [image(1)], "annotations": [{"image_id": 1}]},
            "annotations item 1: there is no 'bbox'",
        ),
        ({"images": [{"id": 1}]}, "images item 1: there is no 'file_name'"),
        ({"images": [image(1) | {"width": 0}]}, "images item 1: an image of 0×64 pixels"),
        ({"images": ["x"]}, "images item 1: 'x' is not a JSON object"),
        ({}, "an empty data set"),
    ],
)
def test_bad_input_is_named_with_file_and_place(tmp_path, members, problem):
    write(tmp_path / "instances_train2017.json", **members)
    with pytest.raises(DataError, match=problem):
        prepare("coco", tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_without_coco_files_is_named(tmp_path):
    with pytest.raises(DataError, match="neither captions"):
        prepare("coco", tmp_path, tmp_path / "out")


def test_a_box_with_a_caption_is_a_region(tmp_path, scene):
    said = ImageRegions("scene.jpg", 96, 64, "tiny", (Region((1, 2, 30, 40), 0.9, "a house"),))
    scene.save(tmp_path / "scene.jpg")
    (tmp_path / "said.json").write_text(json.dumps(to_coco([said])))
    prepare("coco", tmp_path / "said.json", tmp_path / "out")
    [record] = Dataset(tmp_path / "out")
    assert record.regions == (TrueRegion((1, 2, 30, 40), "a house", score=0.9),)
    assert record.sentences == ()


def test_b2_every_caption_is_a_category_of_its_own():
    """So that programs which show categories, and drop what they do not know, still have the
    captions."""
    mug, spoon = (
        Region((10.0, 20.0, 60.504, 70.0), 0.9, "a red mug", -3.2),
        Region((0, 0, 200, 100), 0.25, "a spoon"),
    )
    photos = [
        ImageRegions("a.jpg", 200, 100, "tiny", (mug, spoon)),
        ImageRegions("deep/b.jpg", 50, 40, "tiny", ()),
        ImageRegions("c.jpg", 100, 100, "tiny", (mug,)),
    ]
    document = to_coco(photos)
    assert document["images"][1] == {"id": 2, "file_name": "deep/b.jpg", "width": 50, "height": 40}
    assert document["annotations"][0] == {
        "id": 1,
        "image_id": 1,
        "category_id": 1,
        "bbox": [10.0, 20.0, 50.5, 50.0],
        "area": 2525.0,
        "iscrowd": 0,
        "caption": "a red mug",
        "score": 0.9,
    }
    assert [entry["id"] for entry in document["annotations"]] == [1, 2, 3]
    assert [entry["image_id"] for entry in document["annotations"]] == [1, 1, 3]
    assert [entry["category_id"] for entry in document["annotations"]] == [1, 2, 1]
    assert [(entry["id"], entry["name"]) for entry in document["categories"]] == [
        (1, "a red mug"),
        (2, "a spoon"),
    ]


def test_b2_captions_survive_a_program_that_keeps_categories_alone(tmp_path, scene):
    scene.save(tmp_path / "scene.jpg")
    document = to_coco(
        [ImageRegions("scene.jpg", 96, 64, "tiny", (Region((1, 2, 30, 40), 0.9, "a house"),))]
    )
    for entry in document["annotations"]:
        del entry["caption"], entry["score"]
    (tmp_path / "said.json").write_text(json.dumps(document))
    prepare("coco", tmp_path / "said.json", tmp_path / "out")
    assert [region.phrase for record in Dataset(tmp_path / "out") for region in record.regions] == [
        "a house"
    ]


def test_what_people_corrected_in_fiftyone(tmp_path, scene):
    """FiftyOne 1.22 reads our file, keeps the captions as they were, and writes labels that people
    corrected as categories."""
    scene.save(tmp_path / "scene.jpg")
    box = (1.0, 2.0, 30.0, 40.0)
    regions = [
        Region(box, 0.9, caption, confidence=0.8) for caption in ("a house", "a door", "a roof")
    ]
    document = to_coco([ImageRegions("scene.jpg", 96, 64, "tiny", tuple(regions))])
    first = document["annotations"][0]
    assert "confidence" not in first, "FiftyOne's own name for `score`"
    assert first["caption_confidence"] == 0.8
    for entry in document["annotations"]:
        entry["supercategory"] = "region"
    document["categories"][1]["name"] = "a barn door"
    (tmp_path / "labels.json").write_text(json.dumps(document))
    prepare("coco", tmp_path / "labels.json", tmp_path / "out")
    [record] = Dataset(tmp_path / "out")
    assert record.regions == (
        TrueRegion(box, "a house", score=0.9, confidence=0.8),
        TrueRegion(box, "a barn door"),
        TrueRegion(box, "a roof", score=0.9, confidence=0.8),
    )
