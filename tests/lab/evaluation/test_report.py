from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import pytest
from PIL import Image

from regiontalk.errors import DataError
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.average_precision import RULES
from regiontalk.lab.evaluation.dense_ap import DenseEvaluation
from regiontalk.lab.evaluation.language import UnigramF1
from regiontalk.lab.evaluation.report import choose_examples, write_report
from regiontalk.results import ImageRegions, Region

BOX = (10.0, 10.0, 50.0, 50.0)
NASTY = "<script>alert('x')</script>"


@pytest.fixture
def evaluated() -> tuple[DenseEvaluation, list[ImageRegions]]:
    names = ["a.jpg", "b.jpg", f"{NASTY}.jpg"]
    truth = [Record(name, 90, 60, regions=(TrueRegion(BOX, "a dog"),)) for name in names]
    evaluation = DenseEvaluation(truth, UnigramF1(), RULES["densecap"])
    texts = ["a dog", "grass", NASTY]
    found = [
        ImageRegions(
            name, 90, 60, "", (Region(BOX, 0.9, text), Region((0.0, 0.0, 5.0, 5.0), 0.1, "sky"))
        )
        for name, text in zip(names, texts, strict=True)
    ]
    for one in found:
        evaluation.add(one)
    return evaluation, found


def pictures(page: str) -> list[Image.Image]:
    found = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', page)
    return [Image.open(io.BytesIO(base64.b64decode(data))) for data in found]


def test_the_page_stands_alone(evaluated: tuple, tmp_path: Path) -> None:
    evaluation, found = evaluated
    out = tmp_path / "report.html"
    photo = Image.new("RGB", (90, 60), (0, 200, 0))
    write_report(out, evaluation, evaluation.result(), found, lambda _: photo)
    page = out.read_text(encoding="utf-8")
    assert "http" not in page
    assert page.count("rgba(8,81,156,") == 5 * 7
    assert "unigram_f1" in page
    assert "METEOR" not in page
    assert page.index("a.jpg") < page.index("b.jpg")  # the best first
    shown = pictures(page)
    assert len(shown) == 2 * 3  # truth and prediction of three images
    assert shown[0].size == (90, 60)
    red, green, blue = shown[0].convert("RGB").getpixel((88, 58))
    assert green > 150 > max(red, blue)


def test_texts_cannot_break_the_page(evaluated: tuple, tmp_path: Path) -> None:
    evaluation, found = evaluated
    out = tmp_path / "report.html"
    write_report(out, evaluation, evaluation.result(), found, lambda _: Image.new("RGB", (90, 60)))
    assert "<script" not in out.read_text(encoding="utf-8")


def test_missing_photos_become_grey_sheets(evaluated: tuple, tmp_path: Path) -> None:
    def missing(name: str) -> Image.Image:
        raise DataError(f"{name}: gone")

    evaluation, found = evaluated
    out = tmp_path / "report.html"
    write_report(out, evaluation, evaluation.result(), found, missing)
    shown = pictures(out.read_text(encoding="utf-8"))
    assert len(shown) == 6
    assert all(abs(value - 200) < 8 for value in shown[0].convert("RGB").getpixel((88, 58)))


def test_best_and_worst_do_not_share_images() -> None:
    maps = {name: value for value, name in enumerate("abcde")}
    assert choose_examples(maps, 2) == (["e", "d"], ["a", "b"])
    assert choose_examples(maps, 4) == (["e", "d", "c"], ["a", "b"])
    assert choose_examples({"x": 1.0}, 4) == (["x"], [])
    assert choose_examples({}, 4) == ([], [])
