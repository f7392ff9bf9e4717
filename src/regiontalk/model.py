"""A photo in; regions with captions, a sentence, or an alignment out.

`Model.look` detects the regions of a photo; all methods start with it. Captions are decoded from
its result (`inference.captions`). Sentences and alignments need region codes, which `Model.codes`
computes from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regiontalk import boxes as geometry
from regiontalk.errors import ModelError, UsageError, check_range
from regiontalk.images.limits import Limits
from regiontalk.images.photo import Photo, PhotoSource, to_input
from regiontalk.inference import find as finder
from regiontalk.inference import naming
from regiontalk.inference.alignment import HEAD, AlignmentHead, region_vectors
from regiontalk.inference.alt_text import alt_text
from regiontalk.inference.calibration import Scores, calibrated, sigmoid
from regiontalk.inference.captions import Said, decode_captions, say, to_regions
from regiontalk.inference.decoding import Caption
from regiontalk.inference.detect import (
    detect,
    detect_given,
    given_scores,
    raw_scores,
    replace_proposals,
    survivors,
)
from regiontalk.inference.rank import evidence_of, rank, weigh_captions, without_repeats
from regiontalk.inference.regions import Candidates, Detections, Frame, Rows
from regiontalk.inference.sentences import SENTENCE, SentenceHead, Wanted
from regiontalk.models.name_table import NameTable
from regiontalk.models.runtime import Floats, Proposed, Recognized, Runtime
from regiontalk.models.settings import FindConfig
from regiontalk.results import (
    Alignment,
    AltText,
    Description,
    Finding,
    ImageRegions,
    NamedRegion,
    Naming,
    Region,
    Shown,
)

BEST_REGIONS = 19  # K&FF 3.1.1: "the top 19 detected locations in addition to the whole image"
SURROUNDINGS = 2.0  # times as wide and high as a region: enough to show its context

Photos = list[Any] | tuple[Any, ...] | Iterator[Any]
"""Several photos, which are processed one by one."""

Answer = TypeVar("Answer")


class Look(NamedTuple):
    """The result of one pass over a photo: regions without captions, highest score first, or the
    given boxes in their order."""

    photo: Photo
    frame: Frame
    proposed: Proposed
    detections: Detections
    rows: Rows
    """(R,) which of the detections are regions: those that survive NMS, or all of the given
    boxes."""
    boxes_xyxy: NDArray[np.float64]
    """(R, 4) in pixels of the upright photo."""
    scores: Scores
    """(R,) the network's raw scores: neither ranked nor calibrated."""
    given: bool
    """Whether the boxes were given."""


class Codes(NamedTuple):
    """The whole photo (row 0) and its best regions, or the given boxes, each with its code (K&FF
    3.1.1)."""

    boxes_xyxy: NDArray[np.float64]
    """(1 + R, 4) pixels of the upright photo."""
    scores: Scores
    """(1 + R,)"""
    codes: Floats
    """(1 + R, D + A): the recognition network's code, the appearance appended."""
    surroundings: Floats | None
    """(1 + R, D + A) codes of the boxes enlarged `SURROUNDINGS` times in width and height, if
    requested."""


@dataclass(frozen=True)
class Model:
    """Captions, describes and aligns photos through a `Runtime`."""

    runtime: Runtime
    limits: Limits = field(default_factory=Limits)

    @overload
    def __call__(self, photo: PhotoSource, **options: Any) -> ImageRegions: ...

    @overload
    def __call__(self, photo: Photos, **options: Any) -> Iterator[ImageRegions]: ...

    def __call__(  # type: ignore[misc]  # the overloads only tell one photo from several
        self,
        photo: PhotoSource | Photos,
        *,
        threshold: float = 0.0,
        top: int | None = None,
        proposals: int | None = None,
        boxes: ArrayLike | None = None,
        beam: int = 1,
        size: int | None = None,
        words: int | None = None,
        confidence: float | None = None,
    ) -> ImageRegions | Iterator[ImageRegions]:
        """The regions of a photo (a path, bytes, an open file, a PIL image or an array), highest
        score first.

        A list, tuple or iterator of photos gives an iterator of results. Each photo is opened when
        its result is requested.

        `threshold`: leave out regions with a lower score. `top`: at most this many regions.
        `proposals`: how many proposals are recognised (default: the model's). `beam`: beam width of
        the caption search; 1 is greedy. `size`: long side in pixels that the photo is resized to
        (default: the model's). `words`: captions of at most this many words; shorter where the
        model is not sure of more (default: the model chooses the length). `confidence`: leave out
        captions that are less likely right; for models with fitted confidences.

        `boxes` (B, 4): caption these boxes instead of detecting regions: left, top, right, bottom
        in pixels of the upright photo, or all of them as fractions of it, from 0 to 1. All are in
        the answer, in their order; `threshold`, `top`, `proposals` and `confidence` do not apply.
        """
        check_range(0, 1, threshold=threshold)
        check_range(1, top=top, beam=beam)
        self.check(words, confidence)

        def caption(source: PhotoSource) -> ImageRegions:
            look = self.look(source, boxes=boxes, proposals=proposals, size=size)
            found = self.regions(look, beam, threshold, words)
            shown = Shown(0.0, None)
            if not look.given:
                found = [
                    region for region in found if (region.confidence or 0) >= (confidence or 0)
                ][:top]
                likely = self.likely if confidence is None else confidence
                shown = Shown(threshold or Shown.threshold, top or Shown.top, likely)
            place = (_path(source), *look.frame.photo_size, self.runtime.info.name)
            return ImageRegions(*place, tuple(found), shown, photo=look.photo)

        if boxes is not None and _are_several(photo):
            raise UsageError("boxes can only be given for one photo")
        return _for_each(caption, photo)

    def look(
        self,
        source: PhotoSource,
        *,
        boxes: ArrayLike | None = None,
        proposals: int | None = None,
        size: int | None = None,
        candidates: tuple[NDArray[np.float64], Scores] | None = None,
    ) -> Look:
        """Detects the regions of a photo, or recognises given `boxes` of it; the options are those
        of `__call__`.

        `candidates`: boxes (B, 4) in pixels and scores (B,) that replace the network's own
        proposals. They are refined, scored and suppressed in the same way.
        """
        check_range(1, proposals=proposals)
        info, settings = self.runtime.info, self.runtime.info.prediction
        photo = Photo.of(source, self.limits)
        resized = photo.resized(info.input_size if size is None else size)
        height, width = resized.pixels.shape[:2]
        frame = Frame(resized.photo_size, (width, height), resized.scales)
        given = None if boxes is None else geometry.given_boxes(boxes, frame.photo_size)
        proposed = self.runtime.propose(to_input(resized.pixels, info.pad_to)[None], frame.size)
        if given is not None:
            detections = detect_given(self.runtime, proposed, frame, given)
            rows = np.arange(len(given))
            scores = given_scores(detections, settings)
            return Look(photo, frame, proposed, detections, rows, given, scores, True)
        if candidates is not None:
            proposed = replace_proposals(proposed, frame, *candidates, settings)
        elif not len(proposed.logits):
            raise ModelError(
                f"the model {info.name!r} cannot detect regions",
                hint="give them with predict --regions",
            )
        detections = detect(
            self.runtime, proposed, frame, settings, proposals or settings.proposals
        )
        rows = survivors(detections, settings)
        boxes_xyxy, scores = (
            frame.to_photo(detections.boxes_xyxy[rows]),
            raw_scores(detections, settings)[rows],
        )
        return Look(photo, frame, proposed, detections, rows, boxes_xyxy, scores, False)

    @property
    def likely(self) -> float:
        """The confidence from which captions are shown by default; chosen on dev photos."""
        fitted = self.runtime.info.prediction.confidence
        return 0.0 if fitted is None else fitted.likely

    def check(self, words: int | None, confidence: float | None) -> None:
        """Rejects a caption length or confidence that is out of range, or that this model does not
        support."""
        name, settings = self.runtime.info.name, self.runtime.info.prediction
        check_range(1, settings.longest, words=words)
        check_range(0, 1, confidence=confidence)
        if words and not self.runtime.words.lengths:
            raise ModelError(
                f"the model {name!r} was not trained for captions of a given length",
                hint="leave out the length, or train a model with vocabulary.lengths",
            )
        if confidence and settings.confidence is None:
            raise ModelError(
                f"the model {name!r} has no fitted confidences",
                hint="regiontalk fit MODEL DATA -o OUT --only confidence",
            )

    def regions(
        self, look: Look, beam: int = 1, threshold: float = 0.0, words: int | None = None
    ) -> list[Region]:
        """The detected regions with captions, highest score first; or the given boxes with
        captions, in their order."""
        settings, rows = self.runtime.info.prediction, look.rows
        if look.given:  # raw scores: ranking and calibration are fitted for detected regions
            captions = decode_captions(self.runtime, look.detections.state, beam)
            scores = weigh_captions(look.scores, captions, settings)
            said = self._say(look, rows, captions, words, beam)
            return self._named(
                look, rows, to_regions(look.boxes_xyxy, scores, said, self.runtime.words)
            )
        if settings.ranking is None:  # then captions can only lower a score
            rows = rows[calibrated(look.scores, settings.calibration) >= threshold]
        captions = decode_captions(self.runtime, look.detections.states(rows), beam)
        evidence = evidence_of(look.detections, rows, captions, look.frame, settings)
        kept, scores = rank(evidence, settings, self.runtime.words)
        kept, scores = kept[scores >= threshold], scores[scores >= threshold]
        said = self._say(look, rows[kept], [captions[row] for row in kept.tolist()], words, beam)
        regions = to_regions(evidence.boxes_xyxy[kept], scores, said, self.runtime.words)
        regions = self._named(look, rows[kept], regions)
        again = without_repeats(evidence.boxes_xyxy[kept], [region.caption for region in regions])
        return [regions[row] for row in again.tolist()]

    def _say(
        self, look: Look, rows: Rows, captions: Sequence[Caption], words: int | None, beam: int
    ) -> Said:
        regions = look.detections.to_caption(rows, look.frame)
        return say(self.runtime, regions, captions, words, beam)

    def _named(self, look: Look, rows: Rows, regions: list[Region]) -> list[Region]:
        """The regions of these detections with what they are called, if the model has names."""
        if self.runtime.names is None or not regions:
            return regions
        probabilities = self._name_probabilities(look, rows, self.runtime.names)
        names = naming.to_say(probabilities, self.runtime.names)
        return [
            replace(region, name=name.name, name_confidence=name.probability)
            for region, name in zip(regions, names, strict=True)
        ]

    def _name_probabilities(self, look: Look, rows: Rows, table: NameTable) -> Scores:
        """(R, N) of the detections `rows` (R,)."""
        seen = look.detections
        codes = self._with_appearance(look, seen.codes[rows], seen.boxes_xyxy[rows])
        return naming.name_probabilities(codes, table)

    @property
    def names(self) -> tuple[str, ...]:
        """What the model can call things (`name`); empty if it has no names."""
        return () if self.runtime.names is None else self.runtime.names.names

    def name(
        self,
        photo: PhotoSource,
        *,
        boxes: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        top: int = 5,
    ) -> Naming:
        """What is in boxes of a photo: the `top` likeliest names of each, most likely first.

        `boxes` (B, 4) as in a call of the model; default: the whole photo. `names`: choose among
        these of `Model.names` only; their probabilities then add up to 1.
        """
        check_range(1, top=top)
        if self.runtime.names is None:
            raise ModelError(
                f"the model {self.runtime.info.name!r} has no names",
                hint="regiontalk fit MODEL DATA --only names",
            )
        table = self.runtime.names if names is None else naming.only(self.runtime.names, names)
        look = self.look(photo, boxes=[[0, 0, 1, 1]] if boxes is None else boxes)
        if not len(look.rows):
            return Naming(
                _path(photo), *look.frame.photo_size, self.runtime.info.name, (), photo=look.photo
            )
        best = naming.likeliest(self._name_probabilities(look, look.rows, table), table, top)
        rows = zip(look.boxes_xyxy.tolist(), best, strict=True)
        regions = tuple(NamedRegion((x0, y0, x1, y1), row) for (x0, y0, x1, y1), row in rows)
        return Naming(
            _path(photo), *look.frame.photo_size, self.runtime.info.name, regions, photo=look.photo
        )

    def codes(self, look: Look, surroundings: bool = False) -> Codes:
        """The input of the heads: the whole photo and its `BEST_REGIONS` best regions, or all given
        boxes."""
        boxes_xyxy, scores, seen = self._with_whole(
            look, len(look.rows) if look.given else BEST_REGIONS
        )
        around = None
        if surroundings:
            size, enlarged = look.frame.size, geometry.enlarge(seen.boxes_xyxy, SURROUNDINGS)
            wider = geometry.clip(enlarged, *size).astype(np.float32)
            codes = self.runtime.recognize(look.proposed.features, size, wider).codes
            around = self._with_appearance(look, codes, wider)
        return Codes(
            boxes_xyxy, scores, self._with_appearance(look, seen.codes, seen.boxes_xyxy), around
        )

    def candidates(self, look: Look, count: int = finder.REGIONS) -> Candidates:
        """The whole photo and its `count` best regions, or the given boxes: the candidates for
        words and phrases."""
        boxes_xyxy, scores, seen = self._with_whole(look, count)
        vectors = None
        if HEAD in self.runtime.heads:
            vectors = region_vectors(
                self.runtime, self._with_appearance(look, seen.codes, seen.boxes_xyxy)
            )
        return Candidates(boxes_xyxy, scores, seen.logits, seen.state, vectors)

    def _with_whole(self, look: Look, count: int) -> tuple[NDArray[np.float64], Scores, Recognized]:
        """The whole photo and the first `count` regions: boxes in the photo's pixels, scores, and
        what the network recognised in them, with boxes in input pixels."""
        rows, frame, seen = look.rows[:count], look.frame, look.detections
        whole = self.runtime.recognize(look.proposed.features, frame.size, frame.whole_xyxy)
        recognized = Recognized(
            np.concatenate([frame.whole_xyxy, seen.boxes_xyxy[rows]]),
            np.concatenate([whole.logits, seen.logits[rows]]),
            np.concatenate([whole.codes, seen.codes[rows]]),
            tuple(
                np.concatenate(parts) for parts in zip(whole.state, seen.states(rows), strict=True)
            ),
        )
        boxes_xyxy = np.concatenate([[[0.0, 0.0, *frame.photo_size]], look.boxes_xyxy[:count]])
        return boxes_xyxy, np.concatenate([sigmoid(whole.logits), look.scores[:count]]), recognized

    def _with_appearance(self, look: Look, codes: Floats, boxes_xyxy: Floats) -> Floats:
        """Codes (B, D) of input boxes (B, 4) as the heads read them: the recognition code, then the
        appearance."""
        return np.concatenate([codes, self.runtime.appear(look.proposed.deep, boxes_xyxy)], axis=1)

    @overload
    def describe(self, photo: PhotoSource, **options: Any) -> Description: ...

    @overload
    def describe(self, photo: Photos, **options: Any) -> Iterator[Description]: ...

    def describe(  # type: ignore[misc]  # the overloads only tell one photo from several
        self,
        photo: PhotoSource | Photos,
        *,
        beam: int | None = None,
        alternatives: int = 0,
        sample: bool = False,
        temperature: float = Wanted.temperature,
        top_p: float = Wanted.top_p,
        seed: int = 0,
        size: int | None = None,
    ) -> Description | Iterator[Description]:
        """One sentence for the whole photo (K&FF section 3.2), and the `alternatives` next best
        ones.

        `beam`: beam width (default: the model's); 1 is greedy. With `sample`, words are sampled
        instead: a lower `temperature` is safer, and only the likeliest words that together have the
        probability `top_p` are used. Several photos give an iterator.
        """
        head, wanted = (
            SentenceHead(self.runtime),
            Wanted(beam, alternatives, sample, temperature, top_p, seed),
        )

        def describe(source: PhotoSource) -> Description:
            look = self.look(source, size=size)
            codes = self.codes(look)
            best, *others = head.sentences(codes.codes, codes.boxes_xyxy, wanted)
            place = (_path(source), *look.frame.photo_size, self.runtime.info.name)
            return Description(*place, best.sentence, best.logprob, tuple(others), photo=look.photo)

        return _for_each(describe, photo)

    @overload
    def alt_text(self, photo: PhotoSource, **options: Any) -> AltText: ...

    @overload
    def alt_text(self, photo: Photos, **options: Any) -> Iterator[AltText]: ...

    def alt_text(  # type: ignore[misc]  # as above
        self,
        photo: PhotoSource | Photos,
        *,
        threshold: float = Shown.threshold,
        top: int | None = Shown.top,
        size: int | None = None,
    ) -> AltText | Iterator[AltText]:
        """A text for people who cannot see the photo: the sentence if the model is sure of it, else
        the regions that it is sure of.

        `threshold` and `top` choose the regions that are used and returned. Several photos give an
        iterator.
        """
        head = SentenceHead(self.runtime) if SENTENCE in self.runtime.info.heads else None

        def speak(source: PhotoSource) -> AltText:
            look = self.look(source, size=size)
            regions = tuple(self.regions(look, threshold=threshold)[:top])
            sentence = None
            if head is not None:
                codes = self.codes(look)
                sentence = head.sentences(codes.codes, codes.boxes_xyxy, Wanted())[0]
            place = (_path(source), *look.frame.photo_size, self.runtime.info.name)
            return AltText(*place, alt_text(sentence, regions), regions, photo=look.photo)

        return _for_each(speak, photo)

    @overload
    def align(
        self, photo: PhotoSource, sentence: str, *, beta: float | None = ...
    ) -> Alignment: ...

    @overload
    def align(
        self, photo: Photos, sentence: str | Sequence[str], *, beta: float | None = ...
    ) -> Iterator[Alignment]: ...

    def align(
        self,
        photo: PhotoSource | Photos,
        sentence: str | Sequence[str],
        *,
        beta: float | None = None,
    ) -> Alignment | Iterator[Alignment]:
        """Which words of a sentence belong to which region (K&FF 3.1.4). `beta`: how strongly
        neighbouring words stay together (default: as fitted for the model).

        Several photos give an iterator. They share one sentence, or each has its own.
        """
        head = AlignmentHead(self.runtime)
        check_range(0, beta=beta)

        def align(source: PhotoSource, sentence: str) -> Alignment:
            read = head.read(sentence)
            look = self.look(source)
            segments = head.segments(read, self.candidates(look, BEST_REGIONS), beta)
            return Alignment(_path(source), sentence, segments, read.unknown, photo=look.photo)

        if isinstance(sentence, str):
            return _for_each(lambda source: align(source, sentence), photo)
        if not _are_several(photo):
            raise UsageError(
                "a list of sentences needs a list of photos", hint="call align for each sentence"
            )
        return itertools.starmap(align, zip(photo, sentence, strict=True))

    @overload
    def find(self, photo: PhotoSource, phrase: str, **options: Any) -> Finding: ...

    @overload
    def find(
        self, photo: PhotoSource, phrase: Sequence[str], **options: Any
    ) -> tuple[Finding, ...]: ...

    @overload
    def find(self, photo: Photos, phrase: str, **options: Any) -> Iterator[Finding]: ...

    @overload
    def find(
        self, photo: Photos, phrase: Sequence[str], **options: Any
    ) -> Iterator[tuple[Finding, ...]]: ...

    def find(  # type: ignore[misc]  # as above
        self,
        photo: PhotoSource | Photos,
        phrase: str | Sequence[str],
        *,
        threshold: float | None = None,
        top: int | None = None,
        size: int | None = None,
    ) -> Finding | tuple[Finding, ...] | Iterator[Finding] | Iterator[tuple[Finding, ...]]:
        """The regions that show what a phrase says, best first; none if the photo is not likely to
        show it.

        Several phrases give a tuple with a finding for each; several photos give an iterator.
        `threshold`: leave out regions that are less likely (default: the model's cut-off; with 0,
        the best matches are always returned). `top`: at most this many regions per photo.
        """
        check_range(0, 1, threshold=threshold)
        check_range(1, top=top)
        phrases = [
            finder.read_phrase(self.runtime, one)
            for one in ([phrase] if isinstance(phrase, str) else phrase)
        ]
        config = self.runtime.info.prediction.find or FindConfig()
        least = config.likely if threshold is None else threshold

        def find(source: PhotoSource) -> tuple[Finding, ...]:
            look = self.look(source, size=size)
            seen = self.candidates(look)
            place = (_path(source), *look.frame.photo_size, self.runtime.info.name)
            found = []
            for one, evidence in zip(
                phrases, finder.gather(self.runtime, phrases, seen), strict=True
            ):
                likely = evidence.probabilities(config)
                rows, closest = (
                    finder.choose(likely, seen.boxes_xyxy, least, top),
                    float(likely.max()),
                )
                to_caption = seen.to_caption(rows, look.frame)
                said = say(
                    self.runtime, to_caption, decode_captions(self.runtime, to_caption.state)
                )
                regions = to_regions(seen.boxes_xyxy[rows], likely[rows], said, self.runtime.words)
                about = (closest >= config.likely, tuple(regions), closest, one.unknown)
                found.append(Finding(*place, one.text, *about, photo=look.photo))
            return tuple(found)

        ask: Callable[[PhotoSource], Any] = (
            (lambda source: find(source)[0]) if isinstance(phrase, str) else find
        )
        return _for_each(ask, photo)  # type: ignore[return-value]  # one of them, as the overloads say


def _are_several(photo: PhotoSource | Photos) -> TypeGuard[Photos]:
    """An open file is an iterator too, over its lines: it is one photo."""
    return isinstance(photo, list | tuple | Iterator) and not hasattr(photo, "read")


def _for_each(
    ask: Callable[[PhotoSource], Answer], photo: PhotoSource | Photos
) -> Answer | Iterator[Answer]:
    """The result for a photo; for several photos an iterator, which computes each result when it is
    requested."""
    return map(ask, photo) if _are_several(photo) else ask(cast(PhotoSource, photo))


def _path(source: PhotoSource) -> str:
    """The given path, or the name of an open file; empty for pixels and bytes."""
    name = source if isinstance(source, str | Path) else getattr(source, "name", "")
    return str(name) if isinstance(name, str | Path) else ""
