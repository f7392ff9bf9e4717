"""Visual Genome, in its own layout."""

import json
from pathlib import Path

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.formats.sources import Source
from regiontalk.lab.data.formats.visual_genome import read, to_visual_genome, too_long
from regiontalk.lab.data.prepare import Settings, prepare
from regiontalk.lab.data.records import Dataset, TrueRegion
from regiontalk.results import ImageRegions, Region

ALL = Settings(min_regions=0, max_regions=1000)


def region(number: int, box: tuple[float, float, float, float], phrase: str) -> dict[str, object]:
    x, y, width, height = box
    return {
        "region_id": number,
        "width": width,
        "height": height,
        "image_id": 1,
        "phrase": phrase,
        "y": y,
        "x": x,
    }


def image(
    number: int, folder: str = "VG_100K_2", width: int = 96, height: int = 64
) -> dict[str, object]:
    url = f"https://cs.stanford.edu/people/rak248/{folder}/{number}.jpg"
    return {
        "width": width,
        "url": url,
        "height": height,
        "image_id": number,
        "coco_id": None,
        "flickr_id": None,
    }


def write_source(folder: Path, images: list[object], descriptions: list[object]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "image_data.json").write_text(json.dumps(images))
    (folder / "region_descriptions.json").write_text(json.dumps(descriptions))
    return folder


@pytest.fixture
def source(tmp_path, scene) -> Path:
    """Three images: one with its photo, one without, one that no split names."""
    folder = write_source(
        tmp_path / "vg",
        [image(1), image(2, "VG_100K"), image(3)],
        [
            {
                "id": 1,
                "regions": [
                    region(11, (10, 5, 30, 20), "the clock is green in colour"),
                    region(12, (80, 50, 40, 40), "A sign  on the facade. "),
                    region(13, (-5, -1, 50, 20), "shade"),
                    region(
                        14, (0, 0, 9, 9), "a man who is wearing a very red shirt and a blue hat"
                    ),
                    region(15, (200, 0, 9, 9), "quite outside"),
                    region(16, (5, 5, 0, 9), "no width"),
                    region(17, (5, 5, 9, 9), " "),
                ],
            },
            {"id": 2, "regions": [region(21, (0, 0, 96, 64), "a street")]},
            {"id": 3, "regions": [region(31, (1, 1, 2, 2), "a tiny thing")]},
        ],
    )
    (folder / "VG_100K_2").mkdir()
    scene.save(folder / "VG_100K_2" / "1.jpg")
    return folder


def test_a_sample_becomes_records(source, tmp_path):
    done = prepare("visual-genome", source, tmp_path / "out", ALL)
    first, second, third = Dataset(tmp_path / "out")
    assert first.image == str(source / "VG_100K_2" / "1.jpg")
    assert (first.width, first.height, first.split, first.id) == (96, 64, "train", "1")
    assert [(r.xyxy, r.phrase) for r in first.regions] == [
        ((10, 5, 40, 25), "the clock is green in colour"),
        ((80, 50, 96, 64), "A sign  on the facade. "),
        ((0, 0, 45, 19), "shade"),
    ]
    assert second.image == str(source / "VG_100K" / "2.jpg")
    assert third.regions[0].phrase == "a tiny thing"
    assert done.description["dropped_regions"] == {
        "box without area inside the image": 2,
        "empty phrase": 1,
        "phrase of more than 10 words": 1,
    }
    assert done.description["clamped_regions"] == 2
    assert done.description["missing_photos"] == 2


def test_photos_may_lie_in_one_folder_elsewhere(source, tmp_path, scene):
    photos = tmp_path / "photos"
    photos.mkdir()
    scene.save(photos / "2.jpg")
    prepare(
        "visual-genome", source, tmp_path / "out", Settings(photos, min_regions=0, max_regions=99)
    )
    assert Dataset(tmp_path / "out")[1].image == str(photos / "2.jpg")


def test_densecaps_split_file_leaves_out_what_it_does_not_name(source, tmp_path):
    splits = tmp_path / "densecap_splits.json"
    splits.write_text(json.dumps({"train": [2], "val": [1], "test": [99]}))
    settings = Settings(split_file=splits, min_regions=0, max_regions=99)
    done = prepare("visual-genome", source, tmp_path / "out", settings)
    assert [record.split for record in Dataset(tmp_path / "out")] == ["dev", "train"]
    assert done.description["left_out_images"] == {"in no split": 1}


def test_images_with_fewer_than_20_or_more_than_50_regions_are_left_out(tmp_path):
    """Counted after the phrase that is too long has gone: image 20 is left with 19."""
    long = region(0, (0, 0, 9, 9), "one two three four five six seven eight nine ten eleven")
    counts = {1: 19, 2: 20, 3: 50, 4: 51}
    descriptions: list[object] = [
        {"id": number, "regions": [region(n, (0, 0, 9, 9), "a dog") for n in range(count)]}
        for number, count in counts.items()
    ]
    descriptions.append(
        {"id": 20, "regions": [region(n, (0, 0, 9, 9), "a dog") for n in range(19)] + [long]}
    )
    folder = write_source(
        tmp_path / "vg", [image(number) for number in (1, 2, 3, 4, 20)], descriptions
    )
    done = prepare("visual-genome", folder, tmp_path / "out")
    assert [record.id for record in Dataset(tmp_path / "out")] == ["2", "3"]
    assert done.description["left_out_images"] == {
        "fewer than 20 regions": 2,
        "more than 50 regions": 1,
    }


def test_photos_of_coco_are_read_under_its_ids(tmp_path):
    images = [image(1) | {"coco_id": 77}, image(2) | {"coco_id": None}]
    descriptions = [
        {"id": number, "regions": [region(1, (0, 0, 9, 9), "a dog")]} for number in (1, 2)
    ]
    prepare(
        "visual-genome-coco", write_source(tmp_path / "vg", images, descriptions), tmp_path / "out"
    )
    [record] = Dataset(tmp_path / "out")
    assert record.id == "77"
    assert record.regions == (TrueRegion((0, 0, 9, 9), "a dog", "phrase"),)


def test_version_1_0_names_images_and_regions_by_id(tmp_path):
    old_image = {
        "id": 7,
        "url": "https://x/VG_100K/7.jpg",
        "width": 50,
        "height": 40,
        "coco_id": None,
    }
    old_region = {"id": 1, "image": 7, "x": 1, "y": 2, "width": 3, "height": 4, "phrase": "a cup"}
    folder = write_source(tmp_path / "vg", [old_image], [{"id": 7, "regions": [old_region]}])
    [item] = read(Source(folder))
    assert (item.record.width, item.record.height) == (50, 40)
    assert item.record.regions == (TrueRegion((1, 2, 4, 6), "a cup", "phrase"),)


@pytest.mark.parametrize(
    ("phrase", "dropped"),
    [
        ("one two three four five six seven eight nine ten", False),
        ("one two three four five six seven eight nine ten eleven", True),
        ("there is a one two three four five six seven eight nine", False),
        ("one two three four five six seven eight nine 45°", True),
        ("one two three four five six seven eight nine ten .", False),
    ],
)
def test_ten_words_are_counted_after_densecaps_cleaning(phrase, dropped):
    assert (too_long(TrueRegion((0, 0, 1, 1), phrase)) is not None) == dropped


@pytest.mark.parametrize(
    ("images", "descriptions", "problem"),
    [
        (
            [image(1)],
            [{"id": 2, "regions": []}],
            r"region_descriptions\.json, item 1: image 2 is not in image_data",
        ),
        ([image(1)], [{"id": 1}], "item 1: there is no 'regions'"),
        ([image(1)], [{"id": 1, "regions": [{"x": 1}]}], "item 1: there is no 'y'"),
        ([image(1)], [{"id": 1, "regions": [region(1, ("1", 1, 2, 2), "x")]}], "item 1: "),
        (
            [image(1)],
            [{"id": 1, "regions": [region(1, (1, 1, 2, 2), 5)]}],
            "item 1: phrase is not text: 5",
        ),
        (
            [image(1)],
            [{"id": 1, "regions": [region(1, (10**400, 1, 2, 2), "x")]}],
            "item 1, region 1: ",
        ),
        ([image(1)], [7], "item 1: 7 is not a JSON object"),
        (
            [{"image_id": 1, "url": "x/1.jpg", "width": 0, "height": 5}],
            [],
            r"image_data\.json, item 1: .*0×5",
        ),
        ([image(1)], [], "an empty data set"),
    ],
)
def test_bad_input_is_named_with_file_and_place(tmp_path, images, descriptions, problem):
    folder = write_source(tmp_path / "vg", images, descriptions)
    with pytest.raises(DataError, match=problem):
        prepare("visual-genome", folder, tmp_path / "out", ALL)
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_named(tmp_path):
    (tmp_path / "vg").mkdir()
    with pytest.raises(DataError, match=r"image_data\.json: No such file"):
        prepare("visual-genome", tmp_path / "vg", tmp_path / "out")


def test_our_own_regions_as_region_descriptions():
    mug = Region((10.0, 20.0, 60.504, 70.0), 0.9, "a red mug", -3.2)
    photos = [
        ImageRegions("a.jpg", 200, 100, "tiny", (mug, mug)),
        ImageRegions("deep/b.jpg", 50, 40, "tiny", ()),
        ImageRegions("c.jpg", 100, 100, "tiny", (mug,)),
    ]
    first, second, third = to_visual_genome(photos)
    assert first["regions"][0] == {
        "region_id": 1,
        "image_id": 1,
        "x": 10.0,
        "y": 20.0,
        "width": 50.5,
        "height": 50.0,
        "phrase": "a red mug",
        "score": 0.9,
    }
    assert second == {"id": 2, "path": "deep/b.jpg", "width": 50, "height": 40, "regions": []}
    assert [region["region_id"] for region in third["regions"]] == [3]


def test_a_file_without_paths_is_not_ours(tmp_path):
    path = tmp_path / "region_descriptions.json"
    path.write_text('[{"id": 1, "regions": []}]')
    with pytest.raises(DataError, match="item 1: there is no 'path'"):
        prepare("vg", path, tmp_path / "out")
