"""A photo in, regions out: options, given boxes; the same from a checkpoint and its export."""

from __future__ import annotations

import copy
import inspect
import io
import itertools
import json
import pydoc
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import regiontalk
from regiontalk import boxes as geometry
from regiontalk.errors import ImageError, ImageTooLarge, ModelError, UsageError
from regiontalk.images.limits import Limits
from regiontalk.images.photo import Photo, open_photo
from regiontalk.inference import captions, detect
from regiontalk.inference.calibration import calibrated, sigmoid
from regiontalk.inference.rank import MIN_REPEAT_IOU
from regiontalk.model import Model
from regiontalk.models.name_table import NameTable
from regiontalk.models.onnx_runtime import OnnxRuntime
from regiontalk.models.settings import (
    CONFIDENCE_FEATURES,
    RANKING_FEATURES,
    Confidence,
    PredictionConfig,
    Ranking,
)
from regiontalk.results import reaches

SETTINGS = PredictionConfig(
    proposals=40,
    candidates=200,
    proposal_nms=0.7,
    final_nms=0.5,
    longest=6,
    score="product",
    caption_weight=0.0,
)
# A region's score is σ(its lower edge as a share of the photo).
LOW_FIRST = Ranking(
    RANKING_FEATURES,
    (tuple(float(name == "bottom") for name in RANKING_FEATURES),),
    (0.0,),
    (1.0,),
    0.0,
)


@pytest.fixture(scope="module")
def runtime(tiny_model: Path) -> OnnxRuntime:
    return with_settings(OnnxRuntime(tiny_model, threads=1))


@pytest.fixture
def model(runtime: OnnxRuntime) -> Model:
    return Model(runtime)


def with_settings(runtime: OnnxRuntime, **changes: object) -> OnnxRuntime:
    """The runtime, made to choose regions differently; a new object over the same graphs."""
    other = object.__new__(OnnxRuntime)
    other.__dict__ = dict(runtime.__dict__)
    other.info = replace(runtime.info, prediction=replace(SETTINGS, **changes))  # type: ignore[arg-type]
    return other


def without_colours(runtime: OnnxRuntime) -> OnnxRuntime:
    """The runtime, with captions that keep all words on whose probabilities scores depend."""
    other = copy.copy(runtime)
    other.colours = None
    return other


def with_lengths(runtime: OnnxRuntime, **changes: object) -> OnnxRuntime:
    """The runtime, as if it had learned START tokens for lengths: they do what START does."""
    other = with_settings(runtime, **changes)
    other.words, start = replace(runtime.words, lengths=4), runtime.words.start()

    def run(graph: str, *inputs: Any) -> Sequence[Any]:
        return runtime.run(
            graph, *(np.minimum(one, start) if one.dtype == np.int64 else one for one in inputs)
        )

    other.run = run  # type: ignore[method-assign]
    return other


@pytest.mark.parametrize("size", [(96, 64), (64, 150), (1, 1), (2, 3000)])
def test_regions_lie_in_the_photo_by_falling_score(
    model: Model, make_scene: Callable[[tuple[int, int]], Image.Image], size: tuple[int, int]
) -> None:
    found = model(make_scene(size) if min(size) > 2 else Image.new("RGB", size, "red"))
    assert (found.width, found.height, found.model, found.path) == (*size, "tiny", "")
    boxes = np.array([region.xyxy for region in found.regions]).reshape(-1, 4)
    assert (boxes >= 0).all()
    assert (boxes <= [*size, *size]).all()
    scores = [region.score for region in found.regions]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_two_runs_give_the_same_bytes(tiny_model: Path, examples: Path) -> None:
    path = examples / "photos" / "soccer.jpg"
    first, again = (json.dumps(regiontalk.load(tiny_model)(path).to_dict()) for _ in range(2))
    assert first == again


def test_every_kind_of_photo_gives_the_same(model: Model, scene_path: Path) -> None:
    expected = model(scene_path)
    assert expected.path == str(scene_path)
    assert expected.photo == Photo(scene_path)
    sources = [
        str(scene_path),
        scene_path.read_bytes(),
        Image.open(scene_path),
        np.asarray(Image.open(scene_path)),
    ]
    assert all(found.regions == expected.regions for found in model(sources))


def test_top_and_threshold_cut_the_list(model: Model, examples: Path) -> None:
    photo = examples / "photos" / "coffee.jpg"
    every = model(photo).regions
    assert model(photo, top=2).regions == every[:2]
    cut = every[2].score
    few = model(photo, threshold=cut).regions
    assert [region.caption for region in few] == [
        region.caption for region in every if region.score >= cut
    ]
    assert model(photo, threshold=1.0).regions == ()


class TestWords:
    def test_captions_are_no_longer_than_asked_and_the_places_stay(
        self, runtime: OnnxRuntime, examples: Path
    ) -> None:
        model, photo = Model(with_lengths(runtime)), examples / "photos" / "coffee.jpg"
        own = model(photo).regions
        assert max(len(region.caption.split()) for region in own) > 2
        for words in (1, 2):
            short = model(photo, words=words).regions
            assert {len(region.caption.split()) for region in short} <= set(range(1, words + 1))
            assert {(region.xyxy, region.score) for region in short} <= {
                (region.xyxy, region.score) for region in own
            }
        boxes = [[5, 5, 100, 80], [200, 60, 320, 300]]
        given = model(photo, boxes=boxes, words=2).regions
        assert [list(region.xyxy) for region in given] == boxes
        assert max(len(region.caption.split()) for region in given) <= 2

    def test_a_model_that_has_not_learned_lengths_says_so(
        self, model: Model, scene: Image.Image
    ) -> None:
        with pytest.raises(
            ModelError, match="'tiny' was not trained for captions of a given length"
        ):
            model(scene, words=3)


class TestConfidence:
    # Sure of short captions.
    fitted = Confidence(
        CONFIDENCE_FEATURES,
        tuple(-1.0 * (name == "words") for name in CONFIDENCE_FEATURES),
        3.5,
        likely=0.5,
    )

    def test_unsure_captions_are_left_out_where_it_is_asked_for(
        self, runtime: OnnxRuntime, examples: Path
    ) -> None:
        runtime = without_colours(runtime)
        model, photo = (
            Model(with_settings(runtime, confidence=self.fitted)),
            examples / "photos" / "astronaut.jpg",
        )
        found = model(photo)
        plain = Model(runtime)(photo).regions
        assert [replace(region, confidence=None) for region in found.regions] == list(plain)
        for region in found.regions:
            assert region.confidence == pytest.approx(
                sigmoid(np.array(3.5 - len(region.caption.split())))
            )
        sure = [region for region in found.regions if region.confidence >= 0.5]  # type: ignore[operator]
        assert 0 < len(sure) < len(found.regions)
        assert list(model(photo, confidence=0.5).regions) == sure
        assert found.shown.confidence == 0.5
        assert model(photo, confidence=0.0).shown.confidence == 0.0
        assert model(photo, confidence=0.5, top=1).regions == tuple(sure[:1]), (
            "the best of those that are left"
        )

    def test_given_boxes_are_all_there(self, runtime: OnnxRuntime, scene: Image.Image) -> None:
        model = Model(with_settings(runtime, confidence=replace(self.fitted, likely=1.0)))
        found = model(scene, boxes=[[1, 2, 30, 40], [5, 5, 60, 60]], confidence=1.0)
        assert len(found.regions) == len(found.shown.choose(found.regions)) == 2
        assert all(region.confidence is not None for region in found.regions)

    def test_unsure_captions_are_shortened_where_the_model_can(
        self, runtime: OnnxRuntime, examples: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            captions, "MIN_SHORTER_WORDS", 1
        )  # this model stammers from the second word on
        model, photo = (
            Model(with_lengths(runtime, confidence=self.fitted)),
            examples / "photos" / "coffee.jpg",
        )
        assert max(len(region.caption.split()) for region in Model(runtime)(photo).regions) > 3
        assert max(len(region.caption.split()) for region in model(photo).regions) <= 3

    def test_a_model_that_does_not_know_it_says_so(self, model: Model, scene: Image.Image) -> None:
        with pytest.raises(ModelError, match="'tiny' has no fitted confidences"):
            model(scene, confidence=0.5)
        assert model(scene, confidence=0.0) == model(scene)


def test_so_many_proposals_are_recognised(runtime: OnnxRuntime, examples: Path) -> None:
    everything = Model(with_settings(runtime, final_nms=1.0))
    usual = everything.look(examples / "photos" / "coffee.jpg")
    assert len(usual.regions) == len(usual.recognized) == 40
    few = everything.look(examples / "photos" / "coffee.jpg", proposals=7)
    assert np.array_equal(few.recognized.proposals_xyxy, usual.recognized.proposals_xyxy[:7])


def test_a_beam_finds_captions_at_least_as_likely(model: Model, examples: Path) -> None:
    boxes = geometry.xywh_to_xyxy(
        [[x, y, 120, 90] for x in range(0, 300, 60) for y in range(0, 200, 50)]
    )
    plain, beam = (
        model(examples / "photos" / "chelsea.jpg", boxes=boxes, beam=width).regions
        for width in (1, 8)
    )
    gain = [b.logprob - a.logprob for a, b in zip(plain, beam, strict=True)]  # type: ignore[operator]
    assert sum(gain) > 0.1


def test_given_boxes_are_all_captioned_in_their_order(
    model: Model, examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photo = examples / "photos" / "coffee.jpg"
    boxes = [[5, 5, 100, 80], [200.5, 60, 320, 300], [5, 5, 100, 80], [-50, -50, 9000, 9000]]
    found = model(photo, boxes=boxes, threshold=1.0, top=1)
    width, height = found.width, found.height
    assert [list(region.xyxy) for region in found.regions] == [*boxes[:3], [0, 0, width, height]]
    assert found.regions[0] == found.regions[2]
    monkeypatch.setattr(captions, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(detect, "ROWS_AT_ONCE", 3)
    again = model(photo, boxes=np.array(boxes))
    assert [region.caption for region in again.regions] == [
        region.caption for region in found.regions
    ]
    assert model(photo, boxes=[]).regions == ()


@pytest.mark.parametrize(
    "options",
    [
        *({"threshold": value} for value in (-0.1, 1.5, float("nan"))),
        {"top": 0},
        {"proposals": 0},
        {"beam": 0},
        {"size": 3},
        {"words": 0},
        {"words": 500},
        *({"confidence": value} for value in (-0.1, 1.1, float("nan"))),
    ],
)
def test_impossible_options_are_refused(
    model: Model, scene: Image.Image, options: dict[str, float]
) -> None:
    with pytest.raises(UsageError):
        model(scene, **options)  # type: ignore[call-overload]


def test_unlikely_captions_lower_the_score_but_not_the_choice(
    runtime: OnnxRuntime, examples: Path
) -> None:
    runtime = without_colours(runtime)
    photo, weighing = (
        examples / "photos" / "coffee.jpg",
        Model(with_settings(runtime, caption_weight=0.5)),
    )
    plain, weighed = Model(runtime).look(photo), weighing.look(photo)
    assert np.array_equal(plain.boxes_xyxy, weighed.boxes_xyxy)
    raw = dict(zip(map(tuple, plain.boxes_xyxy.tolist()), plain.scores.tolist(), strict=True))
    found = weighing(photo).regions
    assert len(found) > 3
    for region in found:
        assert region.logprob is not None
        weight = np.exp(0.5 * region.logprob / (len(region.caption.split()) + 1))
        assert region.score == pytest.approx(raw[region.xyxy] * weight)
    assert weighing(photo, threshold=found[3].score).regions == found[:4]


def test_nothing_is_said_twice_in_one_place(runtime: OnnxRuntime, examples: Path) -> None:
    loose = Model(with_settings(runtime, final_nms=0.95))
    photo = examples / "photos" / "coffee.jpg"
    found = loose(photo).regions
    assert 0 < len(found) < len(loose.look(photo).regions)
    for number, region in enumerate(found):
        words = region.caption.split()
        assert words
        assert all(a != b for a, b in itertools.pairwise(words))
        same = [other.xyxy for other in found[:number] if other.caption == region.caption]
        assert not (geometry.iou([region.xyxy], same) > MIN_REPEAT_IOU).any()
        assert geometry.area([region.xyxy])[0] > 0


def test_calibration_changes_scores_alone_and_not_those_of_given_boxes(
    runtime: OnnxRuntime, examples: Path
) -> None:
    photo, numbers = examples / "photos" / "coffee.jpg", (0.5, 3.0, -1.0)
    raw, fitted = Model(runtime), Model(with_settings(runtime, calibration=numbers))
    plain, judged = raw(photo).regions, fitted(photo).regions
    assert [region.xyxy for region in judged] == [region.xyxy for region in plain]
    expected = calibrated(np.array([region.score for region in plain]), numbers)
    np.testing.assert_allclose([region.score for region in judged], expected)
    cut = judged[1].score
    assert fitted(photo, threshold=cut).regions == tuple(
        region for region in judged if reaches(region.score, cut)
    )
    boxes = [[5, 5, 100, 80]]
    assert fitted(photo, boxes=boxes).regions == raw(photo, boxes=boxes).regions


def test_a_ranking_scores_and_sorts_what_survives_and_not_given_boxes(
    runtime: OnnxRuntime, examples: Path
) -> None:
    photo = examples / "photos" / "coffee.jpg"
    ranking = Model(with_settings(runtime, caption_weight=0.5, ranking=LOW_FIRST))
    ranked = ranking(photo).regions
    bottoms = [region.xyxy[3] for region in ranked]
    assert bottoms == sorted(bottoms, reverse=True)
    assert len(set(bottoms)) > 1
    height = open_photo(photo).height
    np.testing.assert_allclose(
        [region.score for region in ranked], [1 / (1 + np.exp(-y / height)) for y in bottoms]
    )
    boxes = [[5, 5, 100, 80]]
    given = Model(with_settings(runtime, caption_weight=0.5))(photo, boxes=boxes)
    assert ranking(photo, boxes=boxes).regions == given.regions


def test_a_threshold_is_one_of_the_rankings_scores(runtime: OnnxRuntime, examples: Path) -> None:
    """No region goes before it is ranked, however low the net's own score."""
    photo, numbers = examples / "photos" / "coffee.jpg", (1.0, 0.5, -1.0)
    ranking = Model(with_settings(runtime, ranking=LOW_FIRST, calibration=numbers))
    every = ranking(photo).regions
    raw = Model(with_settings(runtime, ranking=LOW_FIRST))(photo).regions
    assert [region.xyxy for region in every] == [region.xyxy for region in raw]
    np.testing.assert_allclose(
        [region.score for region in every],
        calibrated(np.array([region.score for region in raw]), numbers),
    )
    cut = every[len(every) // 2].score
    assert ranking(photo, threshold=cut).regions == tuple(
        region for region in every if region.score >= cut
    )


def test_more_proposals_are_no_more_votes(runtime: OnnxRuntime, examples: Path) -> None:
    by_votes = replace(
        LOW_FIRST, weights=(tuple(float(name == "votes") for name in RANKING_FEATURES),)
    )
    ranking = Model(with_settings(runtime, ranking=by_votes, proposals=20, final_nms=0.5))
    photo = examples / "photos" / "coffee.jpg"
    usual, more = (
        {one.xyxy: one.score for one in ranking(photo, proposals=count).regions}
        for count in (20, 60)
    )
    shared = usual.keys() & more.keys()
    assert len({usual[box] for box in shared}) > 1
    assert {box: usual[box] for box in shared} == {box: more[box] for box in shared}


def test_several_photos_stream(model: Model, scene: Image.Image, tmp_path: Path) -> None:
    opened: list[int] = []

    def photos() -> object:
        for number in range(3):
            opened.append(number)
            yield scene

    stream = model(photos())  # type: ignore[call-overload]
    assert opened == []
    assert next(stream).regions == model(scene).regions
    assert opened == [0]
    assert len(list(stream)) == 2
    with pytest.raises(UsageError, match="one photo"):
        model([scene, scene], boxes=[[0, 0, 5, 5]])


def test_finding_b6_an_open_file_is_one_photo(model: Model, scene_path: Path) -> None:
    expected = model(scene_path)
    with scene_path.open("rb") as file:
        found = model(file)
    assert (found.regions, found.path) == (expected.regions, str(scene_path))
    from_memory = model(io.BytesIO(scene_path.read_bytes()))
    assert (from_memory.regions, from_memory.path) == (expected.regions, "")
    with scene_path.open("rb") as one, scene_path.open("rb") as other:
        assert [found.regions for found in model([one, other])] == [expected.regions] * 2


def test_finding_b6_what_is_no_file_of_bytes_is_said(
    model: Model, scene_path: Path, runtime: OnnxRuntime
) -> None:
    with scene_path.open() as text, pytest.raises(UsageError, match="opened as text") as caught:
        model(text)  # type: ignore[call-overload]
    assert caught.value.hint == 'open(path, "rb")'
    with pytest.raises(UsageError, match="opened as text"):
        model(io.StringIO("x"))  # type: ignore[call-overload]
    closed = scene_path.open("rb")
    closed.close()
    with pytest.raises(ImageError, match=r"cannot be read: .*closed"):
        model(closed)
    with scene_path.open("rb") as file, pytest.raises(ImageTooLarge):
        Model(runtime, limits=Limits(megabytes=0.0001))(file)


def test_finding_b14_lists_everywhere(
    speaking_model: Path, aligning_model: Path, scene: Image.Image
) -> None:
    """Each photo is looked at when its answer is asked for; sentences are one for all or each
    photo's own."""
    speaking, aligning = regiontalk.load(speaking_model), regiontalk.load(aligning_model)
    small = scene.resize((60, 40))
    assert list(speaking.describe([scene, small])) == [
        speaking.describe(scene),
        speaking.describe(small),
    ]
    first, second = "a red square", "a blue circle"
    assert list(aligning.align((scene, small), first)) == [
        aligning.align(one, first) for one in (scene, small)
    ]
    own = aligning.align(iter([scene, small]), [first, second])
    assert list(own) == [aligning.align(scene, first), aligning.align(small, second)]
    with pytest.raises(UsageError, match="needs a list of photos"):
        aligning.align(scene, [first, second])  # type: ignore[call-overload]
    stream = speaking.describe([scene, "gone.jpg"])
    assert next(stream).sentence == speaking.describe(scene).sentence
    with pytest.raises(ImageError):
        next(stream)


@pytest.mark.parametrize("name", ["__call__", "describe", "align"])
def test_finding_b14_help_shows_every_option(name: str) -> None:
    text = pydoc.plain(pydoc.render_doc(getattr(Model, name)))
    assert "options" not in text.split("\n\n")[0]
    assert "Unpack" not in text
    assert str(inspect.signature(getattr(Model, name))).replace("'", "") in text.replace("'", "")


def test_finding_b15_boxes_within_0_and_1_are_fractions(model: Model, scene: Image.Image) -> None:
    whole = model(scene, boxes=[[0, 0, 1, 1]]).regions
    assert whole[0].xyxy == (0, 0, *scene.size)
    assert whole == model(scene, boxes=[[0, 0, *scene.size]]).regions


def test_bad_photos_and_limits_are_the_readers_errors(
    runtime: OnnxRuntime, model: Model, tmp_path: Path
) -> None:
    (tmp_path / "note.jpg").write_text("not a photo")
    with pytest.raises(ImageError, match=r"note\.jpg"):
        model(tmp_path / "note.jpg")
    small = Model(runtime, limits=Limits(megapixels=0.001))
    with pytest.raises(ImageTooLarge):
        small(Image.new("RGB", (100, 100)))


def test_load_takes_a_folder(tiny_model: Path, scene: Image.Image) -> None:
    assert regiontalk.load(str(tiny_model), threads=1)(scene).model == "tiny"


def test_load_without_a_folder_takes_the_embedded_model(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regiontalk.models.packaged.EMBEDDED", tmp_path / "weights")
    with pytest.raises(ModelError, match="package has no model") as caught:
        regiontalk.load()
    assert "export" in str(caught.value.hint)
    shutil.copytree(tiny_model, tmp_path / "weights")
    assert regiontalk.load().runtime.info.name == "tiny"


def test_the_package_offers_the_model() -> None:
    import regiontalk

    assert regiontalk.Model is Model
    with pytest.raises(AttributeError, match="no attribute 'Painter'"):
        _ = regiontalk.Painter


class TestNames:
    """`Model.name`, and the name of each captioned region."""

    NAMES = ("schipperke", "pug", "cup")
    COARSE = ("dog", "dog", "cup")

    @pytest.fixture
    def naming_model(self, tiny_model: Path) -> Model:
        runtime = OnnxRuntime(tiny_model, threads=1)
        size = Model(runtime).codes(Model(runtime).look(Image.new("RGB", (64, 48)))).codes.shape[1]
        weights = np.random.default_rng(0).normal(size=(3, size)).astype(np.float32)
        runtime.names = NameTable(
            "detector", self.NAMES, self.COARSE, weights, np.zeros(3, dtype=np.float32)
        )
        return Model(runtime)

    def test_boxes_are_named_most_likely_first(
        self, naming_model: Model, scene: Image.Image
    ) -> None:
        boxes = [[0, 0, 20, 20], [5, 5, 60, 40]]
        named = naming_model.name(scene, boxes=boxes)
        assert [list(region.xyxy) for region in named.regions] == boxes
        for region in named.regions:
            probabilities = [name.probability for name in region.names]
            assert {name.name for name in region.names} == set(self.NAMES)
            assert probabilities == sorted(probabilities, reverse=True)
            assert sum(probabilities) == pytest.approx(1)
        assert named.to_dict()["regions"][0]["names"][0]["name"] == named.regions[0].names[0].name
        assert named.draw().size == scene.size

    def test_the_whole_photo_is_named_by_default_and_one_of_a_list(
        self, naming_model: Model, scene: Image.Image
    ) -> None:
        (whole,) = naming_model.name(scene, top=1).regions
        assert (whole.xyxy, len(whole.names)) == ((0, 0, *scene.size), 1)
        (region,) = naming_model.name(scene, names=["cup"]).regions
        assert [(name.name, name.probability) for name in region.names] == [("cup", 1.0)]
        assert naming_model.name(scene, boxes=np.zeros((0, 4))).regions == ()
        with pytest.raises(UsageError, match="zebra"):
            naming_model.name(scene, names=["zebra"])

    def test_ones_own_list_of_names_chooses_what_things_are_called(
        self, naming_model: Model, scene: Image.Image
    ) -> None:
        assert naming_model.known_names(["Cups", "zebra"]) == (("Cups",), ("zebra",))
        regions = naming_model(scene, names=["dogs", "cups"]).regions
        assert {region.name for region in regions} <= {"dogs", "cups", None}
        assert any(region.name for region in regions)
        tags = naming_model.tags(scene, names=["dogs", "cups"], threshold=0, confidence=0)
        assert set(tags.keywords) <= {"dogs", "cups"}
        with pytest.raises(UsageError, match="zebra"):
            naming_model(scene, names=["zebra"])

    def test_captioned_regions_have_the_name_of_their_box(
        self, naming_model: Model, scene: Image.Image
    ) -> None:
        box = [5.0, 5.0, 60.0, 40.0]
        (region,) = naming_model(scene, boxes=[box]).regions
        (named,) = naming_model.name(scene, boxes=[box], top=3).regions
        everyday = {"cup": 0.0, "dog": 0.0}
        for name in named.names:
            everyday[dict(zip(self.NAMES, self.COARSE, strict=True))[name.name]] += name.probability
        best = named.names[0]
        if best.probability >= 0.5:
            assert (region.name, region.name_confidence) == (
                best.name,
                pytest.approx(best.probability),
            )
        else:
            word = max(everyday, key=lambda word: everyday[word])
            assert (region.name, region.name_confidence) == (word, pytest.approx(everyday[word]))
        assert all(one.name for one in naming_model(scene).regions)
        assert {"name", "name_confidence"} <= set(region.to_dict(0))

    def test_a_model_without_names_says_so(self, model: Model, scene: Image.Image) -> None:
        assert model.names == ()
        assert model(scene).regions[0].name is None
        assert "name" not in model(scene).regions[0].to_dict(0)
        with pytest.raises(ModelError, match="has no names"):
            model.name(scene)
