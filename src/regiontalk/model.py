"""A photo in; regions with captions, a sentence, or an alignment out.

`Model.look` detects the regions of a photo; all methods start with it. What follows is in
`inference`: captions in `look`, the input of the heads in `codes`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, TypedDict, TypeGuard, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regiontalk import boxes as geometry
from regiontalk.errors import ModelError, UsageError, check_range
from regiontalk.images.limits import Limits
from regiontalk.images.photo import Photo, PhotoSource, to_input
from regiontalk.inference import find as finder
from regiontalk.inference.alignment import ALIGNMENT_HEAD, AlignmentHead
from regiontalk.inference.alt_text import choose_alt_text
from regiontalk.inference.calibration import Scores
from regiontalk.inference.captions import to_regions
from regiontalk.inference.codes import (
    BEST_REGIONS,
    whole_and_best,
    with_codes,
    with_surroundings,
    with_vectors,
)
from regiontalk.inference.colours import with_colours
from regiontalk.inference.keywords import choose_tags, listed_tags
from regiontalk.inference.look import caption, look_at
from regiontalk.inference.name_list import (
    Knowledge,
    KnownNames,
    NameList,
    read_known_names,
    say_names,
)
from regiontalk.inference.naming import likeliest, name_probabilities
from regiontalk.inference.phrases import about_words, read_phrases
from regiontalk.inference.regions import Frame, Look, RegionTable
from regiontalk.inference.sentences import SENTENCE_HEAD, SentenceHead, SentenceOptions
from regiontalk.inference.taught import SURE, TaughtWords, called, say_taught, without_parts
from regiontalk.inference.teaching import Taught, ToTeach, learn
from regiontalk.models.runtime import Floats, Runtime
from regiontalk.models.settings import FindConfig
from regiontalk.results import (
    Alignment,
    AltText,
    Description,
    Finding,
    ImageRegions,
    Lesson,
    NamedRegion,
    Naming,
    Region,
    Sentence,
    Shown,
    Tag,
    Tags,
    WordReport,
    path_of,
    reaches,
)

Photos = list[Any] | tuple[Any, ...] | Iterator[Any]
"""Several photos, which are processed one by one."""

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class CaptionOptions:
    """The options of a call of the model that change what is computed."""

    boxes: ArrayLike | None
    proposals: int | None
    size: int | None
    beam: int
    threshold: float
    words: int | None
    names: NameList | None
    top: int | None
    confidence: float
    shown: Shown


class About(TypedDict):
    """What every answer tells of its photo."""

    path: str
    width: int
    height: int
    model: str
    photo: Photo


@dataclass(frozen=True)
class Model:
    """Captions, describes and aligns photos through a `Runtime`."""

    runtime: Runtime
    limits: Limits = field(default_factory=Limits)
    taught: Taught | None = None
    """Words that it was taught; None: it is used without a word book."""

    @overload
    def __call__(self, photo: PhotoSource, **options: Any) -> ImageRegions: ...

    @overload
    def __call__(self, photo: Photos, **options: Any) -> Iterator[ImageRegions]: ...

    def __call__(  # type: ignore[misc]  # the overloads only tell one photo from several
        self,
        photo: PhotoSource | Photos,
        *,
        threshold: float | None = None,
        top: int | None = None,
        proposals: int | None = None,
        boxes: ArrayLike | None = None,
        beam: int = 1,
        size: int | None = None,
        words: int | None = None,
        confidence: float | None = None,
        names: Sequence[str] | None = None,
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
        captions that are less likely right; for models with fitted confidences. `names`: call
        things by these names alone, where they are likely (`known_names`).

        `boxes` (B, 4): caption these boxes instead of detecting regions: left, top, right, bottom
        in pixels of the upright photo, or all of them as fractions of it, from 0 to 1. All are in
        the answer, in their order; `threshold`, `top`, `proposals` and `confidence` do not apply.
        """
        check_range(1, beam=beam)
        self.check(words, None)
        shown = self.shown(threshold, top, confidence)
        if boxes is not None and _are_several(photo):
            raise UsageError("boxes can only be given for one photo")
        listed = None if names is None else self._listed(names)
        options = CaptionOptions(
            boxes,
            proposals,
            size,
            beam,
            threshold or 0.0,
            words,
            listed,
            top,
            confidence or 0.0,
            shown,
        )
        return _for_each(partial(self._caption_one, options=options), photo)

    def _caption_one(self, source: PhotoSource, options: CaptionOptions) -> ImageRegions:
        look = self.look(
            source, boxes=options.boxes, proposals=options.proposals, size=options.size
        )
        regions = self.regions(look, options.beam, options.threshold, options.words, options.names)
        about = self._about(source, look.photo, look.frame.photo_size)
        return captioned_photo(about, regions, options)

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
        photo = Photo.of(source, self.limits)
        image, frame = self.network_input(photo, size)
        return look_at(
            self.runtime,
            photo,
            image,
            frame,
            boxes_xyxy=None if boxes is None else geometry.given_boxes(boxes, frame.photo_size),
            proposals=proposals,
            candidates=candidates,
        )

    def network_input(self, photo: Photo, size: int | None = None) -> tuple[Floats, Frame]:
        """The photo as the network reads it, (1, 3, H, W), and its place in there."""
        info = self.runtime.info
        resized = photo.resized(info.input_size if size is None else size)
        height, width = resized.pixels.shape[:2]
        frame = Frame(resized.photo_size, (width, height), resized.scales)
        return to_input(resized.pixels, info.pad_to)[None], frame

    @property
    def model_name(self) -> str:
        """The name that stands in results."""
        return self.runtime.info.name

    @property
    def own(self) -> Model:
        """The package's model that makes the vectors of an index; of its own models, itself."""
        return self

    @property
    def likely(self) -> float:
        """The confidence from which captions are shown by default; chosen on dev photos."""
        return self.runtime.info.prediction.likely

    def shown(
        self,
        threshold: float | None = None,
        top: int | None = None,
        confidence: float | None = None,
    ) -> Shown:
        """Which regions of a photo are shown, by default or with these limits; and which of them
        the model is sure of."""
        check_range(0, 1, threshold=threshold)
        check_range(1, top=top)
        self.check(None, confidence)
        return Shown(
            Shown.threshold if threshold is None else threshold,
            top or Shown.top,
            self.likely if confidence is None else confidence,
            sure_confidence=self.likely,
        )

    def check(self, words: int | None, confidence: float | None) -> None:
        """Rejects a caption length or confidence that is out of range, or that this model does not
        support."""
        name = self.runtime.info.name
        settings = self.runtime.info.prediction
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
        self,
        look: Look,
        beam: int = 1,
        threshold: float = 0.0,
        words: int | None = None,
        names: NameList | None = None,
    ) -> list[Region]:
        """The detected regions with captions, highest score first; or the given boxes with
        captions, in their order. `names`: they are called by these and by no others."""
        table = caption(self.runtime, look, beam, threshold, words)
        regions = to_regions(table, self.runtime.words)
        known = self._taught_words
        if not regions or (known is None and names is None):
            return regions
        codes = with_codes(self.runtime, look, table).codes
        if names is not None:
            return say_names(regions, codes, names)
        assert known is not None
        return say_taught(regions, known.probabilities(codes), known.names)

    def teach(
        self,
        word: str,
        photos: Sequence[PhotoSource | tuple[PhotoSource, ArrayLike]],
        *,
        is_it: bool = True,
    ) -> Lesson:
        """Teaches the model a word with photos, one or more; it is used from then on.

        Each photo is given alone, for its main region, or with the box of the thing, as in a call
        of the model. The examples are added to the model's word book. `is_it=False`: these regions
        do not show what the word means.
        """
        wanted = [
            ToTeach(word, *example, is_it=is_it)
            if _is_with_box(example)
            else ToTeach(word, example, is_it=is_it)
            for example in photos
        ]
        lessons, skipped = learn(self, wanted)
        return replace(lessons[0], skipped=tuple(skipped))

    def forget(self, *words: str) -> None:
        """Drops taught words from the word book."""
        self.taught_to.file.change(lambda book: book.without(words))

    def taught_words(self) -> list[WordReport]:
        """The words that the model was taught, and how well it knows each; weak words first."""
        return [] if self.taught is None else self.taught.reports()

    def to_fiftyone(self) -> Any:
        """A `fiftyone.Model`, as those of its zoo: `dataset.apply_model(model.to_fiftyone(),
        label_field="regions")`. Labels are those of `ImageRegions.to_fiftyone`."""
        from regiontalk.show.fiftyone_model import fiftyone_model

        return fiftyone_model(self)

    @property
    def taught_to(self) -> Taught:
        """The word book and what reads it; raises `ModelError` for a model without."""
        if self.taught is None:
            raise ModelError(
                f"the model {self.runtime.info.name!r} was loaded without a word book",
                hint="regiontalk.load(words_book=True) loads it with yours",
            )
        return self.taught

    @property
    def names(self) -> tuple[str, ...]:
        """What the model can call things (`name`); empty if it has no names."""
        return () if self.runtime.names is None else self.runtime.names.names

    @property
    def _taught_words(self) -> TaughtWords | None:
        return None if self.taught is None else self.taught.by_code

    @property
    def _knowledge(self) -> Knowledge:
        captions = frozenset(self.runtime.words.words)
        return Knowledge(captions, self.runtime.names, self._taught_words)

    def known_names(self, names: Sequence[str]) -> KnownNames:
        """Which names of one's own list the model can recognise: those of `names`, nouns of its
        captions, and taught words. Articles, plurals and words that mean the same are
        understood."""
        return NameList.of(names, self._knowledge).split()

    def _listed(self, names: Sequence[str]) -> NameList:
        return read_known_names(names, self._knowledge)

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
        these only (`known_names`); their probabilities then add up to 1.
        """
        check_range(1, top=top)
        table = self.runtime.names
        if table is None:
            raise ModelError(
                f"the model {self.runtime.info.name!r} has no names",
                hint="regiontalk fit MODEL DATA --only names",
            )
        listed = None if names is None else self._listed(names)
        look = self.look(photo, boxes=[[0, 0, 1, 1]] if boxes is None else boxes)
        codes = with_codes(self.runtime, look, look.regions).codes
        if listed is None:
            best = likeliest(name_probabilities(codes, table), table.names, top)
        else:
            best = likeliest(listed.shares(codes), listed.names, top)
        named = [
            NamedRegion((x0, y0, x1, y1), region_names)
            for (x0, y0, x1, y1), region_names in zip(look.boxes_xyxy.tolist(), best, strict=True)
        ]
        return Naming(**self._about(photo, look.photo, look.frame.photo_size), regions=tuple(named))

    def codes(self, look: Look, surroundings: bool = False) -> RegionTable:
        """The input of the heads: the whole photo and its `BEST_REGIONS` best regions, or all given
        boxes, with `codes`; and with those of their `surroundings`, if requested."""
        count = len(look.regions) if look.given else BEST_REGIONS
        regions = with_codes(self.runtime, look, whole_and_best(self.runtime, look, count))
        return with_surroundings(self.runtime, look, regions) if surroundings else regions

    @property
    def words(self) -> tuple[str, ...]:
        """The words that it knows in queries, the most frequent ones first. Their singulars and
        plurals, and many synonyms, are understood too."""
        heads = (
            [self.runtime.head(ALIGNMENT_HEAD).words]
            if ALIGNMENT_HEAD in self.runtime.heads
            else []
        )
        every = chain.from_iterable(vocabulary.words for vocabulary in (*heads, self.runtime.words))
        return tuple(dict.fromkeys(every))

    def candidates(self, look: Look, count: int = finder.MAX_REGIONS) -> RegionTable:
        """The whole photo and its `count` best regions, or the given boxes: the candidates for
        words and phrases, with `vectors` if the model has an alignment head."""
        return with_vectors(self.runtime, look, whole_and_best(self.runtime, look, count))

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
        temperature: float = SentenceOptions.temperature,
        top_p: float = SentenceOptions.top_p,
        seed: int = 0,
        size: int | None = None,
    ) -> Description | Iterator[Description]:
        """One sentence for the whole photo (K&FF section 3.2), and the `alternatives` next best
        ones.

        `beam`: beam width, 1 to 100 (default: the model's); 1 is greedy. `alternatives`: up to 99.
        With `sample`, words are sampled instead, by the random `seed`: a lower `temperature` (above
        0, up to 10) is safer, and only the likeliest words that together have the probability
        `top_p` are used. Several photos give an iterator.
        """
        head = SentenceHead(self.runtime)
        options = SentenceOptions(beam, alternatives, sample, temperature, top_p, seed)

        def describe(source: PhotoSource) -> Description:
            look = self.look(source, size=size)
            best, *others = self._sentences(head, look, options)
            return Description(
                **self._about(source, look.photo, look.frame.photo_size),
                sentence=best.sentence,
                logprob=best.logprob,
                alternatives=tuple(others),
            )

        return _for_each(describe, photo)

    def _sentences(
        self, head: SentenceHead, look: Look, options: SentenceOptions
    ) -> list[Sentence]:
        regions = self.codes(look)
        return head.sentences(regions.codes, regions.boxes_xyxy, options)

    @overload
    def alt_text(self, photo: PhotoSource, **options: Any) -> AltText: ...

    @overload
    def alt_text(self, photo: Photos, **options: Any) -> Iterator[AltText]: ...

    def alt_text(  # type: ignore[misc]  # as above
        self,
        photo: PhotoSource | Photos,
        *,
        threshold: float | None = None,
        top: int | None = None,
        confidence: float | None = None,
        size: int | None = None,
        names: Sequence[str] | None = None,
    ) -> AltText | Iterator[AltText]:
        """A text for people who cannot see the photo: the sentence if the model is sure of it, else
        the regions that it is sure of, else "perhaps" and the likeliest. With the regions and their
        keywords.

        `threshold`, `top` and `confidence` choose the regions, as in pictures; `names` as in a call
        of the model. Several photos give an iterator.
        """
        head = self._sentence_head()
        shown = self.shown(threshold, top, confidence)
        listed = None if names is None else self._listed(names)

        def describe(source: PhotoSource) -> AltText:
            look = self.look(source, size=size)
            regions = shown.at_first(self.regions(look, names=listed))
            sentence = None
            if head is not None:
                sentence = self._sentences(head, look, SentenceOptions())[0]
            spoken = choose_alt_text(sentence, regions, shown)
            return AltText(
                **self._about(source, look.photo, look.frame.photo_size),
                text=spoken.text,
                regions=tuple(shown.choose(regions)),
                sure=spoken.sure,
                tags=self._tags(regions, shown, listed),
            )

        return _for_each(describe, photo)

    def _sentence_head(self) -> SentenceHead | None:
        """What writes the sentences of alt texts, if the model has it."""
        return SentenceHead(self.runtime) if SENTENCE_HEAD in self.runtime.info.heads else None

    @overload
    def tags(self, photo: PhotoSource, **options: Any) -> Tags: ...

    @overload
    def tags(self, photo: Photos, **options: Any) -> Iterator[Tags]: ...

    def tags(  # type: ignore[misc]  # as above
        self,
        photo: PhotoSource | Photos,
        *,
        threshold: float | None = None,
        top: int | None = None,
        confidence: float | None = None,
        size: int | None = None,
        names: Sequence[str] | None = None,
    ) -> Tags | Iterator[Tags]:
        """Keywords for photo managers: the nouns of the captions that the model is sure of, and
        the names that it is sure of; with `names`, those of the list alone.

        `threshold`, `top` and `confidence` choose the regions, as in pictures; `names` as in a call
        of the model. Several photos give an iterator.
        """
        shown = self.shown(threshold, top, confidence)
        listed = None if names is None else self._listed(names)

        def tag(source: PhotoSource) -> Tags:
            look = self.look(source, size=size)
            regions = shown.at_first(self.regions(look, names=listed))
            tags = self._tags(regions, shown, listed)
            return Tags(**self._about(source, look.photo, look.frame.photo_size), tags=tags)

        return _for_each(tag, photo)

    def _tags(
        self, regions: Sequence[Region], shown: Shown, listed: NameList | None
    ) -> tuple[Tag, ...]:
        if listed is not None:
            return listed_tags(regions, shown)
        return choose_tags(regions, shown, self.runtime.names)

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
            return Alignment(path_of(source), sentence, segments, read.unknown, photo=look.photo)

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
        texts = [phrase] if isinstance(phrase, str) else phrase
        taught = [None if self.taught is None else self.taught.word_in(text) for text in texts]
        others = [text for text, word in zip(texts, taught, strict=True) if word is None]
        phrases = read_phrases(self.runtime, others)
        config = self.runtime.info.prediction.find or FindConfig()
        min_probability = config.likely if threshold is None else threshold

        def find(source: PhotoSource) -> tuple[Finding, ...]:
            look = self.look(source, size=size)
            regions = with_colours(self.runtime, look, self.candidates(look))
            matches = finder.find(self.runtime, phrases, regions, config, min_probability, top)
            about = self._about(source, look.photo, look.frame.photo_size)
            findings = iter(
                Finding(
                    **about,
                    **about_words([phrase]),
                    phrase=phrase.text,
                    here=phrase.read.says_something and match.closest >= config.likely,
                    regions=tuple(match.regions),
                    closest=match.closest,
                    shown=self.shown(),
                )
                for phrase, match in zip(phrases, matches, strict=True)
            )
            return tuple(
                next(findings)
                if word is None
                else self._find_taught(about, look, regions, text, word, threshold, top)
                for text, word in zip(texts, taught, strict=True)
            )

        def find_only(source: PhotoSource) -> Finding:
            return find(source)[0]

        answer: Callable[[PhotoSource], Any] = find_only if isinstance(phrase, str) else find
        return _for_each(answer, photo)  # type: ignore[return-value]  # as the overloads say

    def _find_taught(
        self,
        about: About,
        look: Look,
        regions: RegionTable,
        text: str,
        word: str,
        threshold: float | None,
        top: int | None,
    ) -> Finding:
        """The regions of a photo that show a taught word."""
        known = self.taught_to.by_code
        assert known is not None
        codes = with_codes(self.runtime, look, regions).codes
        likely = without_parts(known.one(word).probabilities(codes)[:, 0], regions.boxes_xyxy)
        min_probability = SURE if threshold is None else threshold
        match = finder.match(self.runtime, regions, likely, min_probability, top)
        return Finding(
            **about,
            phrase=text,
            here=match.closest >= SURE,
            regions=tuple(called(region, word, region.score) for region in match.regions),
            closest=match.closest,
            shown=self.shown(),
        )

    def _about(self, source: PhotoSource, photo: Photo, photo_size: tuple[int, int]) -> About:
        width, height = photo_size
        return About(
            path=path_of(source), width=width, height=height, model=self.model_name, photo=photo
        )


def captioned_photo(
    about: About, regions: Sequence[Region], options: CaptionOptions
) -> ImageRegions:
    """The answer with those regions that the options ask for; with all given boxes."""
    if options.boxes is not None:
        every = replace(options.shown, threshold=0.0, top=None, confidence=0.0, sure_score=0.0)
        return ImageRegions(**about, regions=tuple(regions), shown=every)
    kept = [region for region in regions if reaches(region.confidence, options.confidence)]
    return ImageRegions(**about, regions=tuple(kept[: options.top]), shown=options.shown)


def _are_several(photo: PhotoSource | Photos) -> TypeGuard[Photos]:
    """An open file is an iterator too, over its lines: it is one photo."""
    return isinstance(photo, list | tuple | Iterator) and not hasattr(photo, "read")


def _is_with_box(photo: object) -> TypeGuard[tuple[Any, Any]]:
    return isinstance(photo, tuple) and len(photo) == 2


def _for_each(
    ask: Callable[[PhotoSource], Answer], photo: PhotoSource | Photos
) -> Answer | Iterator[Answer]:
    """The result for a photo; for several photos an iterator, which computes each result when it is
    requested."""
    return map(ask, photo) if _are_several(photo) else ask(cast(PhotoSource, photo))
