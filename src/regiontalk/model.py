"""A photo in, regions and captions out: the inference algorithm (DenseCap 3.1, test time)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from regiontalk import boxes as geometry
from regiontalk import decoding, images, ranking
from regiontalk.calibration import calibrated
from regiontalk.errors import UsageError
from regiontalk.images import Limits, PhotoSource
from regiontalk.model_folder import PredictionConfig
from regiontalk.ranking import Evidence
from regiontalk.runtime import Floats, Proposed, Runtime, State
from regiontalk.sentence_head import Speaker
from regiontalk.types import Alignment, Description, ImageRegions, Region

BEST_REGIONS = 19  # K&FF 3.1.1: "the top 19 detected locations in addition to the whole image"
SURROUNDINGS = 2.0  # times as wide and high as a region: as much of the photo as tells what it belongs to
GLANCED = 1000  # proposals that go into the suppression of a quick look
SAME_PLACE = 0.3  # IoU above which the same words are said of the same thing
ARTICLES = ("a", "an", "the")
BOXES_AT_ONCE = 300  # of given boxes; bounds the memory that thousands of them take

Photos = list[Any] | tuple[Any, ...] | Iterator[Any]


class Options(TypedDict, total=False):
    """What a call may ask for."""

    threshold: float
    """Regions that score less are left out (default 0)."""
    top: int | None
    """So many regions at most (default: all)."""
    proposals: int | None
    """So many proposals are looked at closely (default: the model's setting)."""
    boxes: ArrayLike | None
    """Caption these boxes (B, 4), `xyxy` in pixels of the upright photo, instead of finding some. All of them
    are in the answer, in their order: `threshold`, `top` and `proposals` do not apply."""
    beam: int
    """Width of the beam search for captions (default 1: the likeliest word each time)."""
    size: int | None
    """The long side, in pixels, that the photo is resized to (default: the model's)."""


class _Input(NamedTuple):
    """A photo on its way into the network."""

    photo: Image.Image
    image: Floats  # (1, 3, H, W)
    size: tuple[int, int]  # width and height without the padding
    scale: tuple[float, float]  # from the upright photo's pixels to the input's


class _Found(NamedTuple):
    """Regions still without words, in input pixels, by falling score."""

    boxes_xyxy: Floats
    scores: NDArray[np.float64]
    logits: Floats
    votes: NDArray[np.intp]
    codes: Floats
    state: State


class Look(NamedTuple):
    """The whole photo (row 0) and its best regions, each with its code."""

    boxes_xyxy: NDArray[np.float64]
    """(1 + R, 4) pixels of the upright photo."""
    scores: NDArray[np.float64]
    """(1 + R,)"""
    codes: Floats
    """(1 + R, D + A): the recognition network's, and behind it the appearance."""
    surroundings: Floats | None
    """(1 + R, D + A) codes of the boxes made `SURROUNDINGS` times as wide and high, where they were asked for."""
    photo: Image.Image
    """Upright."""


@dataclass(frozen=True)
class Model:
    """Captions photos through a `Runtime`.

    `tidy` keeps captions from stuttering, and leaves out regions that say again what a better one in about
    the same place has said, or nothing; without it the answer is the bare network's.

    Differs from `nets.prediction.rank` where the model has a caption weight: there every proposal is captioned
    and the captions' sureness helps to choose between overlapping regions; here, for speed, only regions that
    were kept are captioned, and sureness changes their scores and order. A learned ranking (`ranking`) is used
    here alone.
    """

    runtime: Runtime
    tidy: bool = True
    limits: Limits = field(default_factory=Limits)

    @overload
    def __call__(self, photo: PhotoSource, **options: Unpack[Options]) -> ImageRegions: ...

    @overload
    def __call__(self, photo: Photos, **options: Unpack[Options]) -> Iterator[ImageRegions]: ...

    def __call__(
        self, photo: PhotoSource | Photos, **options: Unpack[Options]
    ) -> ImageRegions | Iterator[ImageRegions]:
        """The regions of a photo (a path, bytes, a PIL image or an array) by falling score.

        A list, tuple or iterator of photos gives an iterator that opens each photo as it is asked for.
        """
        if isinstance(photo, list | tuple | Iterator):
            if options.get("boxes") is not None:
                raise UsageError("boxes belong to one photo, not to several")
            return (self._caption(one, **options) for one in photo)
        return self._caption(photo, **options)

    def _caption(
        self,
        source: PhotoSource,
        *,
        threshold: float = 0.0,
        top: int | None = None,
        proposals: int | None = None,
        boxes: ArrayLike | None = None,
        beam: int = 1,
        size: int | None = None,
    ) -> ImageRegions:
        _check(threshold, top=top, proposals=proposals, beam=beam)
        given = self._prepare(source, size)
        if boxes is not None:
            regions = self._caption_boxes(given, _as_boxes(boxes, given.photo), beam)
        else:
            settings = self.runtime.info.prediction
            regions = self.regions(self._evidence(given, proposals or settings.proposals, threshold, beam), settings)
            regions = [region for region in regions if region.score >= threshold][:top]
        path = str(source) if isinstance(source, str | Path) else ""
        width, height = given.photo.size
        return ImageRegions(path, width, height, self.runtime.info.name, tuple(regions), given.photo)

    def _prepare(self, source: PhotoSource, size: int | None) -> _Input:
        info = self.runtime.info
        photo = images.open_photo(source, self.limits)
        resized = images.resize(photo, info.input_size if size is None else size)
        height, width = resized.pixels.shape[:2]
        image = images.to_input(resized.pixels, info.pad_to)[None]
        return _Input(photo, image, (width, height), (resized.scale_x, resized.scale_y))

    def evidence(self, photo: PhotoSource) -> Evidence:
        """What the regions of a photo are scored by: for fitting a ranking."""
        return self._evidence(self._prepare(photo, None), self.runtime.info.prediction.proposals, 0.0, 1)

    def regions(self, evidence: Evidence, settings: PredictionConfig) -> list[Region]:
        """The regions by falling score, as `settings` score them."""
        scores = calibrated(_scores(evidence, settings), settings.calibration)
        regions = self._to_regions(evidence.boxes_xyxy, scores, evidence.captions)
        regions.sort(key=lambda region: -region.score)
        return _without_repeats(regions) if self.tidy else regions

    def look(
        self, photo: PhotoSource, regions: int = BEST_REGIONS, size: int | None = None, surroundings: bool = False
    ) -> Look:
        """What sentences are laid over (K&FF 3.1.1): the `regions` best regions and the whole photo, in one pass."""
        _check(0.0, regions=regions)
        given = self._prepare(photo, size)
        proposed = self.runtime.propose(given.image, given.size)
        found = self._find(given, proposed, self.runtime.info.prediction.proposals, 0.0)
        input_frame = np.array([[0, 0, *given.size]], dtype=np.float32)
        whole = self.runtime.recognize(proposed.features, given.size, input_frame)
        input_boxes = np.concatenate([input_frame, found.boxes_xyxy[:regions]])
        codes = np.concatenate([whole.codes, found.codes[:regions]])
        around = None
        if surroundings:
            wider = geometry.clip(geometry.enlarge(input_boxes, SURROUNDINGS), *given.size).astype(np.float32)
            seen = self.runtime.recognize(proposed.features, given.size, wider)
            around = self._with_appearance(proposed, seen.codes, wider)
        frame = np.array([[0, 0, *given.photo.size]], dtype=np.float64)
        return Look(
            np.concatenate([frame, self._to_photo(given, found.boxes_xyxy[:regions])]),
            np.concatenate([_sigmoid(whole.logits), found.scores[:regions]]),
            self._with_appearance(proposed, codes, input_boxes),
            around,
            given.photo,
        )

    def look_at(
        self, photo: PhotoSource, boxes: ArrayLike, size: int | None = None, surroundings: bool = False
    ) -> Look:
        """The whole photo and given boxes (B, 4), `xyxy` in pixels of the upright photo."""
        given = self._prepare(photo, size)
        proposed = self.runtime.propose(given.image, given.size)
        own = np.array([[0, 0, *given.photo.size], *_as_boxes(boxes, given.photo)], dtype=np.float64)
        scaled = geometry.scale(own, *given.scale).astype(np.float32)
        wider = geometry.clip(geometry.enlarge(scaled, SURROUNDINGS), *given.size).astype(np.float32)
        looked_at = np.concatenate([scaled, wider][: 1 + surroundings])
        recognized = self.runtime.recognize(proposed.features, given.size, looked_at)
        seen = self._with_appearance(proposed, recognized.codes, looked_at)
        codes, around = seen[: len(own)], seen[len(own) :]
        scores = _sigmoid(recognized.logits[: len(own)])
        return Look(own, scores, codes, around if surroundings else None, given.photo)

    def glance(self, photo: PhotoSource, size: int | None = None) -> Look:
        """As `look`, in a fraction of the time: the likeliest proposals as they are, without a second choice."""
        given = self._prepare(photo, size)
        proposed = self.runtime.propose(given.image, given.size)
        boxes, logits = proposed.boxes_xyxy, proposed.logits
        ranked = np.argsort(-logits, kind="stable")[:GLANCED]
        threshold = self.runtime.info.prediction.final_nms
        chosen = ranked[geometry.nms(boxes[ranked], logits[ranked], threshold, BEST_REGIONS)]
        frame = np.array([[0, 0, *given.size]], dtype=np.float32)
        recognized = self.runtime.recognize(proposed.features, given.size, np.concatenate([frame, boxes[chosen]]))
        refined = np.concatenate([frame, recognized.boxes_xyxy[1:]])
        codes = self._with_appearance(proposed, recognized.codes, refined)
        return Look(self._to_photo(given, refined), _sigmoid(recognized.logits), codes, None, given.photo)

    def _with_appearance(
        self, proposed: Proposed, codes: NDArray[np.float32], boxes_xyxy: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Codes (B, D) of input boxes (B, 4) as heads read them: what a region looks like behind what it is."""
        return np.concatenate([codes, self.runtime.appear(proposed.deep, boxes_xyxy)], axis=1)

    def describe(
        self,
        photo: PhotoSource,
        *,
        beam: int | None = None,
        alternatives: int = 0,
        seed: int | None = None,
        size: int | None = None,
    ) -> Description:
        """One sentence for the whole photo (K&FF section 3.2), and so many of the next likeliest `alternatives`.

        `beam`: sentences searched at a time (default: the model's); 1 takes the likeliest word each time. With a
        `seed`, words are drawn by their probability instead.
        """
        speaker = Speaker(self.runtime)
        speaker.check(beam, alternatives)
        look = self.glance(photo, size)
        best, *others = speaker.sentences(look.codes, look.boxes_xyxy, beam, alternatives, seed)
        path = str(photo) if isinstance(photo, str | Path) else ""
        width, height = look.photo.size
        name = self.runtime.info.name
        return Description(path, width, height, name, best.sentence, best.logprob, tuple(others), look.photo)

    def align(self, photo: PhotoSource, sentence: str, *, beta: float | None = None) -> Alignment:
        """Which words of a sentence belong to which region (K&FF 3.1.4). `beta`: how much words hold together."""
        from regiontalk.aligner import align

        return align(self, photo, sentence, beta)

    def _find(self, given: _Input, proposed: Proposed, proposals: int, threshold: float) -> _Found:
        """Suppression, recognition, suppression."""
        settings = self.runtime.info.prediction
        boxes, logits = proposed.boxes_xyxy, proposed.logits
        ranked = np.argsort(-logits, kind="stable")[: settings.candidates]
        chosen = ranked[geometry.nms(boxes[ranked], logits[ranked], settings.proposal_nms, proposals)]
        recognized = self.runtime.recognize(proposed.features, given.size, boxes[chosen])
        scores = _sigmoid(recognized.logits)
        if settings.score == "product":
            scores = scores * _sigmoid(logits[chosen])
        kept = geometry.nms(recognized.boxes_xyxy, scores, settings.final_nms)
        if settings.ranking is None:  # then unsure words can only lower a score
            kept = kept[calibrated(scores[kept], settings.calibration) >= threshold]
        refined, logits, codes = recognized.boxes_xyxy[kept], recognized.logits[kept], recognized.codes[kept]
        # As many voters as when the ranking was fitted, however many proposals are asked for.
        votes = ranking.votes(refined, recognized.boxes_xyxy[: settings.proposals])
        return _Found(refined, scores[kept], logits, votes, codes, tuple(part[kept] for part in recognized.state))

    def _caption_boxes(self, given: _Input, boxes_xyxy: NDArray[np.float64], beam: int) -> list[Region]:
        """Captions of the user's own boxes, which stay as they are."""
        features = self.runtime.propose(given.image, given.size).features
        regions: list[Region] = []
        for start in range(0, len(boxes_xyxy), BOXES_AT_ONCE):
            boxes = boxes_xyxy[start : start + BOXES_AT_ONCE]
            scaled = geometry.scale(boxes, *given.scale).astype(np.float32)
            recognized = self.runtime.recognize(features, given.size, scaled)
            captions = self._speak(recognized.state, beam)
            scores = _with_sureness(_sigmoid(recognized.logits), captions, self.runtime.info.prediction)
            regions += self._to_regions(boxes, scores, captions)
        return regions

    def _evidence(self, given: _Input, proposals: int, threshold: float, beam: int) -> Evidence:
        """Found regions in the photo's own pixels, with words."""
        proposed = self.runtime.propose(given.image, given.size)
        found = self._find(given, proposed, proposals, threshold)
        boxes, captions = self._to_photo(given, found.boxes_xyxy), self._speak(found.state, beam)
        return Evidence(given.photo.size, boxes, found.scores, found.logits.astype(np.float64), found.votes, captions)

    @staticmethod
    def _to_photo(given: _Input, boxes_xyxy: Floats) -> NDArray[np.float64]:
        """Boxes of the input as boxes of the upright photo."""
        scale_x, scale_y = given.scale
        boxes = geometry.scale(boxes_xyxy.astype(np.float64), 1 / scale_x, 1 / scale_y)
        return geometry.clip(boxes, *given.photo.size).astype(np.float64)

    def _speak(self, state: State, beam: int) -> list[decoding.Caption]:
        """A caption for every row."""
        settings, start, stutter = self.runtime.info.prediction, self.runtime.words.start(), not self.tidy
        if beam == 1:
            return decoding.greedy(self.runtime.step, state, start, settings.longest, stutter)
        found = decoding.beam_search(self.runtime.step, state, start, settings.longest, beam, stutter=stutter)
        return [best for (best,) in found]

    def _to_regions(
        self, boxes_xyxy: NDArray[np.floating], scores: NDArray[np.float64], captions: Sequence[decoding.Caption]
    ) -> list[Region]:
        return [
            Region((x0, y0, x1, y1), score, self.runtime.words.decode(caption.tokens), caption.logprob)
            for (x0, y0, x1, y1), score, caption in zip(boxes_xyxy.tolist(), scores.tolist(), captions, strict=True)
        ]


def _scores(evidence: Evidence, settings: PredictionConfig) -> NDArray[np.float64]:
    """By the learned ranking where there is one, else by the rules of the settings."""
    if settings.ranking is not None:
        return ranking.scores(ranking.features(evidence), settings.ranking)
    return _with_sureness(evidence.scores, evidence.captions, settings)


def _with_sureness(
    scores: NDArray[np.float64], captions: Sequence[decoding.Caption], settings: PredictionConfig
) -> NDArray[np.float64]:
    """The scores, lowered where the words are unsure."""
    sureness = np.array([caption.mean_logprob for caption in captions])
    return scores * np.exp(settings.caption_weight * sureness)


def _without_repeats(regions: Sequence[Region]) -> list[Region]:
    """Of regions with the same words, articles apart, in about the same place the first; none without words or
    without area."""
    boxes = np.array([region.xyxy for region in regions])
    close = geometry.iou(boxes, boxes) > SAME_PLACE
    kept: dict[tuple[str, ...], list[int]] = {}  # by their words
    for number, (region, area) in enumerate(zip(regions, geometry.area(boxes), strict=True)):
        rivals = kept.setdefault(_without_articles(region.caption), [])
        if region.caption and area > 0 and not close[number, rivals].any():
            rivals.append(number)
    return [regions[number] for number in sorted(itertools.chain(*kept.values()))]


def _without_articles(caption: str) -> tuple[str, ...]:
    return tuple(word for word in caption.split() if word not in ARTICLES)


def _as_boxes(boxes: ArrayLike, photo: Image.Image) -> NDArray[np.float64]:
    """The user's boxes, cut to the photo."""
    try:
        values = np.asarray(boxes, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"boxes must be rows of four numbers: {error}") from error
    if values.size == 0:
        return np.zeros((0, 4))
    if values.ndim != 2 or values.shape[1] != 4:
        raise UsageError(f"boxes must be rows of four numbers (left, top, right, bottom), not of shape {values.shape}")
    clipped = geometry.clip(values, *photo.size).astype(np.float64)
    for number, box in enumerate(clipped):
        if not (box[2] > box[0] and box[3] > box[1]):  # written so that NaN fails too
            raise UsageError(
                f"box {number}, {values[number].tolist()}: nothing of it lies in the photo of "
                f"{photo.width}×{photo.height} pixels",
                hint="left, top, right, bottom",
            )
    return clipped


def _check(threshold: float, **counts: int | None) -> None:
    if not 0 <= threshold <= 1:
        raise UsageError(f"threshold is {threshold}; a score is a probability from 0 to 1")
    for name, count in counts.items():
        if count is not None and count < 1:
            raise UsageError(f"{name} is {count}; it must be at least 1")


def _sigmoid(logits: Floats) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-np.clip(logits.astype(np.float64), -500, 500)))
