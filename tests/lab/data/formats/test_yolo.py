"""YOLO data sets."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from regiontalk.errors import DataError, InputError
from regiontalk.lab.data.formats import yolo
from regiontalk.lab.data.prepare import Settings, prepare
from regiontalk.lab.data.records import Dataset, TrueRegion
from regiontalk.results import ImageRegions, Region


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path = path.with_suffix(".yaml" if path.stem == "data" else ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_what_other_programs_find(tmp_path: Path, scene_path: Path) -> None:
    """The folder as Ultralytics wants it: links to the photos, labels of five columns, captions as
    classes."""
    house, again = Region((0, 16, 48, 48), 0.9, 'a "house"'), Region((48, 0, 96, 64), 0.5, "it's")
    with yolo.writing(tmp_path / "out") as put:
        put(ImageRegions(str(scene_path), 96, 64, "m", (house, again, house)))
    text = (tmp_path / "out/data.yaml").read_text()
    assert text == 'train: images\nval: images\nnames:\n  0: "a \\"house\\""\n  1: "it\'s"\n'
    labels = (tmp_path / "out/labels/scene.txt").read_text()
    assert labels == "0 0.25 0.5 0.5 0.5\n1 0.75 0.5 0.5 1\n0 0.25 0.5 0.5 0.5\n"
    assert (tmp_path / "out/images/scene.png").readlink() == scene_path


def test_a_label_that_was_changed_has_no_score(tmp_path: Path, scene_path: Path) -> None:
    found = Region((0, 16, 48, 48), 0.9, "a house"), Region((48, 0, 96, 64), 0.5, "a dog")
    with yolo.writing(tmp_path / "out") as put:
        put(ImageRegions(str(scene_path), 96, 64, "m", found))
    (tmp_path / "out/labels/scene.txt").write_text("1 0.75 0.5 0.5 1\n0 0.5 0.5 1 1\n")
    prepare("yolo", tmp_path / "out", tmp_path / "data")
    [record] = Dataset(tmp_path / "data")
    assert record.regions == (
        TrueRegion((48, 0, 96, 64), "a dog", score=0.5),
        TrueRegion((0, 0, 96, 64), "a house"),
    )


def test_photos_must_be_files_and_originals_are_not_touched(
    tmp_path: Path, scene_path: Path
) -> None:
    scene_path.chmod(0o400)
    before = scene_path.stat()
    with yolo.writing(tmp_path / "out") as put:
        put(ImageRegions(str(scene_path), 96, 64, "m", ()))
    assert scene_path.stat().st_mtime_ns == before.st_mtime_ns
    with (
        pytest.raises(InputError, match="-: a YOLO data set needs photos"),
        yolo.writing(tmp_path / "new") as put,
    ):
        put(ImageRegions("-", 96, 64, "m", ()))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "names",
    [
        "names:\n  0: dog\n  1: traffic light\n",
        "nc: 2\nnames:\n- dog\n- traffic light\n",
        "names: ['dog', 'traffic light']\nnc: 2\n",
        'names: [ "dog",\n  "traffic light" ]\n',
        "names: {0: dog, 1: traffic light}",
        "names:\n  # people\n  1: 'traffic light'\n  0: dog  # a comment\n\npath: x",
    ],
)
def test_every_way_to_name_classes(names: str, tmp_path: Path, scene: Image.Image) -> None:
    """The layout of Roboflow, with a box and a polygon."""
    source = write(
        tmp_path / "set", data=names, valid__labels__a="1 0.5 0.5 0.25 1\n0 0 0 0.5 0.25 0.25 1\n"
    )
    (source / "valid/images").mkdir()
    scene.save(source / "valid/images/a.jpg")
    prepare("yolo", source, tmp_path / "data")
    [record] = Dataset(tmp_path / "data")
    assert (record.split, record.image) == ("dev", str(source / "valid/images/a.jpg"))
    assert record.regions == (
        TrueRegion((36, 0, 60, 64), "traffic light"),
        TrueRegion((0, 0, 48, 64), "dog"),
    )


def test_splits_inside_and_photos_elsewhere(tmp_path: Path, scene: Image.Image) -> None:
    source = write(
        tmp_path / "set",
        classes="dog\n",
        labels__train__a="0 .5 .5 1 1 0.9",
        labels__val__b="0 .5 .5 1 1",
    )
    (tmp_path / "photos/train").mkdir(parents=True)
    scene.save(tmp_path / "photos/train/a.webp")
    done = prepare("yolo", source, tmp_path / "data", Settings(images=tmp_path / "photos"))
    [record] = Dataset(tmp_path / "data")
    assert (record.split, record.image) == ("train", str(tmp_path / "photos/train/a.webp"))
    assert [skipped.kind for skipped in done.skipped] == ["photo not found"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("7 .5 .5 1 1", "no class has the number 7"),
        ("dog .5 .5 1 1", "invalid literal"),
        ("0 .5 .5 1", "3 numbers are neither a box nor a polygon"),
        ("0 .5 .5 1 x", "could not convert"),
        ("0 nan .5 1 1", "not a number"),
        ("0 1e999 .5 1 1", "not a number"),
    ],
)
def test_bad_labels_are_named(line: str, problem: str, tmp_path: Path, scene: Image.Image) -> None:
    source = write(tmp_path / "set", classes="dog\n", labels__a=line)
    (source / "images").mkdir()
    scene.save(source / "images/a.jpg")
    with pytest.raises(DataError, match=rf"a\.txt.*{problem}"):
        prepare("yolo", source, tmp_path / "data")


@pytest.mark.parametrize(
    "text", ["\n" * 300_000, "names:\n" + " " * 300_000, "names: " + '\\"' * 150_000, "#" * 300_000]
)
def test_c12_hostile_names_are_read_in_linear_time(text: str, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    with pytest.raises(DataError):
        prepare(
            "yolo", write(tmp_path / "set", data=text, labels__a="1 .5 .5 1 1"), tmp_path / "data"
        )


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"labels__a": "0 .5 .5 1 1"}, "no data.yaml or dataset.yaml"),
        ({"classes": "dog"}, r"no labels/\*\.txt"),
        ({"data": "train: images", "labels__a": ""}, "no names of classes"),
        ({"data": "names: [", "labels__a": "0 .5 .5 1 1"}, "no class has the number 0"),
        ({"data": 'names: ["\\x"]', "labels__a": ""}, "escape"),
    ],
)
def test_what_is_missing_is_named(files: dict[str, str], problem: str, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    with pytest.raises(DataError, match=problem):
        prepare("yolo", write(tmp_path / "set", **files), tmp_path / "data")
