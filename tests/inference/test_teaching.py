"""Teaching the package's model words with free photos, and using them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import regiontalk
from regiontalk.errors import InputError, ModelError, UsageError
from regiontalk.inference.taught import SURE
from regiontalk.inference.teaching import ToTeach, learn
from regiontalk.model import Model

PHOTOS = Path(__file__).parents[2] / "examples" / "photos"
CAT, CUP, BEAR = (str(PHOTOS / f"{name}.jpg") for name in ("chelsea", "coffee", "bear"))
CUP_BOX = [143, 20, 352, 255]


@pytest.fixture(scope="module")
def plain() -> Model:
    return regiontalk.load(words_book=False, threads=1)


@pytest.fixture
def model(plain: Model, tmp_path: Path) -> Model:
    """The package's model with an empty word book."""
    return regiontalk.models.loading.with_book(plain, tmp_path / "words.npz")


def captions(model: Model, photo: str) -> list[str]:
    return [region.caption for region in model(photo).regions]


def test_a_word_is_used_at_once_and_forgotten_at_once(model: Model, plain: Model) -> None:
    lesson = model.teach("Chelsea", [CAT])
    assert (lesson.word, lesson.added, lesson.skipped) == ("Chelsea", 1, ())
    assert (lesson.report.examples, lesson.report.recognised, lesson.report.weak) == (1, None, True)
    region = model(CAT).regions[0]
    assert (region.caption, region.name, region.taught) == ("Chelsea", "Chelsea", True)
    assert region.confidence is not None
    assert region.confidence >= SURE
    assert "Chelsea" not in captions(model, BEAR) + captions(model, CUP)
    model.forget("chelsea")
    assert captions(model, CAT) == captions(plain, CAT)


def test_the_same_photo_smaller_and_mirrored_is_recognised(model: Model) -> None:
    model.teach("Chelsea", [CAT])
    mirrored = Image.open(CAT).transpose(Image.Transpose.FLIP_LEFT_RIGHT).resize((300, 200))
    assert "Chelsea" in [region.caption for region in model(mirrored)]


def test_a_box_is_taught_and_found(model: Model) -> None:
    model.teach("our mug", [(CUP, CUP_BOX)])
    (finding, other) = model.find(CUP, ["our mugs", "a spoon"])
    assert finding.here
    assert (finding.phrase, finding.unknown) == ("our mugs", ())
    assert finding.regions[0].xyxy == pytest.approx(CUP_BOX, abs=60)
    assert finding.regions[0].caption == "our mug"
    assert other.phrase == "a spoon"
    assert not model.find(CAT, "our mug").here


def test_given_boxes_are_called_by_taught_words(model: Model) -> None:
    model.teach("our mug", [(CUP, CUP_BOX)])
    (region,) = model(CUP, boxes=[CUP_BOX])
    assert region.caption == "our mug"


def test_what_it_is_not_is_learned_too(model: Model) -> None:
    model.teach("Chelsea", [CAT])
    box = model(CAT).regions[0].xyxy
    lesson = model.teach("Chelsea", [(CAT, box)], is_it=False)
    assert "Chelsea" not in captions(model, CAT)
    assert lesson.report.others + lesson.report.examples >= 1


def test_contradicting_examples_are_told(model: Model) -> None:
    flipped = Image.open(CUP).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    model.teach("mug", [(CUP, CUP_BOX), (flipped, [160, 20, 369, 255])])
    pictures = [Image.open(CAT).resize((size, size * 2 // 3)) for size in (450, 400, 350)]
    lesson = model.teach("cat", [*pictures, (CUP, [140, 18, 350, 250])])
    (confusion,) = lesson.report.confusions
    assert (confusion.word, confusion.photo) == ("mug", CUP)


def test_another_process_is_heard(model: Model, plain: Model) -> None:
    other = regiontalk.models.loading.with_book(plain, model.taught_to.file.path)
    assert other.taught_words() == []
    model.teach("Chelsea", [CAT])
    assert [report.word for report in other.taught_words()] == ["Chelsea"]
    assert "Chelsea" in captions(other, CAT)


def test_photos_that_cannot_be_used_are_skipped(model: Model, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no photo")
    lesson = model.teach("Chelsea", [str(broken), CAT])
    assert lesson.added == 1
    assert "broken.jpg" in lesson.skipped[0]
    with pytest.raises(InputError):
        model.teach("Chelsea", [str(broken)])
    with pytest.raises(InputError, match="none of 2 photos"):
        model.teach("Rex", [str(broken), str(broken)])
    assert [report.word for report in model.taught_words()] == ["Chelsea"]


def test_a_photo_without_a_region_is_told(model: Model, tmp_path: Path) -> None:
    thin = tmp_path / "thin.png"
    Image.new("L", (60_000, 1), 90).save(thin)
    with pytest.raises(InputError, match=r"thin\.png: no region was found in it") as error:
        model.teach("line", [thin])
    assert error.value.hint == "give the box of the thing"
    assert not model.taught_to.file.path.exists()
    assert model.teach("line", [(thin, [0, 0, 3000, 1])]).added == 1


def test_one_bad_example_among_many_is_skipped_with_its_reason(model: Model) -> None:
    wanted = [
        ToTeach("Chelsea", CAT),
        ToTeach("a;b", CAT),
        ToTeach("Benny", BEAR, [9000, 9000, 9999, 9999]),
    ]
    lessons, skipped = learn(model, wanted)
    assert [lesson.word for lesson in lessons] == ["Chelsea"]
    word, box = skipped
    assert "'a;b': a word cannot have a semicolon" in word
    assert box.startswith(f"{BEAR}: ")
    assert "nothing of it lies in the photo" in box


@pytest.mark.parametrize(("word", "photos"), [("x" * 200, [CAT]), ("\x1b[2J", [CAT]), ("Rex", [])])
def test_what_cannot_be_taught_is_refused(model: Model, word: str, photos: list[str]) -> None:
    with pytest.raises(UsageError):
        model.teach(word, photos)
    assert not model.taught_to.file.path.exists()


@pytest.mark.parametrize("word", ["кошка", "<b>cat</b>", "猫"])
def test_words_of_any_script_are_said(model: Model, word: str) -> None:
    model.teach(word, [CAT])
    assert captions(model, CAT)[0] == word
    assert model.find(CAT, word).here


def test_models_without_what_it_takes_say_so(plain: Model, tiny_model: Path) -> None:
    with pytest.raises(ModelError, match="without a word book"):
        plain.teach("Chelsea", [CAT])
    assert plain.taught_words() == []
    tiny = regiontalk.load(tiny_model, threads=1)
    with pytest.raises(ModelError, match="cannot be taught words"):
        tiny.teach("Chelsea", [CAT])


def test_a_damaged_book_is_told_when_the_model_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "words.npz"
    path.write_bytes(b"damaged")
    with pytest.raises(ModelError, match=r"words\.npz"):
        regiontalk.load(words_book=path)


def test_alt_texts_and_keywords_have_taught_words(model: Model) -> None:
    model.teach("Chelsea", [CAT])
    assert "Chelsea" in model.alt_text(CAT).text
    assert "Chelsea" in model.tags(CAT).keywords


def test_an_index_made_before_finds_a_taught_word_without_its_photos(
    model: Model, plain: Model, tmp_path: Path
) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("chelsea", "coffee", "bear"):
        shutil.copy(PHOTOS / f"{name}.jpg", folder)
    regiontalk.Index.open(folder).update(plain)
    index = regiontalk.Index.open(folder, model=model)
    model.teach("Chelsea", [CAT])
    before = {photo.path: photo for photo in index.photos()}
    for photo in folder.glob("*.jpg"):
        photo.unlink()
    (best, *rest) = index.search("Chelsea")
    assert (Path(best.path).name, best.likely) == ("chelsea.jpg", True)
    assert best.regions[0].caption == "Chelsea"
    assert not any(hit.likely for hit in rest)
    assert [hit.likely for hit in index.search("a dog -Chelsea")].count(True) == 0
    names = [Path(hit.path).name for hit in index.search("a cup -Chelsea")]
    assert "chelsea.jpg" not in names
    both = index.search("Chelsea; a cat")
    assert Path(both[0].path).name == "chelsea.jpg"
    assert {match.word for match in both[0].words} >= {"Chelsea", "cat"}
    shown = next(photo for path, photo in before.items() if path.endswith("chelsea.jpg"))
    assert "Chelsea" in [region.caption for region in shown.regions]
    unsure = index.least_sure(top=2)
    assert len(unsure) == 2
    assert {one.word for one in unsure} == {"Chelsea"}
    index.close()


def test_find_in_an_index_knows_taught_words(model: Model, tmp_path: Path) -> None:
    for name in ("chelsea", "coffee"):
        shutil.copy(PHOTOS / f"{name}.jpg", tmp_path)
    index = regiontalk.Index.open(tmp_path)
    index.update(replace(model, taught=None))
    index = regiontalk.Index.open(tmp_path, model=model)
    model.teach("Chelsea", [CAT])
    found = {Path(own[0].path).name: own for own in index.find(["a cup", "Chelsea"])}
    assert [one.here for one in found["chelsea.jpg"]][1]
    assert not found["coffee.jpg"][1].here
    assert [own[0].phrase for own in found.values()] == ["a cup", "a cup"]
    (first, _) = index.find("Chelsea")
    assert Path(first.path).name == "chelsea.jpg"
    assert first.regions[0].caption == "Chelsea"
    index.close()


def test_an_index_stores_no_taught_words(model: Model, tmp_path: Path) -> None:
    shutil.copy(CAT, tmp_path)
    model.teach("Chelsea", [CAT])
    index = regiontalk.Index.open(tmp_path)
    index.update(model)
    index = regiontalk.Index.open(tmp_path, model=replace(model, taught=None))
    (photo,) = index.photos()
    assert "Chelsea" not in [region.caption for region in photo.regions]
    index.close()


def test_results_are_the_same_twice(model: Model) -> None:
    model.teach("Chelsea", [CAT])
    assert model(CAT).to_dict() == model(CAT).to_dict()
    book = model.taught_to.book
    assert np.isfinite(book.codes).all()
