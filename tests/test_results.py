from __future__ import annotations

import dataclasses
import io
import json
import sys
import types
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import regiontalk
from regiontalk.errors import MissingExtra
from regiontalk.images.photo import Photo
from regiontalk.results import (
    Alignment,
    Description,
    Hit,
    ImageRegions,
    Region,
    Segment,
    Sentence,
    Shown,
    Tag,
    Tags,
    WordMatch,
    reaches,
)
from regiontalk.show import drawing
from regiontalk.show.fiftyone_model import fiftyone_model

numbers = st.floats(-1e6, 1e6)
regions = st.builds(
    Region,
    xyxy=st.tuples(numbers, numbers, numbers, numbers),
    score=st.floats(0, 1),
    caption=st.text(),
    logprob=st.none() | st.floats(-1e3, 0),
)
photos = st.builds(
    ImageRegions,
    path=st.text(),
    width=st.integers(1, 10**5),
    height=st.integers(1, 10**5),
    model=st.text(),
    regions=st.lists(regions, max_size=4).map(tuple),
)


def test_a_photo_is_counted_and_iterated_by_its_regions() -> None:
    region = Region((0, 0, 9, 9), 0.5, "a dog")
    photo = ImageRegions(path="a.jpg", width=9, height=9, model="m", regions=(region,))
    assert len(photo) == 1
    assert list(photo) == [region]
    assert dataclasses.replace(photo, regions=())  # a photo without regions is not false


def test_dir_lists_the_public_names() -> None:
    assert dir(regiontalk) == sorted(regiontalk.__all__)


def test_the_json_schema_of_a_photo() -> None:
    photo = ImageRegions(
        path="a.jpg",
        width=4032,
        height=3024,
        model="compact-1",
        regions=(
            Region((120.5, 80.0, 910.2, 700.3), 0.91, "a red mug on a table", -6.2),
            Region((0.123456, 1, 2, 3), 0.1234567, "a wall"),
        ),
    )
    assert photo.to_dict() == {
        "schema": "regiontalk/1",
        "path": "a.jpg",
        "width": 4032,
        "height": 3024,
        "model": "compact-1",
        "regions": [
            {
                "id": 0,
                "xyxy": [120.5, 80.0, 910.2, 700.3],
                "score": 0.91,
                "caption": "a red mug on a table",
                "logprob": -6.2,
                "shown": True,
            },
            {
                "id": 1,
                "xyxy": [0.12, 1, 2, 3],
                "score": 0.123457,
                "caption": "a wall",
                "shown": False,
            },
        ],
    }


@given(photos)
def test_any_photo_is_plain_json(photo: ImageRegions) -> None:
    assert json.loads(json.dumps(photo.to_dict(), allow_nan=False)) == photo.to_dict()


def test_an_alignment_and_a_hit_as_json() -> None:
    segment = Segment("a tabby cat", (0, 3), (1.0, 2.0, 3.0, 4.0), 0.5, (0.25, 0.5, 0.75))
    assert Alignment("a.jpg", "a tabby cat sleeps", (segment,), ("sleeps",)).to_dict() == {
        "path": "a.jpg",
        "sentence": "a tabby cat sleeps",
        "segments": [
            {
                "text": "a tabby cat",
                "words": [0, 3],
                "xyxy": [1, 2, 3, 4],
                "score": 0.5,
                "word_scores": [0.25, 0.5, 0.75],
            }
        ],
        "unknown": ["sleeps"],
    }


def test_values_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Region((0, 0, 1, 1), 0.5, "a mug").caption = "a cup"  # type: ignore[misc]


def test_the_photo_takes_no_part_in_comparing_and_showing(scene: Image.Image) -> None:
    bare = ImageRegions("a.jpg", 96, 64, "m", ())
    full = ImageRegions("a.jpg", 96, 64, "m", (), photo=Photo(scene))
    assert bare == full
    assert "photo=" not in repr(full)


def test_pictures_show_what_is_likely_unless_asked_for_more(scene: Image.Image) -> None:
    found = tuple(Region((0, 0, 20 + n, 20), score, "") for n, score in enumerate((0.9, 0.5, 0.1)))
    photo = ImageRegions("a.jpg", 96, 64, "m", found, photo=Photo(scene))

    def drawn(picture: Image.Image) -> set[int | str]:
        """The numbers of the regions whose colour is in the picture, and whether grey is."""
        colours = {colour for _, colour in picture.getcolors(1 << 20)}
        grey = {"grey"} if drawing.GREY in colours else set()
        return grey | {number for number in range(3) if drawing.PALETTE[number] in colours}

    assert drawn(photo.draw()) == {0, 1}
    assert drawn(photo.draw(threshold=0)) == {0, 1, "grey"}, "what is not sure is grey"
    assert drawn(photo.draw(threshold=0, top=1)) == {0}
    given = dataclasses.replace(photo, shown=Shown(0.0, None, sure_score=0.0))
    assert drawn(given.draw()) == {0, 1, 2}
    unlikely = dataclasses.replace(photo, shown=Shown(0.95))
    assert drawn(unlikely.draw()) == {0}, "the likeliest: a picture is not bare"
    assert drawn(unlikely.draw(threshold=0.95)) == set(), "unless that is asked for"
    assert photo.draw(scores=True).tobytes() != photo.draw().tobytes()


def test_drawing_uses_the_photo_or_opens_the_file(scene: Image.Image, scene_path: Path) -> None:
    found = (Region((40, 20, 90, 60), 0.9, "a red house"),)
    from_file = ImageRegions(str(scene_path), 96, 64, "m", found).draw()
    from_image = ImageRegions("gone.jpg", 96, 64, "m", found, photo=Photo(scene)).draw()
    assert from_file.tobytes() == from_image.tobytes()
    assert from_file.tobytes() != scene.tobytes()


def test_finding_b14_results_show_themselves_in_notebooks(scene: Image.Image) -> None:
    region = Region((40, 20, 90, 60), 0.9, 'a <b>"red"</b> house')
    segment = Segment('a <b>"red"</b> house', (0, 3), (1, 2, 30, 40), 0.5, (1, 1, 1))
    results = [
        ImageRegions("a.jpg", 96, 64, "m", (region,), photo=Photo(scene)),
        Description("a.jpg", 96, 64, "m", 'a <b>"red"</b> house', -3.0, (), photo=Photo(scene)),
        Alignment("a.jpg", "x", (segment,), (), photo=Photo(scene)),
    ]
    for result in results:
        png = result._repr_png_()
        assert png is not None
        assert Image.open(io.BytesIO(png)).size == result.draw().size
        page = result._repr_html_()
        assert page is not None
        assert page.startswith('<img src="data:image/jpeg;base64,')
        assert "a &lt;b&gt;&quot;red&quot;&lt;/b&gt; house" in page
        assert "<b>" not in page
    assert "0.90" in str(results[0]._repr_html_())


def test_finding_b14_a_photo_that_is_gone_is_no_error_in_a_notebook() -> None:
    gone = ImageRegions("gone.jpg", 96, 64, "m", ())
    assert gone._repr_png_() is None
    assert gone._repr_html_() is None


def test_finding_b14_large_pictures_are_shown_small() -> None:
    png = ImageRegions(
        "", 3000, 1500, "m", (), photo=Photo(Image.new("RGB", (3000, 1500)))
    )._repr_png_()
    assert png is not None
    assert Image.open(io.BytesIO(png)).size == (1024, 512)


PHOTO = ImageRegions(
    "a.jpg",
    96,
    64,
    "m",
    (Region((1, 2, 30, 40), 0.9, "a mug", -1.5), Region((0, 0, 9, 9), 0.5, "a lid", -2.5)),
)


def test_finding_b14_to_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = types.SimpleNamespace(DataFrame=lambda rows, columns: (rows, columns))
    monkeypatch.setitem(sys.modules, "pandas", frames)
    rows, columns = PHOTO.to_pandas()
    assert rows[0] == {
        **{"path": "a.jpg", "id": 0, "x0": 1, "y0": 2, "x1": 30, "y1": 40},
        **{"score": 0.9, "caption": "a mug", "logprob": -1.5, "shown": True},
    }
    assert (len(rows), columns) == (2, None)
    rows, columns = dataclasses.replace(PHOTO, regions=()).to_pandas()
    assert (rows, columns) == ([], ["path", "id", "x0", "y0", "x1", "y1", "score", "caption"])


def test_finding_b14_to_supervision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "supervision", types.SimpleNamespace(Detections=dict))
    found = PHOTO.to_supervision()
    assert found["xyxy"].tolist() == [[1, 2, 30, 40], [0, 0, 9, 9]]
    assert found["confidence"].tolist() == pytest.approx([0.9, 0.5])
    assert found["data"]["class_name"].tolist() == ["a mug", "a lid"]
    assert found["class_id"].tolist() == [0, 1]
    assert found["data"]["shown"].tolist() == [True, True]
    assert dataclasses.replace(PHOTO, regions=()).to_supervision()["xyxy"].shape == (0, 4)


@pytest.mark.parametrize("package", ["pandas", "supervision"])
def test_finding_b14_a_package_that_is_missing_is_named(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=f"needs {package}, which is not installed") as caught:
        getattr(PHOTO, f"to_{package}")()
    assert caught.value.hint == f"pip install {package}"


def test_the_json_of_a_hit() -> None:
    words = (WordMatch("red", 0.25, 1), WordMatch("xyzzy", 0.0, None))
    hit = Hit("a.jpg", 1.5, words, (Region((1.0, 2.0, 3.0, 4.0), 0.9, "a mug"),))
    assert hit.to_dict() == {
        "path": "a.jpg",
        "score": 1.5,
        "likely": True,
        "words": [
            {"word": "red", "score": 0.25, "region": 1},
            {"word": "xyzzy", "score": 0.0, "region": None},
        ],
        "regions": [{"xyxy": [1, 2, 3, 4], "caption": "a mug"}],
    }


BOX = (0.0, 0.0, 9.0, 9.0)
LINE = Shown(confidence=0.55, sure_confidence=0.55)


def test_one_rule_says_what_is_shown_and_what_is_sure() -> None:
    sure = Region(BOX, 0.9, "a dog", confidence=0.8)
    unsure = Region(BOX, 0.8, "a cat", confidence=0.4)
    photo = ImageRegions("a.jpg", 9, 9, "m", (sure, unsure), LINE)
    assert photo.likely == (sure,)
    assert [plain["shown"] for plain in photo.to_dict()["regions"]] == [True, False]
    alone = dataclasses.replace(photo, regions=(unsure,))
    assert alone.likely == (unsure,), "at least one region is shown"
    assert not alone.is_sure(unsure), "but not as a fact"
    assert alone._rows() == [("a cat (not sure)", "0.80")]
    many = dataclasses.replace(photo, regions=(sure,) * 20)
    assert len(many.likely) == 12


def test_lower_limits_show_more_and_make_nothing_sure() -> None:
    unsure = Region(BOX, 0.2, "a cat", confidence=0.4)
    shown = dataclasses.replace(LINE, threshold=0.0, confidence=0.0)
    assert shown.choose([unsure]) == [unsure]
    assert not shown.is_sure(unsure)


@pytest.mark.parametrize(
    ("confidence", "sure"), [(0.5449, False), (0.5451, True), (0.55, True), (None, True)]
)
def test_what_reads_as_the_cut_off_has_reached_it(confidence: float | None, sure: bool) -> None:
    """Figures are compared as people read them: 0.5451 is shown as 0.55."""
    assert LINE.is_sure(Region(BOX, 0.3, "a dog", confidence=confidence)) == sure


def test_a_score_reaches_itself() -> None:
    assert reaches(0.0041, 0.0041)
    assert not reaches(0.0039, 0.004)
    assert reaches(0.296, 0.3)
    assert not reaches(0.294, 0.3)


def test_a_sentence_is_sure_by_the_mean_probability_of_its_words() -> None:
    assert Sentence("a b c", 0.0).word_probability == 1
    assert Sentence("a dog runs", -0.4).word_probability == pytest.approx(0.9048, abs=1e-4)
    said = Description("a.jpg", 9, 9, "m", "a dog runs", -0.4, (Sentence("a cat", -9.0),))
    assert said.sure
    assert said.to_dict()["sure"]
    assert [other["sure"] for other in said.to_dict()["alternatives"]] == [False]
    assert said._rows()[1][0] == "a cat (not sure)"


def test_the_keywords_of_tags() -> None:
    tags = (Tag("schipperke", ("animal", "dog")), Tag("dog", ("animal",)), Tag("grass"))
    found = Tags("a.jpg", 9, 9, "m", tags).to_dict()
    assert found["keywords"] == ["animal", "dog", "schipperke", "grass"]
    assert found["hierarchy"] == ["animal|dog|schipperke", "animal|dog", "grass"]


def test_a_model_for_fiftyone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = types.SimpleNamespace(Model=object, Detection=dict, Detections=dict)
    monkeypatch.setitem(sys.modules, "fiftyone", made)
    model = fiftyone_model(lambda _: PHOTO)
    assert (model.media_type, model.ragged_batches) == ("image", True)
    labels = [one["label"] for one in model.predict(None)["detections"]]
    assert labels == ["a mug", "a lid"]
    monkeypatch.setitem(sys.modules, "fiftyone", None)
    with pytest.raises(MissingExtra, match=r"fiftyone\.Model needs fiftyone"):
        fiftyone_model(lambda _: PHOTO)


def test_fiftyone_detections() -> None:
    pytest.importorskip("fiftyone")
    dog, cat = Region((20, 10, 120, 60), 0.9, "a dog"), Region((0, 0, 20, 10), 0.1, "a cat")
    found = ImageRegions("a.jpg", 200, 100, "toy", (dog, cat)).to_fiftyone().detections
    assert [one.label for one in found] == ["a dog", "a cat"]
    assert [one.shown for one in found] == [True, False]
    assert found[0].bounding_box == pytest.approx([0.1, 0.1, 0.5, 0.5])
    assert found[0].confidence == 0.9


def test_fiftyone_takes_the_model() -> None:
    fiftyone = pytest.importorskip("fiftyone")
    model = fiftyone_model(lambda _: PHOTO)
    assert isinstance(model, fiftyone.Model)
    assert model.config is None, "or FiftyOne would not apply a confidence threshold"
    with model:
        answers = model.predict_all([None, None])
    assert [len(found.detections) for found in answers] == [2, 2]


@pytest.mark.filterwarnings("ignore:OpenCV:UserWarning")
def test_supervision_detections() -> None:
    pytest.importorskip("supervision")
    found = PHOTO.to_supervision()
    assert len(found) == 2
    assert list(found[found.confidence > 0.6].data["class_name"]) == ["a mug"]
    assert len(dataclasses.replace(PHOTO, regions=()).to_supervision()) == 0
