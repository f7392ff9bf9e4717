"""What the program finds, as frozen values whose `to_dict()` is the JSON schema."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from regiontalk.errors import MissingExtra, RegionTalkError

if TYPE_CHECKING:
    from PIL import Image

    from regiontalk.images import Photo

SCHEMA = "regiontalk/1"
BoxXYXY = tuple[float, float, float, float]


@dataclass(frozen=True)
class Region:
    """One region of a photo: a box in pixels of the upright original, and what is said of it."""

    xyxy: BoxXYXY
    score: float
    caption: str
    logprob: float | None = None
    confidence: float | None = None
    """How likely the caption names the region correctly; None where the model has no fit for it."""

    def to_dict(self, number: int) -> dict[str, Any]:
        out: dict[str, Any] = {
            "id": number,
            "xyxy": [round(value, 2) for value in self.xyxy],
            "score": round(self.score, 6),
            "caption": self.caption,
        }
        if self.logprob is not None:
            out["logprob"] = round(self.logprob, 4)
        if self.confidence is not None:
            out["confidence"] = round(self.confidence, 4)
        return out


@dataclass(frozen=True)
class Shown:
    """Which regions are shown: those of at least this score (`threshold`) and `confidence`, `top` at most."""

    threshold: float = 0.3
    top: int | None = 12
    confidence: float = 0.0

    def choose(self, regions: Sequence[Region]) -> list[Region]:
        likely = (one for one in regions if one.confidence is None or one.confidence >= self.confidence)
        return [region for region in likely if region.score >= self.threshold][: self.top]

    def at_first(self, regions: Sequence[Region]) -> list[Region]:
        """What is shown before anybody asks for more or less: where none is likely enough, the likeliest one."""
        by_likelihood = sorted(regions, key=lambda one: -one.score * (1 if one.confidence is None else one.confidence))
        return self.choose(regions) or by_likelihood[:1]


def _figures(region: Region) -> str:
    words = "" if region.confidence is None else f" {region.confidence:.2f}"
    return f"{words} (place {region.score:.2f})"


class Picture(ABC):
    """What can be drawn shows itself in notebooks; a photo that is gone, in words only."""

    @abstractmethod
    def draw(self) -> Image.Image: ...

    @abstractmethod
    def _rows(self) -> list[tuple[str, str]]:
        """What is said, and the figure that belongs to it."""

    def _repr_png_(self) -> bytes | None:
        from regiontalk import notebook

        try:
            return notebook.to_png(self.draw())
        except RegionTalkError:
            return None

    def _repr_html_(self) -> str | None:
        from regiontalk import notebook

        try:
            return notebook.to_html(self.draw(), self._rows())
        except RegionTalkError:
            return None


@dataclass(frozen=True)
class ImageRegions(Picture):
    """The regions of one photo, by falling score. `photo` opens it again, to draw on it."""

    path: str
    width: int
    height: int
    model: str
    regions: tuple[Region, ...]
    photo: Photo | None = field(default=None, repr=False, compare=False)
    shown: Shown = field(default=Shown(), repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            **_photo_dict(self),
            "regions": [region.to_dict(number) for number, region in enumerate(self.regions)],
        }

    def draw(
        self,
        *,
        top: int | None = None,
        threshold: float | None = None,
        confidence: float | None = None,
        scores: bool = False,
    ) -> Image.Image:
        """The photo with its regions and captions drawn on it: the `top` best (default 12) of those that score at
        least `threshold` (default 0.3) and have at least `confidence` (default: the model's), or as many as the model
        was asked for; where none does, the likeliest, unless one of the two is given. `scores`: with these figures.
        """
        from regiontalk import drawing

        shown = Shown(
            self.shown.threshold if threshold is None else threshold,
            top or self.shown.top,
            self.shown.confidence if confidence is None else confidence,
        )
        is_asked = threshold is not None or confidence is not None
        chosen = shown.choose(self.regions) if is_asked else shown.at_first(self.regions)
        labels = [region.caption + (_figures(region) if scores else "") for region in chosen]
        return drawing.draw_regions(_photo_of(self), [region.xyxy for region in chosen], labels)

    def _rows(self) -> list[tuple[str, str]]:
        return [(region.caption, f"{region.score:.2f}") for region in self.shown.at_first(self.regions)]

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row for each region."""
        pandas = _import("pandas", "a DataFrame")
        sides = ("x0", "y0", "x1", "y1")
        rows = []
        for number, region in enumerate(self.regions):
            plain = region.to_dict(number)
            box = dict(zip(sides, plain.pop("xyxy"), strict=True))
            rows.append({"path": self.path, "id": plain.pop("id"), **box, **plain})
        return pandas.DataFrame(rows, columns=None if rows else ["path", "id", *sides, "score", "caption"])

    def to_supervision(self) -> Any:
        """`supervision.Detections`: boxes, scores as `confidence`, captions as `data["class_name"]`, which labels show.

        Every region is a class of its own (`class_id`), and so gets a colour of its own.
        """
        supervision = _import("supervision", "supervision.Detections")
        import numpy as np

        return supervision.Detections(
            xyxy=np.array([region.xyxy for region in self.regions], dtype=np.float32).reshape(-1, 4),
            confidence=np.array([region.score for region in self.regions], dtype=np.float32),
            class_id=np.arange(len(self.regions)),
            data={"class_name": np.array([region.caption for region in self.regions], dtype=object)},
        )


@dataclass(frozen=True)
class Sentence:
    """A sentence and the logarithm of its probability, END included."""

    sentence: str
    logprob: float

    def to_dict(self) -> dict[str, Any]:
        return {"sentence": self.sentence, "logprob": round(self.logprob, 4)}


@dataclass(frozen=True)
class Description(Picture):
    """One sentence for a whole photo, and the next likeliest ones where they were asked for."""

    path: str
    width: int
    height: int
    model: str
    sentence: str
    logprob: float
    alternatives: tuple[Sentence, ...] = ()
    photo: Photo | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            **_photo_dict(self),
            **Sentence(self.sentence, self.logprob).to_dict(),
            "alternatives": [other.to_dict() for other in self.alternatives],
        }

    def draw(self) -> Image.Image:
        """The photo with the sentence below it."""
        from regiontalk import drawing

        return drawing.draw_sentence(_photo_of(self), self.sentence)

    def _rows(self) -> list[tuple[str, str]]:
        said = (Sentence(self.sentence, self.logprob), *self.alternatives)
        return [(one.sentence, f"{one.logprob:.2f}") for one in said]


@dataclass(frozen=True)
class Finding(Picture):
    """Where in a photo a phrase was found. The score of a region is the probability that it shows what the phrase says;
    its caption is the model's own."""

    path: str
    width: int
    height: int
    model: str
    phrase: str
    here: bool
    """Whether the photo is likely to show it at all."""
    regions: tuple[Region, ...]
    """Those that are likely it, by falling score."""
    closest: float
    """The best score of all, also of regions that are left out because they do not score enough."""
    unknown: tuple[str, ...] = ()
    """Words that the model does not know; nothing was looked for them."""
    photo: Photo | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            **_photo_dict(self),
            "phrase": self.phrase,
            "here": self.here,
            "regions": [region.to_dict(number) for number, region in enumerate(self.regions)],
            "closest": round(self.closest, 6),
            "unknown": list(self.unknown),
        }

    def draw(self) -> Image.Image:
        """The photo with the regions that were found, and the phrase."""
        from regiontalk import drawing

        return drawing.draw_regions(_photo_of(self), [region.xyxy for region in self.regions], self._labels())

    def _labels(self) -> list[str]:
        return [f"{self.phrase} {region.score:.2f}" for region in self.regions]

    def _rows(self) -> list[tuple[str, str]]:
        return [(region.caption, f"{region.score:.2f}") for region in self.regions] or [("not here", "")]


@dataclass(frozen=True)
class AltText(Picture):
    """What a screen reader says of a photo, and the regions that the photo has."""

    path: str
    width: int
    height: int
    model: str
    text: str
    regions: tuple[Region, ...] = ()
    photo: Photo | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        return {**_photo_dict(self), "alt": self.text}

    def draw(self) -> Image.Image:
        """The photo with the text below it."""
        from regiontalk import drawing

        return drawing.draw_sentence(_photo_of(self), self.text)

    def _rows(self) -> list[tuple[str, str]]:
        return [(self.text, "")]


def _photo_dict(found: ImageRegions | Description | AltText | Finding) -> dict[str, Any]:
    names = ("path", "width", "height", "model")
    return {"schema": SCHEMA, **{name: getattr(found, name) for name in names}}


def _import(package: str, purpose: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtra(f"{purpose} needs {package}, which is not installed", package=package) from error


def _photo_of(found: ImageRegions | Description | AltText | Finding | Alignment | Hit) -> Image.Image:
    from regiontalk import images

    return found.photo.open() if found.photo is not None else images.open_photo(found.path)


@dataclass(frozen=True)
class Segment:
    """A run of words, `words` = [start, end), and the region they belong to."""

    text: str
    words: tuple[int, int]
    xyxy: BoxXYXY
    score: float
    word_scores: tuple[float, ...] = ()
    """How well each single word fits the region; 0 where the model does not know it."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "words": list(self.words),
            "xyxy": [round(value, 2) for value in self.xyxy],
            "score": round(self.score, 6),
            "word_scores": [round(value, 6) for value in self.word_scores],
        }


@dataclass(frozen=True)
class Alignment(Picture):
    """A sentence laid over the regions of a photo (K&FF section 3.1.4)."""

    path: str
    sentence: str
    segments: tuple[Segment, ...]
    unknown: tuple[str, ...] = ()
    """Words that the model does not know; they stand in the segments of their neighbours."""
    photo: Photo | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "sentence": self.sentence,
            "segments": [segment.to_dict() for segment in self.segments],
            "unknown": list(self.unknown),
        }

    def draw(self) -> Image.Image:
        """The photo with coloured boxes, and below it the words on the same colours, weak ones darker (fig. 5)."""
        from regiontalk import drawing

        return drawing.draw_alignment(
            _photo_of(self),
            [segment.xyxy for segment in self.segments],
            [list(zip(segment.text.split(), segment.word_scores, strict=True)) for segment in self.segments],
        )

    def _rows(self) -> list[tuple[str, str]]:
        return [(segment.text, f"{segment.score:.2f}") for segment in self.segments]


@dataclass(frozen=True)
class IndexedPhoto(ImageRegions):
    """A photo as an index knows it."""

    id: str = ""
    """Issued by the index; it cannot be guessed."""
    taken: str = ""
    """When, as "2021-05-30T18:05:12"."""

    def to_dict(self) -> dict[str, Any]:
        return {"id": self.id, "taken": self.taken, **super().to_dict()}


@dataclass(frozen=True)
class WordMatch:
    """A word of a query, how well it fits the region it found, and that region's number in `Hit.regions`; no region for
    a word that the model does not know."""

    word: str
    score: float
    region: int | None

    def to_dict(self) -> dict[str, Any]:
        return {"word": self.word, "score": round(self.score, 6), "region": self.region}


@dataclass(frozen=True)
class Hit(Picture):
    """One photo found for a phrase, and the regions that the phrase's words found in it."""

    path: str
    score: float
    """How likely the photo shows what was asked for; a cosine where a region was asked for."""
    words: tuple[WordMatch, ...]
    regions: tuple[Region, ...]
    photo: Photo | None = field(default=None, repr=False, compare=False)
    id: str = ""
    """By which `Index.photo` gives the photo."""
    width: int = 0
    height: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "score": round(self.score, 6),
            "words": [word.to_dict() for word in self.words],
            "regions": [
                {"xyxy": [round(value, 2) for value in region.xyxy], "caption": region.caption}
                for region in self.regions
            ],
        }

    def labels(self) -> list[str]:
        """For each region the words that found it; its caption where there are none."""
        words = [" ".join(one.word for one in self.words if one.region == row) for row in range(len(self.regions))]
        return [found or region.caption for found, region in zip(words, self.regions, strict=True)]

    def draw(self) -> Image.Image:
        """The photo with the regions that words found, and those words."""
        from regiontalk import drawing

        return drawing.draw_regions(_photo_of(self), [region.xyxy for region in self.regions], self.labels())

    def _rows(self) -> list[tuple[str, str]]:
        return [(label, region.caption) for label, region in zip(self.labels(), self.regions, strict=True)]


@dataclass(frozen=True)
class Hits(Sequence[Hit]):
    """The photos found for a query, best first."""

    query: str
    hits: tuple[Hit, ...]
    searched: int
    """How many photos were looked through."""
    unknown: tuple[str, ...] = ()
    """Words that the model does not know; nothing was searched for them."""
    closest: float | None = None
    """The best score of all, also of photos that are left out because they do not score enough."""

    @overload
    def __getitem__(self, place: int) -> Hit: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Hit, ...]: ...

    def __getitem__(self, place: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[place]

    def __len__(self) -> int:
        return len(self.hits)

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "query": self.query,
            "hits": [hit.to_dict() for hit in self.hits],
            "searched": self.searched,
            "unknown": list(self.unknown),
            "closest": None if self.closest is None else round(self.closest, 6),
        }
