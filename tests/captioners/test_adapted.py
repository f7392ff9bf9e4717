"""A captioner behind the verbs, with the package's own model for vectors."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import regiontalk
from regiontalk.errors import IndexProblem, ModelError, UsageError

PHOTOS = Path(__file__).parents[2] / "examples" / "photos"


class Halves:
    """Captions the left and the right half of a photo."""

    name = "halves"

    def __init__(self) -> None:
        self.sizes: list[tuple[int, int]] = []

    def regions(self, photo: Image.Image) -> list[Any]:
        self.sizes.append(photo.size)
        width, height = photo.size
        left = ((0, 0, width / 2, height), "the left half", 0.2)
        return [left, ((width / 2, 0, width, height), "a zebra crossing", 0.9)]


class HalvesAndBoxes(Halves):
    def captions(self, photo: Image.Image, boxes_xyxy: np.ndarray) -> list[Any]:
        return [(f"{x0:.0f} to {x1:.0f}", 0.5) for x0, _, x1, _ in boxes_xyxy]


def model_of(captioner: Any) -> Any:
    return regiontalk.load(captioner=captioner, words_book=False)


def test_regions_and_captions_are_the_captioners() -> None:
    captioner = Halves()
    found = model_of(captioner)(PHOTOS / "coffee.jpg")
    assert found.model == "halves"
    assert (found.width, found.height) == captioner.sizes[0]
    assert [region.caption for region in found.regions] == ["a zebra crossing", "the left half"]
    assert [region.caption for region in found.likely] == ["a zebra crossing"]
    assert found.draw().size[0] > 0
    limited = model_of(captioner)(PHOTOS / "coffee.jpg", threshold=0.3)
    assert [region.caption for region in limited.regions] == ["a zebra crossing"]


def test_given_boxes() -> None:
    boxes = [[10, 10, 50, 50], [0, 0, 20, 30]]
    found = model_of(HalvesAndBoxes())(PHOTOS / "coffee.jpg", boxes=boxes)
    assert [region.caption for region in found.regions] == ["10 to 50", "0 to 20"]
    with pytest.raises(
        ModelError, match="'halves' is not of this package: it cannot caption given"
    ):
        model_of(Halves())(PHOTOS / "coffee.jpg", boxes=boxes)


@pytest.mark.parametrize(
    "option",
    [
        {"beam": 2},
        {"words": 2},
        {"size": 99},
        {"proposals": 9},
        {"confidence": 0.5},
        {"names": ["cup"]},
    ],
)
def test_options_of_our_models_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"it takes no {next(iter(option))}"):
        model_of(Halves())(PHOTOS / "coffee.jpg", **option)


def test_what_it_cannot_do_is_said() -> None:
    model = model_of(Halves())
    for ask in (model.describe, model.name):
        with pytest.raises(ModelError, match="it cannot"):
            ask(PHOTOS / "coffee.jpg")
    with pytest.raises(ModelError, match="it cannot find phrases"):
        model.find(PHOTOS / "coffee.jpg", "a cup")
    assert model.own.describe(PHOTOS / "hug.jpg").model == model.runtime.info.name


def test_alt_texts_and_keywords_are_of_its_captions() -> None:
    model = model_of(Halves())
    assert model.alt_text(PHOTOS / "coffee.jpg").text == "a zebra crossing"
    assert model.tags(PHOTOS / "coffee.jpg").keywords == ["animal", "zebra"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("coffee.jpg", "hug.jpg"):
        shutil.copy(PHOTOS / name, tmp_path)
    return tmp_path


def test_an_index_has_its_captions_and_is_searched_without_it(folder: Path) -> None:
    regiontalk.Index.open(folder, model=model_of(Halves())).update()
    index = regiontalk.Index.open(folder)  # loads the package's own model
    (hit, *_) = index.search("a cup of coffee")
    assert Path(hit.path).name == "coffee.jpg"
    captions = {region.caption for photo in index.photos() for region in photo.regions}
    assert captions - {""} == {"the left half", "a zebra crossing"}
    assert len(index.like(folder / "coffee.jpg")) == 1
    index.close()


def test_an_index_gets_captions_of_one_model_only(folder: Path) -> None:
    regiontalk.Index.open(folder, model=model_of(Halves())).update()
    with pytest.raises(IndexProblem, match=r"made with another model, '.*, captioned by halves'"):
        regiontalk.Index.open(folder).update()
    again = regiontalk.Index.open(folder, model=model_of(Halves())).update()
    assert again.unchanged == 2


def test_a_captioner_without_regions_leaves_the_whole_photo(folder: Path) -> None:
    class Silent(Halves):
        def regions(self, photo: Image.Image) -> list[Any]:
            return []

    model = model_of(Silent())
    assert model(folder / "coffee.jpg").regions == ()
    regiontalk.Index.open(folder, model=model).update()
    assert (
        Path(regiontalk.Index.open(folder).search("a cup of coffee")[0].path).name == "coffee.jpg"
    )
