"""The results of a search, as frozen dataclasses; their `to_dict()` is the JSON schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from regiontalk.types import SCHEMA, ImageRegions, Picture, Region

if TYPE_CHECKING:
    from PIL import Image


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
class WordMatch:
    """A word of a query, its best region as a number in `Hit.regions`, and how well it fits that region. Words that the
    model does not know have no region."""

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
        """For each region the words that match it, or its caption if there are none."""
        words = [" ".join(one.word for one in self.words if one.region == row) for row in range(len(self.regions))]
        return [found or region.caption for found, region in zip(words, self.regions, strict=True)]

    def draw(self) -> Image.Image:
        """The photo with the regions that match words of the query, and those words."""
        return self._draw_regions(self.regions, self.labels())

    def _rows(self) -> list[tuple[str, str]]:
        return [(label, region.caption) for label, region in zip(self.labels(), self.regions, strict=True)]


@dataclass(frozen=True)
class Hits(Sequence[Hit]):
    """The photos found for a query, best first."""

    query: str
    hits: tuple[Hit, ...]
    searched: int
    """How many photos were searched."""
    unknown: tuple[str, ...] = ()
    """Words that the model does not know; they were ignored."""
    closest: float | None = None
    """The highest score of all photos, including those below the threshold."""

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
