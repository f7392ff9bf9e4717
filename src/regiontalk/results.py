"""The results of a model and of a search, as frozen dataclasses; their `to_dict()` is the JSON
schema."""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from regiontalk.errors import MissingExtra, RegionTalkError
from regiontalk.images.moments import moment_of

if TYPE_CHECKING:
    from PIL import Image

    from regiontalk.images.photo import Photo

SCHEMA = "regiontalk/1"
BoxXYXY = tuple[float, float, float, float]

SHOWN_DIGITS = 2
"""Digits of a score or confidence that people see: what reads 0.55 has reached a cut-off of
0.55."""
MIN_SURE_WORD_PROB = 0.4
"""The least probability of a sure sentence's words, as a geometric mean. On 250 dev photos of
Flickr8k, people's sentences have 66 % of the content words of sentences above it, and 52 % of those
below."""
NOT_SURE = "not sure"
"""Stands beside captions and sentences that are probably wrong, wherever people see them."""


def reaches(value: float | None, cut_off: float) -> bool:
    """Whether a score or confidence is at least `cut_off`; a model that has none cannot fail."""
    return value is None or max(value, round(value, SHOWN_DIGITS)) >= cut_off


def path_of(source: Any) -> str:
    """What stands as `path` in a result: the given path, or the name of an open file; empty for
    pixels and bytes."""
    name = source if isinstance(source, str | Path) else getattr(source, "name", "")
    return str(name) if isinstance(name, str | Path) else ""


def _rounded(box_xyxy: BoxXYXY) -> list[float]:
    """A box as JSON has it."""
    return [round(side, 2) for side in box_xyxy]


@dataclass(frozen=True)
class Name:
    """What something may be called, and how likely that is right."""

    name: str
    probability: float

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "probability": round(self.probability, 4)}


@dataclass(frozen=True)
class Region:
    """One region of a photo: a box in pixels of the upright original, its score and caption."""

    xyxy: BoxXYXY
    """Left, top, right, bottom."""
    score: float
    """How likely its place is right; of given boxes, the network's raw score."""
    caption: str
    logprob: float | None = None
    """The log-probability of the caption's words; None if the caption is a name."""
    confidence: float | None = None
    """How likely the caption names the region correctly; None if the model has no fitted
    confidences."""
    name: str | None = None
    """What the thing is called, as finely as the model is sure; None if the model has no names."""
    name_confidence: float | None = None
    """How likely the name is right."""
    taught: bool = field(default=False, kw_only=True)
    """Whether caption and name are a word that was taught (`Model.teach`)."""

    def to_dict(self, number: int) -> dict[str, Any]:
        out: dict[str, Any] = {
            "id": number,
            "xyxy": _rounded(self.xyxy),
            "score": round(self.score, 6),
            "caption": self.caption,
        }
        if self.logprob is not None:
            out["logprob"] = round(self.logprob, 4)
        if self.confidence is not None:
            out["confidence"] = round(self.confidence, 4)
        if self.name is not None and self.name_confidence is not None:
            out["name"] = self.name
            out["name_confidence"] = round(self.name_confidence, 4)
        if self.taught:
            out["taught"] = True
        return out


@dataclass(frozen=True)
class Shown:
    """Which regions of a photo people see: at most `top` with at least the score `threshold` and
    this `confidence`; and which of them the model is sure of."""

    threshold: float = 0.3
    top: int | None = 12
    confidence: float = 0.0
    sure_score: float = 0.3
    """The score from which the model is sure of a place."""
    sure_confidence: float = 0.0
    """The confidence from which it is sure of a caption."""

    def choose(self, regions: Sequence[Region]) -> list[Region]:
        """The regions that reach the limits."""
        reaching = [
            region
            for region in regions
            if reaches(region.score, self.threshold) and reaches(region.confidence, self.confidence)
        ]
        return reaching[: self.top]

    def at_first(self, regions: Sequence[Region]) -> list[Region]:
        """The regions that are shown by default; if none is likely enough, the likeliest one."""
        by_likelihood = sorted(
            regions,
            key=lambda region: (
                -region.score * (1 if region.confidence is None else region.confidence)
            ),
        )
        return self.choose(regions) or by_likelihood[:1]

    def is_sure(self, region: Region) -> bool:
        """Whether place and caption are likely right; if not, people read "not sure" beside it."""
        return reaches(region.score, self.sure_score) and reaches(
            region.confidence, self.sure_confidence
        )


def hedged(text: str, sure: bool) -> str:
    """The text as people read it."""
    return text if sure else f"{text} ({NOT_SURE})"


def _figures(region: Region) -> str:
    words = "" if region.confidence is None else f" {region.confidence:.2f}"
    return f"{words} (place {region.score:.2f})"


@dataclass(frozen=True)
class Picture(ABC):
    """A result for a photo. Notebooks display it as a picture, or as text if the photo cannot be
    opened."""

    path: str
    """The path that was given; empty if none was."""
    photo: Photo | None = field(default=None, repr=False, compare=False, kw_only=True)
    """Opens the photo again, to draw on it."""

    @property
    def time(self) -> float | None:
        """Seconds from the beginning of the video that it is a frame of; None for a photo."""
        moment = moment_of(self.path)
        return None if moment is None else moment.time

    def _place(self) -> dict[str, Any]:
        """The path; of a frame also its video and time."""
        moment = moment_of(self.path)
        return {"path": self.path, **({} if moment is None else moment._asdict())}

    @abstractmethod
    def draw(self) -> Image.Image: ...

    @abstractmethod
    def _rows(self) -> list[tuple[str, str]]:
        """The texts, each with its score or probability."""

    def _repr_png_(self) -> bytes | None:
        from regiontalk.show import notebook

        try:
            return notebook.encode(self.draw(), "PNG")
        except RegionTalkError:
            return None

    def _repr_html_(self) -> str | None:
        from regiontalk.show import notebook

        try:
            return notebook.to_html(self.draw(), self._rows())
        except RegionTalkError:
            return None

    def _open(self) -> Image.Image:
        from regiontalk.images.photo import open_photo

        return self.photo.open() if self.photo is not None else open_photo(self.path)

    def _draw_regions(
        self, regions: Sequence[Region], labels: Sequence[str], sure: Sequence[bool] | None = None
    ) -> Image.Image:
        from regiontalk.show import drawing

        boxes_xyxy = [region.xyxy for region in regions]
        return drawing.draw_regions(self._open(), boxes_xyxy, labels, sure)

    def _draw_sentence(self, sentence: str, sure: bool = True) -> Image.Image:
        from regiontalk.show import drawing

        return drawing.draw_sentence(self._open(), hedged(sentence, sure), sure)


@dataclass(frozen=True)
class Answer(Picture):
    """A model's result for a photo."""

    width: int
    height: int
    model: str
    """The model's name."""

    def to_dict(self) -> dict[str, Any]:
        about = {"width": self.width, "height": self.height, "model": self.model}
        return {"schema": SCHEMA, **self._place(), **about, **self._said()}

    @abstractmethod
    def _said(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class ImageRegions(Answer):
    """The regions of one photo, highest score first."""

    regions: tuple[Region, ...]
    shown: Shown = field(default=Shown(), repr=False, compare=False)
    """The rule for what is likely."""

    def __len__(self) -> int:
        return len(self.regions)

    def __iter__(self) -> Iterator[Region]:
        return iter(self.regions)

    def __bool__(self) -> bool:
        """A result without regions is still a result."""
        return True

    @property
    def likely(self) -> tuple[Region, ...]:
        """The regions that tables, pictures and pages show by default; if none is likely enough,
        the likeliest one."""
        return tuple(self.shown.at_first(self.regions))

    def is_sure(self, region: Region) -> bool:
        """Whether a region is likely right."""
        return self.shown.is_sure(region)

    def _said(self) -> dict[str, Any]:
        likely = set(self.likely)
        return {
            "regions": [
                {**region.to_dict(number), "shown": region in likely}
                for number, region in enumerate(self.regions)
            ]
        }

    def draw(
        self,
        *,
        top: int | None = None,
        threshold: float | None = None,
        confidence: float | None = None,
        scores: bool = False,
    ) -> Image.Image:
        """The photo with its regions and captions drawn on it: the `top` best (default 12) with at
        least the score `threshold` (default 0.3) and this `confidence` (default: the model's). The
        defaults are those of the call if it had these options. If no region is left, the likeliest
        one is drawn, unless `threshold` or `confidence` is given. `scores`: also draw the scores.
        """
        shown = replace(
            self.shown,
            threshold=self.shown.threshold if threshold is None else threshold,
            top=top or self.shown.top,
            confidence=self.shown.confidence if confidence is None else confidence,
        )
        is_asked = threshold is not None or confidence is not None
        chosen = shown.choose(self.regions) if is_asked else shown.at_first(self.regions)
        sure = [self.is_sure(region) for region in chosen]
        labels = [
            hedged(region.caption, is_sure) + (_figures(region) if scores else "")
            for region, is_sure in zip(chosen, sure, strict=True)
        ]
        return self._draw_regions(chosen, labels, sure)

    def _rows(self) -> list[tuple[str, str]]:
        return [
            (hedged(region.caption, self.is_sure(region)), f"{region.score:.2f}")
            for region in self.likely
        ]

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row for each region."""
        pandas = import_package("pandas", "a DataFrame")
        sides = ("x0", "y0", "x1", "y1")
        rows = []
        for plain in self._said()["regions"]:
            box = dict(zip(sides, plain.pop("xyxy"), strict=True))
            rows.append({"path": self.path, "id": plain.pop("id"), **box, **plain})
        return pandas.DataFrame(
            rows, columns=None if rows else ["path", "id", *sides, "score", "caption"]
        )

    def to_fiftyone(self) -> Any:
        """`fiftyone.Detections`: captions as labels, scores as `confidence`, boxes as FiftyOne has
        them: left, top, width and height as fractions of the photo. `shown` says which ones
        pictures show by default."""
        fiftyone = import_package("fiftyone", "fiftyone.Detections")
        likely = set(self.likely)
        detections = []
        for region in self.regions:
            x0, y0, x1, y1 = region.xyxy
            left_top = [x0 / self.width, y0 / self.height]
            size = [(x1 - x0) / self.width, (y1 - y0) / self.height]
            detections.append(
                fiftyone.Detection(
                    label=region.caption,
                    bounding_box=[*left_top, *size],
                    confidence=region.score,
                    shown=region in likely,
                )
            )
        return fiftyone.Detections(detections=detections)

    def to_supervision(self) -> Any:
        """`supervision.Detections`: boxes, scores as `confidence`, captions as
        `data["class_name"]`, which labels show.

        Every region has another `class_id`, so that each gets another colour. `data["shown"]` says
        which ones pictures show by default.
        """
        supervision = import_package("supervision", "supervision.Detections")
        import numpy as np

        likely = set(self.likely)

        return supervision.Detections(
            xyxy=np.array([region.xyxy for region in self.regions], dtype=np.float32).reshape(
                -1, 4
            ),
            confidence=np.array([region.score for region in self.regions], dtype=np.float32),
            class_id=np.arange(len(self.regions)),
            data={
                "class_name": np.array([region.caption for region in self.regions], dtype=object),
                "shown": np.array([region in likely for region in self.regions], dtype=bool),
            },
        )


@dataclass(frozen=True)
class Confusion:
    """An example of a taught word that looks more like another one."""

    photo: str
    xyxy: BoxXYXY
    word: str
    """The word that it looks more like."""

    def to_dict(self) -> dict[str, Any]:
        box = _rounded(self.xyxy)
        return {"photo": self.photo, "xyxy": box, "word": self.word}


@dataclass(frozen=True)
class WordReport:
    """How well a taught word is known."""

    word: str
    examples: int
    others: int
    """Examples of what it does not mean."""
    recognised: float | None
    """The share of its examples that the others recognise; None for a single example."""
    confusions: tuple[Confusion, ...]
    weak: bool
    """Whether it needs more examples."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "word": self.word,
            "examples": self.examples,
            "others": self.others,
            "recognised": None if self.recognised is None else round(self.recognised, 4),
            "confusions": [confusion.to_dict() for confusion in self.confusions],
            "weak": self.weak,
        }


@dataclass(frozen=True)
class Lesson:
    """What a model learned of a word."""

    word: str
    added: int
    """Examples of this lesson."""
    report: WordReport
    """How well it knows the word now."""
    skipped: tuple[str, ...] = ()
    """One line for each photo that could not be used."""

    def to_dict(self) -> dict[str, Any]:
        return {"added": self.added, **self.report.to_dict(), "skipped": list(self.skipped)}


@dataclass(frozen=True)
class UnsureRegion:
    """A region of an indexed photo of which the model is unsure whether it shows a taught word."""

    id: str
    """The photo's id, as in `Hit.id`."""
    path: str
    size: tuple[int, int]
    """Width and height of the photo."""
    xyxy: BoxXYXY
    word: str
    probability: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "path": self.path,
            "width": self.size[0],
            "height": self.size[1],
            "xyxy": _rounded(self.xyxy),
            "word": self.word,
            "probability": round(self.probability, 4),
        }


@dataclass(frozen=True)
class NamedRegion:
    """A box of a photo and what it may show, most likely first."""

    xyxy: BoxXYXY
    names: tuple[Name, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "xyxy": _rounded(self.xyxy),
            "names": [name.to_dict() for name in self.names],
        }


@dataclass(frozen=True)
class Naming(Answer):
    """The names of boxes of a photo, in the order of the boxes."""

    regions: tuple[NamedRegion, ...]

    def _said(self) -> dict[str, Any]:
        return {"regions": [region.to_dict() for region in self.regions]}

    def draw(self) -> Image.Image:
        """The photo with the boxes and their likeliest names."""
        from regiontalk.show import drawing

        labels = [region.names[0].name for region in self.regions]
        return drawing.draw_regions(self._open(), [region.xyxy for region in self.regions], labels)

    def _rows(self) -> list[tuple[str, str]]:
        best = [region.names[0] for region in self.regions]
        return [(name.name, f"{name.probability:.2f}") for name in best]


@dataclass(frozen=True)
class Sentence:
    """A sentence and the logarithm of its probability, END included."""

    sentence: str
    logprob: float

    @property
    def word_probability(self) -> float:
        """The geometric mean of its words' probabilities, END included."""
        return math.exp(self.logprob / (len(self.sentence.split()) + 1))

    @property
    def sure(self) -> bool:
        """Whether the model is sure of its words."""
        return reaches(self.word_probability, MIN_SURE_WORD_PROB)

    def to_dict(self) -> dict[str, Any]:
        return {
            "sentence": self.sentence,
            "logprob": round(self.logprob, 4),
            "sure": self.sure,
        }


@dataclass(frozen=True)
class Description(Answer):
    """One sentence for a whole photo, and the next likeliest ones if requested."""

    sentence: str
    logprob: float
    alternatives: tuple[Sentence, ...] = ()

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """The sentence and its alternatives, likeliest first."""
        return Sentence(self.sentence, self.logprob), *self.alternatives

    @property
    def sure(self) -> bool:
        """Whether the model is sure of the sentence."""
        return self.sentences[0].sure

    def _said(self) -> dict[str, Any]:
        best, *others = [sentence.to_dict() for sentence in self.sentences]
        return {**best, "alternatives": others}

    def draw(self) -> Image.Image:
        """The photo with the sentence below it."""
        return self._draw_sentence(self.sentence, self.sure)

    def _rows(self) -> list[tuple[str, str]]:
        return [
            (hedged(sentence.sentence, sentence.sure), f"{sentence.logprob:.2f}")
            for sentence in self.sentences
        ]


@dataclass(frozen=True)
class Finding(Answer):
    """Where in a photo a phrase was found. The score of a region is the probability that it shows
    what the phrase says. Its caption is the model's caption of the region."""

    phrase: str
    here: bool
    """Whether the photo is likely to show it at all."""
    regions: tuple[Region, ...]
    """The regions that are likely to show it, highest score first."""
    closest: float
    """The highest score of all regions, including those below the threshold."""
    unknown: tuple[str, ...] = ()
    """Words that the model does not know; they were ignored."""
    corrected: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Typing mistakes, and the words that were looked for instead."""
    synonyms: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Words that the model does not know, or hardly, and those that were looked for instead."""
    notes: tuple[str, ...] = ()
    """What people should know about how the words were read, in whole sentences."""
    shown: Shown = field(default=Shown(), repr=False, compare=False, kw_only=True)

    def is_sure(self, region: Region) -> bool:
        """Whether the model is sure of the caption of a region."""
        return reaches(region.confidence, self.shown.sure_confidence)

    def _said(self) -> dict[str, Any]:
        return {
            "phrase": self.phrase,
            "here": self.here,
            "regions": [region.to_dict(number) for number, region in enumerate(self.regions)],
            "closest": round(self.closest, 6),
            **_about_words(self),
        }

    def draw(self) -> Image.Image:
        """The photo with the regions that were found, and the phrase."""
        return self._draw_regions(
            self.regions, [f"{self.phrase} {region.score:.2f}" for region in self.regions]
        )

    def _rows(self) -> list[tuple[str, str]]:
        rows = [
            (hedged(region.caption, self.is_sure(region)), f"{region.score:.2f}")
            for region in self.regions
        ]
        return rows or [("not found", "")]


def likeliest_first(findings: Sequence[Finding]) -> tuple[float, str]:
    """A key that sorts photos by what was found in them: the likeliest first."""
    return -max(finding.closest for finding in findings), findings[0].path


@dataclass(frozen=True)
class Tag:
    """A keyword for a photo, and what it is a kind of, from the widest word: ("animal", "dog") of
    "schipperke"."""

    word: str
    kinds: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The keyword with its kinds, as photo managers write hierarchical keywords:
        `animal|dog|schipperke`."""
        return "|".join((*self.kinds, self.word))


def keywords_of(tags: Iterable[Tag]) -> list[str]:
    """Every word of the tags once, wider words first: what programs without a hierarchy list."""
    return list(dict.fromkeys(chain.from_iterable((*tag.kinds, tag.word) for tag in tags)))


@dataclass(frozen=True)
class Tags(Answer):
    """Keywords for a photo, of what the model is sure of."""

    tags: tuple[Tag, ...]

    @property
    def keywords(self) -> list[str]:
        """All words, once each, wider words first."""
        return keywords_of(self.tags)

    def _said(self) -> dict[str, Any]:
        return {"keywords": self.keywords, "hierarchy": [tag.path for tag in self.tags]}

    def draw(self) -> Image.Image:
        """The photo with the keywords below it."""
        return self._draw_sentence(", ".join(self.keywords))

    def _rows(self) -> list[tuple[str, str]]:
        return [(tag.word, " > ".join(tag.kinds)) for tag in self.tags]


@dataclass(frozen=True)
class AltText(Answer):
    """A text for screen readers, and what else a sidecar of the photo holds."""

    text: str
    regions: tuple[Region, ...] = ()
    """The regions that the model is sure of, or that reach the limits of the call."""
    sure: bool = True
    """Whether the model is sure of the text; if not, the text begins with "perhaps"."""
    tags: tuple[Tag, ...] = ()

    def _said(self) -> dict[str, Any]:
        return {"alt": self.text, "sure": self.sure}

    def draw(self) -> Image.Image:
        """The photo with the text below it."""
        return self._draw_sentence(self.text)

    def _rows(self) -> list[tuple[str, str]]:
        return [(self.text, "")]


def import_package(package: str, purpose: str) -> Any:
    """A package that is no extra; raises `MissingExtra` if it is not installed."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtra(
            f"{purpose} needs {package}, which is not installed", package=package
        ) from error


@dataclass(frozen=True)
class Segment:
    """Consecutive words, `words` = [start, end), and the region that they belong to."""

    text: str
    words: tuple[int, int]
    xyxy: BoxXYXY
    score: float
    word_scores: tuple[float, ...] = ()
    """How well each word fits the region; 0 for words that the model does not know."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "words": list(self.words),
            "xyxy": _rounded(self.xyxy),
            "score": round(self.score, 6),
            "word_scores": [round(value, 6) for value in self.word_scores],
        }


@dataclass(frozen=True)
class Alignment(Picture):
    """A sentence aligned with the regions of a photo (K&FF section 3.1.4)."""

    sentence: str
    segments: tuple[Segment, ...]
    unknown: tuple[str, ...] = ()
    """Words that the model does not know; they are in the segments of their neighbours."""

    def to_dict(self) -> dict[str, Any]:
        return {
            **self._place(),
            "sentence": self.sentence,
            "segments": [segment.to_dict() for segment in self.segments],
            "unknown": list(self.unknown),
        }

    def draw(self) -> Image.Image:
        """The photo with coloured boxes, and below it the words on the same colours, weak ones
        darker (fig. 5)."""
        from regiontalk.show import drawing

        return drawing.draw_alignment(
            self._open(),
            [segment.xyxy for segment in self.segments],
            [
                list(zip(segment.text.split(), segment.word_scores, strict=True))
                for segment in self.segments
            ],
        )

    def _rows(self) -> list[tuple[str, str]]:
        return [(segment.text, f"{segment.score:.2f}") for segment in self.segments]


@dataclass(frozen=True)
class IndexedPhoto(ImageRegions):
    """A photo of an index."""

    id: str = ""
    """Issued by the index; it cannot be guessed."""
    taken: str = ""
    """When, as "2021-05-30T18:05:12"."""

    def to_dict(self) -> dict[str, Any]:
        return {"id": self.id, "taken": self.taken, **super().to_dict()}


@dataclass(frozen=True)
class CaptionCount:
    """A caption, and how many photos of an index show it."""

    caption: str
    photos: int

    def to_dict(self) -> dict[str, Any]:
        return {"caption": self.caption, "photos": self.photos}


@dataclass(frozen=True)
class WordMatch:
    """A word of a query, its best region as a number in `Hit.regions`, and how well it fits that
    region. Words that the model does not know have no region."""

    word: str
    score: float
    region: int | None

    def to_dict(self) -> dict[str, Any]:
        return {"word": self.word, "score": round(self.score, 6), "region": self.region}


@dataclass(frozen=True)
class Hit(Picture):
    """One photo found for a query, and the best region of each word of the query."""

    score: float
    """How likely the photo matches the query; a cosine similarity if the query is a region."""
    words: tuple[WordMatch, ...]
    regions: tuple[Region, ...]
    id: str = ""
    """The argument of `Index.photo`."""
    width: int = 0
    height: int = 0
    likely: bool = True
    """Whether the photo is likely to match the query; photos below this line come last."""
    shown: Shown = field(default=Shown(), repr=False, compare=False)

    def is_sure(self, region: Region) -> bool:
        """Whether a region is likely right. The whole photo has no caption to be unsure of."""
        return not region.caption or self.shown.is_sure(region)

    def to_dict(self) -> dict[str, Any]:
        return {
            **self._place(),
            "score": round(self.score, 6),
            "likely": self.likely,
            "words": [word.to_dict() for word in self.words],
            "regions": [
                {"xyxy": _rounded(region.xyxy), "caption": region.caption}
                for region in self.regions
            ],
        }

    def labels(self) -> list[str]:
        """The words that match each region, or its caption if there are none."""
        labels = []
        for row, region in enumerate(self.regions):
            matched = " ".join(match.word for match in self.words if match.region == row)
            labels.append(matched or hedged(region.caption, self.is_sure(region)))
        return labels

    def draw(self) -> Image.Image:
        """The photo with the regions that match words of the query, and those words."""
        return self._draw_regions(self.regions, self.labels())

    def _rows(self) -> list[tuple[str, str]]:
        return [
            (label, hedged(region.caption, self.is_sure(region)))
            for label, region in zip(self.labels(), self.regions, strict=True)
        ]


@dataclass(frozen=True)
class Hits(Sequence[Hit]):
    """The photos found for a query: the likely ones, best first, and then the less likely ones."""

    query: str
    hits: tuple[Hit, ...]
    searched: int
    """How many photos were searched."""
    unknown: tuple[str, ...] = ()
    """Words that the model does not know; they were ignored."""
    closest: float | None = None
    """The highest score of all photos that show nothing unwanted, including those below the
    threshold."""
    corrected: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Typing mistakes, and the words that were searched for instead."""
    synonyms: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Words that the model does not know, or hardly, and those that were searched for instead."""
    notes: tuple[str, ...] = ()
    """What people should know about how the words were read, in whole sentences."""

    @overload
    def __getitem__(self, index: int) -> Hit: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...

    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]

    def __len__(self) -> int:
        return len(self.hits)

    @property
    def likely(self) -> tuple[Hit, ...]:
        """The hits that are likely to match the query."""
        return tuple(hit for hit in self.hits if hit.likely)

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "query": self.query,
            "hits": [hit.to_dict() for hit in self.hits],
            "searched": self.searched,
            **_about_words(self),
            "closest": None if self.closest is None else round(self.closest, 6),
        }


def _about_words(answer: Finding | Hits) -> dict[str, Any]:
    return {
        "unknown": list(answer.unknown),
        "corrected": dict(answer.corrected),
        "synonyms": dict(answer.synonyms),
        "notes": list(answer.notes),
    }
