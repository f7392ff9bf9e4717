"""The code of docs/your-own-data.md for data sets of Hugging Face's `datasets`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from conftest import draw_scene
from regiontalk.lab.data.prepare import prepare
from regiontalk.lab.data.records import Dataset

PAGE = Path(__file__).parents[2] / "docs" / "your-own-data.md"
OBJECTS = {"bbox": [[10.0, 20.0, 30.0, 40.0]], "category": ["a red house"]}


def write_folder(dataset: Iterable[Any], folder: Path) -> None:
    """That of the page."""
    block = re.search(
        r"<!-- datasets -->\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert block is not None
    names: dict[str, Any] = {}
    exec(block[1], names)
    names["write_folder"](dataset, folder)


def check(folder: Path, out: Path) -> None:
    prepare("hf", folder, out)
    records = list(Dataset(out))
    assert [(record.width, record.height) for record in records] == [(96, 64), (50, 70)]
    for record in records:
        with Image.open(record.image) as image:
            assert image.size == (record.width, record.height)
        assert [region.phrase for region in record.regions] == ["a red house"]
        assert record.regions[0].xyxy == (10, 20, 40, 60)


def test_rows_become_a_folder_that_is_read(tmp_path: Path) -> None:
    scenes = [draw_scene(), draw_scene((50, 70)).convert("CMYK")]
    rows = [{"image": scene, "objects": OBJECTS} for scene in scenes]
    write_folder(rows, tmp_path / "photos")
    check(tmp_path / "photos", tmp_path / "out")


def test_a_data_set_with_pictures_inside(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    for number, size in enumerate(((96, 64), (50, 70))):
        draw_scene(size).save(tmp_path / f"{number}.jpg")
    images = [str(tmp_path / f"{number}.jpg") for number in range(2)]
    columns = {"image": images, "objects": [OBJECTS] * 2}
    dataset = datasets.Dataset.from_dict(columns).cast_column("image", datasets.Image())
    dataset.to_parquet(tmp_path / "packed.parquet")
    packed = datasets.Dataset.from_parquet(
        str(tmp_path / "packed.parquet"), cache_dir=str(tmp_path / "cache")
    )
    write_folder(packed, tmp_path / "photos")
    check(tmp_path / "photos", tmp_path / "out")
