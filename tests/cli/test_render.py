from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import regiontalk
from regiontalk.cli import console, render
from regiontalk.data.coco import read as read_coco
from regiontalk.data.sources import Source
from regiontalk.types import ImageRegions, Region

MUG = Region((10.0, 20.0, 60.504, 70.0), 0.9, "a red mug", -3.2)
SPOON = Region((0.0, 0.0, 200.0, 100.0), 0.25, "[b]a spoon[/b]\nor two")
PHOTOS = [
    ImageRegions("a.jpg", 200, 100, "tiny", (MUG, SPOON)),
    ImageRegions("deep/b.jpg", 50, 40, "tiny", ()),
    ImageRegions("c.jpg", 100, 100, "tiny", (MUG,)),
]


def test_the_table_shows_score_caption_and_box(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_result(PHOTOS[0])
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading == "a.jpg  200×100"
    assert first.split() == ["■", "0.90", "a", "red", "mug", "10", "20", "61", "70"]
    assert r"0.25  [b]a spoon[/b]\nor two" in second, "data is neither markup nor line breaks"


def test_each_region_has_its_own_colour_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    render.print_result(PHOTOS[0])
    _, first, second = capsys.readouterr().out.splitlines()
    assert "\x1b[38;2;230;25;75m■" in first
    assert "\x1b[38;2;60;180;75m■" in second


def test_nothing_found_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_result(PHOTOS[1])
    assert capsys.readouterr().out.splitlines() == ["deep/b.jpg  50×40", "  nothing found"]


def test_a_name_cannot_forge_lines(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_result(ImageRegions("a\n\x1b[31m[b]\udce9.jpg", 9, 9, "m", ()))
    assert capsys.readouterr().out.splitlines()[0] == r"a\n\x1b[31m[b]\udce9.jpg  9×9"


def test_coco() -> None:
    document = render.to_coco(PHOTOS)
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


def test_coco_is_read_by_our_own_reader(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text(json.dumps(render.to_coco(PHOTOS)))
    records = [item.record for item in read_coco(Source(tmp_path / "out.json"))]
    assert [(record.image, (record.width, record.height)) for record in records] == [
        ("a.jpg", (200, 100)),
        ("deep/b.jpg", (50, 40)),
        ("c.jpg", (100, 100)),
    ]
    captions = [[region.caption for region in photo.regions] for photo in PHOTOS]
    assert [[region.phrase for region in record.regions] for record in records] == captions


def test_visual_genome() -> None:
    first, second, third = render.to_visual_genome(PHOTOS)
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
    assert second == {"id": 2, "path": "deep/b.jpg", "regions": []}
    assert [region["region_id"] for region in third["regions"]] == [3]


def test_hugging_face() -> None:
    first, second, _ = render.to_hugging_face(PHOTOS)
    assert first["file_name"] == "a.jpg"
    assert first["objects"]["bbox"] == [[10.0, 20.0, 50.5, 50.0], [0.0, 0.0, 200.0, 100.0]]
    assert first["objects"]["caption"] == ["a red mug", SPOON.caption]
    assert {len(values) for values in first["objects"].values()} == {2}
    assert second["objects"] == {"id": [], "bbox": [], "caption": [], "score": []}


def test_label_studio() -> None:
    task = render.to_label_studio(PHOTOS)[0]
    assert task["data"] == {"image": "a.jpg"}
    (prediction,) = task["predictions"]
    assert prediction["model_version"] == "tiny"
    rectangle, text, *others = prediction["result"]
    box = {"x": 5.0, "y": 20.0, "width": 25.25, "height": 50.0, "rotation": 0}
    assert rectangle["value"] == {**box, "rectanglelabels": ["region"]}
    assert text["value"] == {**box, "text": ["a red mug"]}
    assert rectangle["id"] == text["id"] != others[0]["id"]
    assert (rectangle["type"], text["type"]) == ("rectanglelabels", "textarea")
    assert (rectangle["original_width"], rectangle["original_height"]) == (200, 100)
    assert others[0]["value"]["width"] == others[0]["value"]["height"] == 100.0


@pytest.mark.parametrize("name", list(render.EXPORTERS))
def test_every_format_is_json_also_of_nothing(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for photos in ([], PHOTOS):
        value = render.EXPORTERS[name](photos)
        console.print_json(value)
        assert json.loads(capsys.readouterr().out) == value


@pytest.mark.parametrize("name", ["json", *render.EXPORTERS])
def test_the_manual_shows_what_is_written(name: str) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "your-photos.md").read_text(encoding="utf-8")
    (shown,) = re.findall(f"<!-- {name} -->\n```json\n(.*?)\n```", manual, re.DOTALL)
    region = Region((100.0, 50.0, 300.0, 150.0), 0.91, "a red mug on a table", -6.2)
    photo = ImageRegions("a.jpg", 400, 200, "compact-3", (region,))
    written = photo.to_dict() if name == "json" else render.EXPORTERS[name]([photo])
    if name in render.LINES:
        (written,) = written
    if name == "coco":
        shown = re.sub(r"regiontalk \d+\.\d+\.\d+", f"regiontalk {regiontalk.__version__}", shown)
    assert json.loads(shown) == written
