"""A photo in, regions out: the same from torch and ONNX, the same as the training side's predictor."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import regiontalk
from regiontalk import boxes as geometry
from regiontalk import images
from regiontalk import model as model_module
from regiontalk.calibration import calibrated
from regiontalk.errors import ImageError, ImageTooLarge, ModelError, UsageError
from regiontalk.images import Limits
from regiontalk.model import Model
from regiontalk.model_folder import PredictionConfig
from regiontalk.nets.prediction import Predictor
from regiontalk.ranking import FEATURES, Ranking
from regiontalk.runtime import OnnxRuntime
from regiontalk.runtime.torch import TorchRuntime
from regiontalk.training.checkpoints import load_fcln
from regiontalk.types import ImageRegions, Region

SETTINGS = PredictionConfig(
    proposals=40, candidates=200, proposal_nms=0.7, final_nms=0.5, longest=6, score="product", caption_weight=0.0
)
# A region's score is σ(its lower edge as a share of the photo).
LOW_FIRST = Ranking(FEATURES, (tuple(float(name == "bottom") for name in FEATURES),), (0.0,), (1.0,), 0.0)
PHOTOS = ("coffee.jpg", "chelsea.jpg")


@pytest.fixture(scope="module")
def runtime(tiny_model: Path) -> OnnxRuntime:
    return with_settings(OnnxRuntime(tiny_model, threads=1))


@pytest.fixture
def bare(runtime: OnnxRuntime) -> Model:
    """The network's own answer."""
    return Model(runtime, tidy=False)


@pytest.fixture
def tidy(runtime: OnnxRuntime) -> Model:
    return Model(runtime)


def with_settings(runtime: OnnxRuntime, **changes: object) -> OnnxRuntime:
    """The runtime, made to choose regions differently; a new object over the same graphs."""
    other = object.__new__(OnnxRuntime)
    other.__dict__ = dict(runtime.__dict__)
    other.info = replace(runtime.info, prediction=replace(SETTINGS, **changes))  # type: ignore[arg-type]
    return other


def assert_alike(a: ImageRegions, b: ImageRegions) -> None:
    assert [region.caption for region in a.regions] == [region.caption for region in b.regions]
    for name in ("xyxy", "score", "logprob"):
        values = ([getattr(region, name) for region in photo.regions] for photo in (a, b))
        np.testing.assert_allclose(*values, rtol=1e-3, atol=2e-3, err_msg=name)


@pytest.mark.parametrize("photo", PHOTOS)
def test_torch_and_onnx_say_the_same(bare: Model, shaken_checkpoint: Path, examples: Path, photo: str) -> None:
    other = TorchRuntime(shaken_checkpoint)
    other.info = replace(other.info, prediction=SETTINGS)
    for options in ({}, {"beam": 3}, {"size": 200}, {"boxes": [[5, 5, 100, 80], [50, 60, 220, 300]]}):
        ours = bare(examples / "photos" / photo, **options)  # type: ignore[call-overload]
        assert len(ours.regions) > 1
        assert_alike(ours, Model(other, tidy=False)(examples / "photos" / photo, **options))  # type: ignore[call-overload]


@pytest.mark.parametrize("score", ["final", "product"])
@pytest.mark.parametrize("photo", PHOTOS)
def test_the_training_sides_predictor_says_the_same(
    runtime: OnnxRuntime, shaken_checkpoint: Path, examples: Path, photo: str, score: str
) -> None:
    settings = replace(SETTINGS, score=score)
    trained = load_fcln(shaken_checkpoint)
    net, words = trained.net, trained.words
    resized = images.resize(images.open_photo(examples / "photos" / photo), net.config.input_size)
    height, width = resized.pixels.shape[:2]
    predictor = Predictor(net, words.start(), settings)
    image = torch.from_numpy(images.to_input(resized.pixels, net.pad_to))[None]
    (expected,) = predictor(image, torch.tensor([[width, height]], dtype=torch.float32))
    found = Model(with_settings(runtime, score=score), tidy=False)(examples / "photos" / photo)
    assert [region.caption for region in found.regions] == [words.decode(row) for row in expected.tokens.tolist()]
    boxes = geometry.scale([region.xyxy for region in found.regions], resized.scale_x, resized.scale_y)
    np.testing.assert_allclose(boxes, expected.boxes_xyxy.numpy(), atol=2e-3)
    np.testing.assert_allclose([region.score for region in found.regions], expected.scores.numpy(), atol=1e-4)
    np.testing.assert_allclose([region.logprob for region in found.regions], expected.logprobs.numpy(), atol=1e-3)


@pytest.mark.parametrize("size", [(96, 64), (64, 150), (1, 1), (2, 3000)])
def test_regions_lie_in_the_photo_by_falling_score(
    tidy: Model, make_scene: Callable[[tuple[int, int]], Image.Image], size: tuple[int, int]
) -> None:
    found = tidy(make_scene(size) if min(size) > 2 else Image.new("RGB", size, "red"))
    assert (found.width, found.height, found.model, found.path) == (*size, "tiny", "")
    boxes = np.array([region.xyxy for region in found.regions]).reshape(-1, 4)
    assert (boxes >= 0).all()
    assert (boxes <= [*size, *size]).all()
    scores = [region.score for region in found.regions]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_two_runs_give_the_same_bytes(tiny_model: Path, examples: Path) -> None:
    path = examples / "photos" / "rocket.jpg"
    first, again = (json.dumps(regiontalk.load(tiny_model)(path).to_dict()) for _ in range(2))
    assert first == again


def test_every_kind_of_photo_gives_the_same(tidy: Model, scene_path: Path) -> None:
    expected = tidy(scene_path)
    assert expected.path == str(scene_path)
    assert expected.image is not None
    sources = [str(scene_path), scene_path.read_bytes(), Image.open(scene_path), np.asarray(Image.open(scene_path))]
    assert all(found.regions == expected.regions for found in tidy(sources))


def test_top_and_threshold_cut_the_list(bare: Model, examples: Path) -> None:
    photo = examples / "photos" / "coffee.jpg"
    every = bare(photo).regions
    assert bare(photo, top=2).regions == every[:2]
    cut = every[2].score
    few = bare(photo, threshold=cut).regions
    assert [region.caption for region in few] == [region.caption for region in every if region.score >= cut]
    assert bare(photo, threshold=1.0).regions == ()


def test_fewer_proposals_give_fewer_regions(runtime: OnnxRuntime, examples: Path) -> None:
    everything = Model(with_settings(runtime, final_nms=1.0), tidy=False)
    assert len(everything(examples / "photos" / "coffee.jpg").regions) == 40
    assert len(everything(examples / "photos" / "coffee.jpg", proposals=7).regions) == 7


def test_a_beam_finds_captions_at_least_as_likely(tidy: Model, examples: Path) -> None:
    boxes = geometry.xywh_to_xyxy([[x, y, 120, 90] for x in range(0, 300, 60) for y in range(0, 200, 50)])
    plain, beam = (tidy(examples / "photos" / "chelsea.jpg", boxes=boxes, beam=width).regions for width in (1, 8))
    gain = [b.logprob - a.logprob for a, b in zip(plain, beam, strict=True)]  # type: ignore[operator]
    assert sum(gain) > 0.1


def test_given_boxes_are_all_captioned_in_their_order(
    tidy: Model, examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photo = examples / "photos" / "coffee.jpg"
    boxes = [[5, 5, 100, 80], [200.5, 60, 320, 300], [5, 5, 100, 80], [-50, -50, 9000, 9000]]
    found = tidy(photo, boxes=boxes, threshold=1.0, top=1)
    width, height = found.width, found.height
    assert [list(region.xyxy) for region in found.regions] == [*boxes[:3], [0, 0, width, height]]
    assert found.regions[0] == found.regions[2]
    monkeypatch.setattr(model_module, "BOXES_AT_ONCE", 3)
    assert_alike(tidy(photo, boxes=np.array(boxes)), found)
    assert tidy(photo, boxes=[]).regions == ()


@pytest.mark.parametrize(
    "boxes",
    [
        [[1, 2, 3]],
        [1, 2, 3, 4],
        [[1, 2, 3, 4], [5, 6]],
        [["a", "b", "c", "d"]],
        [[50, 50, 10, 10]],
        [[9000, 0, 9100, 10]],
        [[0, 0, float("nan"), 10]],
    ],
)
def test_impossible_boxes_are_refused(tidy: Model, scene: Image.Image, boxes: object) -> None:
    with pytest.raises(UsageError, match="box"):
        tidy(scene, boxes=boxes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {"threshold": -0.1},
        {"threshold": 1.5},
        {"threshold": float("nan")},
        {"top": 0},
        {"proposals": 0},
        {"beam": 0},
        {"size": 3},
    ],
)
def test_impossible_options_are_refused(tidy: Model, scene: Image.Image, options: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        tidy(scene, **options)  # type: ignore[call-overload]


def test_unsure_captions_lower_the_score_but_not_the_choice(runtime: OnnxRuntime, examples: Path) -> None:
    photo = examples / "photos" / "coffee.jpg"
    plain = {(region.xyxy, region.logprob): region for region in Model(runtime, tidy=False)(photo).regions}
    weighed = Model(with_settings(runtime, caption_weight=0.5), tidy=False)(photo).regions
    assert {(region.xyxy, region.logprob) for region in weighed} == set(plain)
    for region in weighed:
        assert region.logprob is not None
        sureness = np.exp(0.5 * region.logprob / (len(region.caption.split()) + 1))
        assert region.score == pytest.approx(plain[region.xyxy, region.logprob].score * sureness)
    cut = weighed[3].score
    kept = Model(with_settings(runtime, caption_weight=0.5), tidy=False)(photo, threshold=cut).regions
    assert len(kept) == 4


def test_tidy_says_nothing_twice_in_one_place(runtime: OnnxRuntime, examples: Path) -> None:
    loose = with_settings(runtime, final_nms=0.95)
    photo = examples / "photos" / "coffee.jpg"
    bare, tidy = Model(loose, tidy=False)(photo).regions, Model(loose)(photo).regions
    assert 0 < len(tidy) < len(bare)
    for number, region in enumerate(tidy):
        words = region.caption.split()
        assert words
        assert all(a != b for a, b in itertools.pairwise(words))
        same = [other.xyxy for other in tidy[:number] if other.caption == region.caption]
        assert not (geometry.iou([region.xyxy], same) > model_module.SAME_PLACE).any()
        assert geometry.area([region.xyxy])[0] > 0


def test_an_article_makes_no_other_words() -> None:
    near, same, far = (10.0, 10.0, 50.0, 50.0), (12.0, 10.0, 50.0, 50.0), (60.0, 10.0, 90.0, 50.0)
    found = [Region(near, 0.9, "a tie"), Region(same, 0.8, "tie"), Region(far, 0.7, "the tie"), Region(same, 0.6, "a")]
    assert [region.caption for region in model_module._without_repeats(found)] == ["a tie", "the tie", "a"]


def test_calibration_changes_scores_alone_and_not_those_of_given_boxes(runtime: OnnxRuntime, examples: Path) -> None:
    photo, numbers = examples / "photos" / "coffee.jpg", (0.5, 3.0, -1.0)
    bare, fitted = Model(runtime), Model(with_settings(runtime, calibration=numbers))
    plain, judged = bare(photo).regions, fitted(photo).regions
    assert [region.xyxy for region in judged] == [region.xyxy for region in plain]
    expected = calibrated(np.array([region.score for region in plain]), numbers)
    np.testing.assert_allclose([region.score for region in judged], expected)
    assert fitted(photo, threshold=judged[1].score).regions == judged[:2]
    boxes = [[5, 5, 100, 80]]
    assert fitted(photo, boxes=boxes).regions == bare(photo, boxes=boxes).regions


def test_a_ranking_scores_and_sorts_what_was_kept_and_not_given_boxes(runtime: OnnxRuntime, examples: Path) -> None:
    photo, settings = examples / "photos" / "coffee.jpg", replace(SETTINGS, caption_weight=0.5, ranking=LOW_FIRST)
    ranking = Model(with_settings(runtime, caption_weight=0.5, ranking=LOW_FIRST), tidy=False)
    plain, ranked = Model(runtime, tidy=False)(photo).regions, ranking(photo).regions
    assert {(region.xyxy, region.caption) for region in ranked} == {(region.xyxy, region.caption) for region in plain}
    bottoms = [region.xyxy[3] for region in ranked]
    assert bottoms == sorted(bottoms, reverse=True)
    assert len(set(bottoms)) > 1
    height = images.open_photo(photo).height
    np.testing.assert_allclose([region.score for region in ranked], [1 / (1 + np.exp(-y / height)) for y in bottoms])
    assert ranking.regions(ranking.evidence(photo), settings) == list(ranked)
    boxes = [[5, 5, 100, 80]]
    given = Model(with_settings(runtime, caption_weight=0.5), tidy=False)(photo, boxes=boxes)
    assert ranking(photo, boxes=boxes).regions == given.regions


def test_a_threshold_is_one_of_the_rankings_scores(runtime: OnnxRuntime, examples: Path) -> None:
    """No region goes before it is ranked, however low the net's own score."""
    photo, numbers = examples / "photos" / "coffee.jpg", (1.0, 0.5, -1.0)
    for tidy in (False, True):
        ranking = Model(with_settings(runtime, ranking=LOW_FIRST, calibration=numbers), tidy=tidy)
        every = ranking(photo).regions
        bare = Model(with_settings(runtime, ranking=LOW_FIRST), tidy=tidy)(photo).regions
        assert [region.xyxy for region in every] == [region.xyxy for region in bare]
        np.testing.assert_allclose(
            [region.score for region in every], calibrated(np.array([region.score for region in bare]), numbers)
        )
        cut = every[len(every) // 2].score
        assert ranking(photo, threshold=cut).regions == tuple(region for region in every if region.score >= cut)


def test_more_proposals_are_no_more_votes(runtime: OnnxRuntime, examples: Path) -> None:
    by_votes = replace(LOW_FIRST, weights=(tuple(float(name == "votes") for name in FEATURES),))
    ranking = Model(with_settings(runtime, ranking=by_votes, proposals=20, final_nms=0.5), tidy=False)
    photo = examples / "photos" / "coffee.jpg"
    usual, more = ({one.xyxy: one.score for one in ranking(photo, proposals=count).regions} for count in (20, 60))
    shared = usual.keys() & more.keys()
    assert len({usual[box] for box in shared}) > 1
    assert {box: usual[box] for box in shared} == {box: more[box] for box in shared}


def test_several_photos_stream(tidy: Model, scene: Image.Image, tmp_path: Path) -> None:
    opened: list[int] = []

    def photos() -> object:
        for number in range(3):
            opened.append(number)
            yield scene

    stream = tidy(photos())  # type: ignore[call-overload]
    assert opened == []
    assert next(stream).regions == tidy(scene).regions
    assert opened == [0]
    assert len(list(stream)) == 2
    with pytest.raises(UsageError, match="one photo"):
        tidy([scene, scene], boxes=[[0, 0, 5, 5]])


def test_bad_photos_and_limits_are_the_readers_errors(runtime: OnnxRuntime, tidy: Model, tmp_path: Path) -> None:
    (tmp_path / "note.jpg").write_text("not a photo")
    with pytest.raises(ImageError, match=r"note\.jpg"):
        tidy(tmp_path / "note.jpg")
    small = Model(runtime, limits=Limits(megapixels=0.001))
    with pytest.raises(ImageTooLarge):
        small(Image.new("RGB", (100, 100)))


def test_load_takes_a_folder(tiny_model: Path, scene: Image.Image) -> None:
    assert regiontalk.load(str(tiny_model), threads=1)(scene).model == "tiny"


def test_load_without_a_folder_takes_the_embedded_model(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regiontalk, "EMBEDDED", tmp_path / "weights")
    with pytest.raises(ModelError, match="no model of its own") as caught:
        regiontalk.load()
    assert "export" in str(caught.value.hint)
    shutil.copytree(tiny_model, tmp_path / "weights")
    assert regiontalk.load().runtime.info.name == "tiny"


def test_the_package_offers_the_captioner() -> None:
    import regiontalk

    assert regiontalk.Model is Model
    with pytest.raises(AttributeError, match="no attribute 'Painter'"):
        _ = regiontalk.Painter


class TestLook:
    def test_the_whole_photo_comes_first_then_the_best_regions(self, bare: Model, scene: Image.Image) -> None:
        look = bare.look(scene, regions=3)
        regions = bare(scene, top=3).regions
        assert look.boxes_xyxy[0].tolist() == [0, 0, *scene.size]
        assert look.boxes_xyxy[1:] == pytest.approx(np.array([region.xyxy for region in regions]))
        assert look.scores[1:] == pytest.approx([region.score for region in regions], abs=1e-6)
        assert look.codes.shape == (4, 128 + 64)  # code and appearance
        assert look.surroundings is None
        assert look.photo.size == scene.size

    def test_codes_are_those_of_the_boxes_that_were_proposed(self, bare: Model, scene: Image.Image) -> None:
        whole = bare.look(scene, regions=1).codes[0]
        given = bare._prepare(scene, None)
        proposed = bare.runtime.propose(given.image, given.size)
        frame = np.array([[0, 0, *given.size]], dtype=np.float32)
        assert whole[:128] == pytest.approx(bare.runtime.recognize(proposed.features, given.size, frame).codes[0])
        assert whole[128:] == pytest.approx(bare.runtime.appear(proposed.deep, frame)[0])

    def test_a_region_looks_like_the_mean_of_its_cells(self, bare: Model, scene: Image.Image) -> None:
        given = bare._prepare(scene, None)
        deep = bare.runtime.propose(given.image, given.size).deep
        cell = np.array([[32, 16, 48, 32]], dtype=np.float32)  # the third in the second row
        flat = np.broadcast_to(deep[:, :, 1:2, 2:3], deep.shape).copy()
        assert bare.runtime.appear(flat, cell)[0] == pytest.approx(deep[0, :, 1, 2], abs=1e-5)
        own = bare.runtime.appear(deep, cell)[0]
        around = deep[0, :, 0:3, 1:4].reshape(deep.shape[1], -1)
        assert (own >= around.min(axis=1) - 1e-5).all()
        assert (own <= around.max(axis=1) + 1e-5).all()

    def test_surroundings_of_the_whole_photo_are_itself(self, bare: Model, scene: Image.Image) -> None:
        look = bare.look(scene, regions=5, surroundings=True)
        assert look.surroundings is not None
        assert look.surroundings.shape == look.codes.shape
        assert np.array_equal(look.surroundings[0], look.codes[0])
        assert not np.allclose(look.surroundings[1:], look.codes[1:])

    def test_fewer_regions_than_asked_for(self, bare: Model, scene: Image.Image) -> None:
        look = bare.look(scene, regions=10_000)
        assert 1 < len(look.codes) < 10_000
        assert (np.diff(look.scores[1:]) <= 0).all()

    def test_no_regions_make_no_sense(self, bare: Model, scene: Image.Image) -> None:
        with pytest.raises(UsageError, match="regions is 0"):
            bare.look(scene, regions=0)
