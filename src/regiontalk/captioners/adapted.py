"""`AdaptedModel`: a captioner as a `Model`.

Regions, captions and scores are the captioner's. The vectors that an index is searched by are
those of a model of this package, computed at the captioner's boxes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regiontalk import boxes as geometry
from regiontalk.captioners import BoxCaptioner, Captioner
from regiontalk.captioners.checks import asked, to_given_regions, to_regions
from regiontalk.errors import ModelError, UsageError
from regiontalk.images.photo import Photo, PhotoSource
from regiontalk.inference.calibration import Scores
from regiontalk.inference.name_list import NameList
from regiontalk.inference.regions import Look
from regiontalk.model import CaptionOptions, Model, captioned_photo
from regiontalk.results import ImageRegions, Region, path_of


@dataclass(frozen=True)
class AdaptedModel(Model):
    """A model whose regions and captions are those of a `Captioner`."""

    captioner: Captioner = field(kw_only=True)
    turn: threading.Lock = field(default_factory=threading.Lock, kw_only=True, compare=False)
    """Whoever asks the captioner holds it."""

    @property
    def model_name(self) -> str:
        return self.captioner.name

    @property
    def likely(self) -> float:
        """0: captioners give no confidences."""
        return 0.0

    @property
    def own(self) -> Model:
        """The model of this package, which makes the vectors."""
        return Model(self.runtime, self.limits, self.taught)

    def check(self, words: int | None, confidence: float | None) -> None:
        for name, value in (("words", words), ("confidence", confidence)):
            if value:
                self._refuse_option(name)

    def look(
        self,
        source: PhotoSource,
        *,
        boxes: ArrayLike | None = None,
        proposals: int | None = None,
        size: int | None = None,
        candidates: tuple[NDArray[np.float64], Scores] | None = None,
    ) -> Look:
        """The captioner's regions, recognised by the model of this package."""
        if candidates is not None:
            self._refuse_option("regions")
        photo = Photo.of(source, self.limits)
        captioned = self._ask(photo, path_of(source), boxes, proposals, size)
        look = self.own.look(photo.source, boxes=np.array([region.xyxy for region in captioned]))
        return look._replace(given=boxes is not None, captioned=captioned)

    def regions(
        self,
        look: Look,
        beam: int = 1,
        threshold: float = 0.0,
        words: int | None = None,
        names: NameList | None = None,
    ) -> list[Region]:
        assert names is None  # `_listed` refuses them
        self._check_plain(beam, words)
        assert look.captioned is not None
        return [region for region in look.captioned if look.given or region.score >= threshold]

    def _caption_one(self, source: PhotoSource, options: CaptionOptions) -> ImageRegions:
        """Asks the captioner alone; the model of this package does not look at the photo."""
        assert options.names is None  # `_listed` refuses them
        self._check_plain(options.beam, options.words)
        photo = Photo.of(source, self.limits)
        captioned = self._ask(
            photo, path_of(source), options.boxes, options.proposals, options.size
        )
        is_given = options.boxes is not None
        kept = [region for region in captioned if is_given or region.score >= options.threshold]
        return captioned_photo(self._about(source, photo, photo.size), kept, options)

    def _listed(self, _names: Sequence[str]) -> NoReturn:
        self._refuse_option("names")

    def _sentence_head(self) -> None:
        return None

    def describe(self, *_photo: Any, **_options: Any) -> NoReturn:
        self._refuse("describe whole photos")

    def align(self, *_photo: Any, **_options: Any) -> NoReturn:
        self._refuse("align sentences")

    def find(self, *_photo: Any, **_options: Any) -> NoReturn:
        self._refuse("find phrases in a photo")

    def name(self, *_photo: Any, **_options: Any) -> NoReturn:
        self._refuse("name things")

    def teach(self, *_photo: Any, **_options: Any) -> NoReturn:
        self._refuse("be taught")

    def _ask(
        self,
        photo: Photo,
        path: str,
        boxes: ArrayLike | None,
        proposals: int | None,
        size: int | None,
    ) -> tuple[Region, ...]:
        for name, value in (("proposals", proposals), ("size", size)):
            if value is not None:
                self._refuse_option(name)
        image = photo.open()
        captioner = self.captioner
        if boxes is None:
            with self.turn:
                return asked(
                    self.model_name, path, lambda: to_regions(captioner.regions(image), image.size)
                )
        if not isinstance(captioner, BoxCaptioner):
            self._refuse("caption given boxes")
        boxes_xyxy = geometry.given_boxes(boxes, image.size)
        plain = [(x0, y0, x1, y1) for x0, y0, x1, y1 in boxes_xyxy.tolist()]
        with self.turn:
            return asked(
                self.model_name,
                path,
                lambda: to_given_regions(captioner.captions(image, boxes_xyxy), plain),
            )

    def _check_plain(self, beam: int, words: int | None) -> None:
        if beam != 1:
            self._refuse_option("beam")
        if words is not None:
            self._refuse_option("words")

    def _refuse_option(self, option: str) -> NoReturn:
        raise UsageError(
            f"the model {self.model_name!r} is not of this package: it takes no {option}"
        )

    def _refuse(self, purpose: str) -> NoReturn:
        raise ModelError(
            f"the model {self.model_name!r} is not of this package: it cannot {purpose}",
            hint="without --model, the package's own model can",
        )
