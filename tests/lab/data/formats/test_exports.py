"""What `caption --format` writes is what `data prepare` reads (findings B2, B12, B16)."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import regiontalk
from regiontalk.lab.data.formats import exports
from regiontalk.lab.data.prepare import prepare
from regiontalk.lab.data.records import Dataset
from regiontalk.results import ImageRegions, Region

MANUAL = (Path(__file__).parents[4] / "docs" / "your-photos.md").read_text(encoding="utf-8")
SIZES = {
    "a.jpg": (97, 64),
    "deep/a.jpg": (33, 50),
    "A.png": (1, 400),
    "b +c&d%20é#1;.jpg": (640, 3),
    "x.y.jpg": (7, 7),
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for name, size in SIZES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", size).save(folder / name)
    return folder


def export(name: str, photos: Sequence[ImageRegions], folder: Path) -> Path:
    """Writes photos as the command line does, into `folder`."""
    out = folder / "exported"
    if name in exports.FOLDERS:
        with exports.FOLDERS[name](out) as put:
            for photo in photos:
                put(photo)
        return out
    with out.open("wb") as file, exports.exporting(name, file.write, folder) as put:
        for photo in photos:
            put(photo)
    return out


def comes_back(name: str, photos: Sequence[ImageRegions], folder: Path) -> None:
    work = folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    prepare(name, export(name, photos, work), work / "data")
    found = {
        record.image: [
            (list(region.xyxy), region.phrase, region.score, region.confidence)
            for region in record.regions
        ]
        for record in Dataset(work / "data")
    }
    written = [photo.to_dict() for photo in photos if photo.regions]
    assert found == {
        str(Path(photo["path"]).resolve()): [
            (region["xyxy"], region["caption"], region["score"], region.get("confidence"))
            for region in photo["regions"]
        ]
        for photo in written
    }
    sizes = {record.image: (record.width, record.height) for record in Dataset(work / "data")}
    assert sizes == {
        str(Path(photo["path"]).resolve()): (photo["width"], photo["height"]) for photo in written
    }


@st.composite
def regions(draw: st.DrawFn, width: int, height: int) -> Region:
    def side(length: int) -> tuple[float, float]:
        ends = draw(st.lists(st.integers(0, 100 * length), min_size=2, max_size=2, unique=True))
        return min(ends) / 100, max(ends) / 100

    (x0, x1), (y0, y1) = side(width), side(height)
    score = draw(st.floats(0, 1))
    caption = draw(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(
            lambda text: text == text.strip()
        )
    )
    confidence = draw(st.none() | st.floats(0, 1))
    return Region((x0, y0, x1, y1), score, caption, -1.0, confidence=confidence)


@pytest.mark.parametrize("name", exports.FORMATS)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_b2_everything_that_is_written_comes_back(
    name: str, desk: Path, data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(sorted(SIZES)), min_size=1, unique=True))
    photos = [
        ImageRegions(
            str(desk / path),
            *SIZES[path],
            "m",
            tuple(data.draw(st.lists(regions(*SIZES[path]), max_size=4))),
        )
        for path in chosen
    ]
    if any(photo.regions for photo in photos):
        comes_back(name, photos, desk)


@pytest.mark.parametrize("name", exports.FORMATS)
def test_b2_two_hundred_photos_come_back_exactly(name: str, tmp_path: Path) -> None:
    chance = random.Random(14)
    photos = []
    for number in range(200):
        width, height = chance.randint(1, 500), chance.randint(1, 500)
        path = tmp_path / f"{number}.png"
        Image.new("1", (width, height)).save(path)
        found = []
        for _ in range(chance.randint(1, 20)):
            x0, x1 = sorted(chance.sample(range(100 * width + 1), 2))
            y0, y1 = sorted(chance.sample(range(100 * height + 1), 2))
            words = " ".join(
                chance.choices(["a", "red", "dog's", '"mug"', "on", "a, b", "Straße"], k=3)
            )
            found.append(Region((x0 / 100, y0 / 100, x1 / 100, y1 / 100), chance.random(), words))
        photos.append(ImageRegions(str(path), width, height, "m", tuple(found)))
    comes_back(name, photos, tmp_path)


@pytest.mark.parametrize("name", exports.FORMATS)
def test_relative_paths_count_from_the_folder_of_the_file(
    name: str, desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk / "deep")
    photo = ImageRegions("../a.jpg", 97, 64, "m", (Region((1, 2, 3, 4), 0.5, "a dog"),))
    prepare(name, export(name, [photo], tmp_path), tmp_path / "data")
    assert [record.image for record in Dataset(tmp_path / "data")] == [
        str((desk / "a.jpg").resolve())
    ]


@pytest.mark.parametrize("name", [name for name in exports.FORMATS if name not in ("yolo", "csv")])
def test_every_format_is_json_also_of_nothing(name: str, tmp_path: Path) -> None:
    text = export(name, [], tmp_path).read_text()
    assert name in exports.LINES or json.loads(text) is not None


@pytest.mark.parametrize("name", ["json", *(name for name in exports.FORMATS if name != "yolo")])
def test_the_manual_shows_what_is_written(name: str, tmp_path: Path) -> None:
    kind = "csv" if name == "csv" else "json"
    (shown,) = re.findall(f"<!-- {name} -->\n```{kind}\n(.*?)\n```", MANUAL, re.DOTALL)
    region = Region((100.0, 50.0, 300.0, 150.0), 0.91, "a red mug on a table", -6.2)
    photo = ImageRegions("/photos/a.jpg", 400, 200, "vit-3", (region,))
    written = (
        json.dumps(photo.to_dict())
        if name == "json"
        else export(name, [photo], tmp_path).read_text()
    )
    shown = re.sub(r"regiontalk \d+\.\d+\.\d+", f"regiontalk {regiontalk.__version__}", shown)
    shown = (
        shown.replace('"a.jpg"', '"/photos/a.jpg"')
        .replace("?d=a.jpg", "?d=/photos/a.jpg")
        .replace("\na.jpg", "\n/photos/a.jpg")
    )
    assert (
        shown.strip() == written.strip()
        if name == "csv"
        else json.loads(shown) == json.loads(written)
    )
