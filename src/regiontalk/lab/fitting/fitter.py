"""What is fitted on dev photos after training, one part after another; each builds on those before
it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from regiontalk.inference.alignment import ALIGNMENT_HEAD, AlignmentHead
from regiontalk.inference.calibration import calibrated
from regiontalk.inference.codes import BEST_REGIONS
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset, Record, evenly_spaced
from regiontalk.lab.evaluation.alignment import AlignedPhotos, AlignedSentence
from regiontalk.lab.evaluation.dense_ap import DenseResult
from regiontalk.lab.evaluation.find import Sought, evaluate_find, seek
from regiontalk.lab.evaluation.language import SentenceScorer
from regiontalk.lab.evaluation.reliability import RIGHT_IOU, Judged, joined, judge, summary
from regiontalk.lab.fitting import (
    FIGURES,
    OF_NAMES,
    PARTS,
    TRIED,
    agreement,
    alignment,
    background,
    calibration,
    colours,
    confidence,
    find,
    names,
    ranking,
    search,
    settings,
)
from regiontalk.lab.fitting.cross_validation import cross_validated
from regiontalk.lab.fitting.photos import SeenPhoto, look_at
from regiontalk.model import Model
from regiontalk.models.background import Background
from regiontalk.models.name_table import NameTable
from regiontalk.models.settings import UNCHANGED, Calibration, FindConfig, PredictionConfig
from regiontalk.search.build import stored_regions, to_entry
from regiontalk.search.store import Entry, PhotoFile

Answer = TypeVar("Answer")
Report = dict[str, Any]
Track = Callable[[Iterator[Any], str, int], Iterator[Any]]
"""Reports progress: takes an iterator, what is being done, and how many items there are; yields the
items."""


@dataclass
class Fitter:
    """Fits the `parts` of a model to photos.

    `settings`, and `of_words`, the settings of the head `words`, are what has been fitted so far.
    """

    model: Model
    datasets: Sequence[Dataset]
    """All of them for the parts `ON_ALL_DATA`, the first for the others."""
    parts: Sequence[str]
    scorer: SentenceScorer
    """Judges captions, for settings and ranking."""
    track: Track
    detector: str = ""
    """`detector_fingerprint` of the model; for names and colours."""
    workers: int = 1
    photos: int | None = None
    """So many of each data set, evenly spaced; None: all."""
    left_out: Container[str] = ()
    """Names of which the background learns nothing."""
    of_words: dict[str, Any] = field(default_factory=dict)
    names: NameTable | None = None
    """Fitted names; None where they were not fitted."""
    colours: NameTable | None = None
    """The fitted table of colours; None where it was not fitted."""
    background: Background | None = None
    """What taught words are compared with; None where it was not made."""

    def __post_init__(self) -> None:
        """Drops what was fitted before on top of what is fitted now."""
        self.settings = self.model.runtime.info.prediction
        if "settings" in self.parts:
            self.settings = replace(self.settings, find=None, find_indexed=None)
        unfitted = {"ranking": None, "calibration": UNCHANGED, "confidence": None}
        unfitted |= {"agreement": None}
        again = (*PARTS[PARTS.index(self.parts[0]) :], *(OF_NAMES if "names" in self.parts else ()))
        dropped = {name: value for name, value in unfitted.items() if name in again}
        self.settings = replace(self.settings, **dropped)  # type: ignore[arg-type]

    def fit(self, part: str) -> Report:
        """Fits one of the parts, in their order; its figures."""
        report: Report = getattr(self, f"_fit_{part}")()
        self.model.runtime.info = replace(self.model.runtime.info, prediction=self.settings)
        return report

    def _fit_settings(self) -> Report:
        tried = list(settings.settings_to_try(self.settings))
        watched = self.track(iter(tried), "Comparing settings", len(tried))
        results = settings.try_settings(self._seen, self.model.runtime.words, watched, self.scorer)
        self.settings = settings.choose(results)
        return {
            "tried": [
                {name: getattr(one, name) for name in TRIED} | _figures(result)
                for one, result in results
            ]
        }

    def _fit_ranking(self) -> Report:
        words = self.model.runtime.words
        photos = [ranking.to_ranked(photo, self.settings, words) for photo in self._seen]
        pairs = list(zip(photos, ranking.targets(photos, self.scorer), strict=True))
        rankings = cross_validated(pairs, ranking.fit_photos)
        before = ranking.judge(photos, [None] * len(photos), self.settings, words, self.scorer)
        after = ranking.judge(photos, rankings, self.settings, words, self.scorer)
        self.settings = replace(self.settings, ranking=ranking.fit_photos(pairs))
        regions = sum(len(photo.captions) for photo in photos)
        return {"regions": regions, "before": _figures(before), "after": _figures(after)}

    def _fit_calibration(self) -> Report:
        def fit_photos(photos: Sequence[Judged]) -> Calibration:
            every = joined(photos)
            return calibration.fit(every.scores, every.right)

        words = self.model.runtime.words
        photos = [judge(photo.regions(self.settings, words), photo.record) for photo in self._seen]
        others = cross_validated(photos, fit_photos)
        found = fit_photos(photos)
        every = joined(photos)
        after = np.concatenate(
            [calibrated(one.scores, other) for one, other in zip(photos, others, strict=True)]
        )
        self.settings = replace(self.settings, calibration=found)
        return {
            "calibration": list(found),
            "right_iou": RIGHT_IOU,
            "regions": len(every.scores),
            "before": summary(every, every.scores),
            "after": summary(every, after),
        }

    def _fit_confidence(self) -> Report:
        seen = [self._seen, *(self._look(other, [self.settings]) for other in self.datasets[1:])]
        words = self.model.runtime.words
        judged = [[photo.judged_captions(self.settings, words) for photo in own] for own in seen]
        found, sure = confidence.fit_and_check(judged)
        figures = {
            str(dataset.folder): confidence.report(photos, of_them, found)
            for dataset, photos, of_them in zip(self.datasets, judged, sure, strict=True)
        }
        self.settings = replace(self.settings, confidence=found)
        every = confidence.report(list(chain(*judged)), list(chain(*sure)), found)
        return {"longer": found.longer, "data": figures} | every

    def _fit_agreement(self) -> Report:
        info = self.model.runtime.info
        self.model.runtime.info = replace(info, prediction=self.settings)
        judged = [
            self._each(one, agreement.judge_regions, f"Comparing names on {one.folder}")
            for one in self.datasets
        ]
        fitted, said = agreement.fit_and_check(judged)
        self.settings = replace(self.settings, agreement=fitted)
        figures = {
            str(dataset.folder): agreement.report(of_them, fitted)
            | {"captions_right": agreement.caption_share(photos)}
            for dataset, photos, of_them in zip(self.datasets, judged, said, strict=True)
        }
        return {"data": figures} | agreement.report(list(chain(*said)), fitted)

    def _fit_find(self) -> Report:
        sought: list[list[Sought]] = []
        stored: list[list[Sought]] = []
        for dataset in self.datasets:
            photos = self._look_for_phrases(dataset)
            sought.append([one for of_photo, _ in photos for one in of_photo])
            stored.append([one for _, of_photo in photos for one in of_photo])
        config = find.fit(sought)
        indexed = find.fit(stored) if ALIGNMENT_HEAD in self.model.runtime.heads else None
        self.settings = replace(self.settings, find=config, find_indexed=indexed)
        report = _find_report(sought, config)
        report["photos"] = sum(len(self._numbers(dataset)) for dataset in self.datasets)
        report["data"] = {
            str(dataset.folder): evaluate_find(of_set, config)
            for dataset, of_set in zip(self.datasets, sought, strict=True)
        }
        if indexed is not None:
            report["indexed"] = _find_report(stored, indexed)
        return report

    def _look_for_phrases(self, dataset: Dataset) -> list[tuple[list[Sought], list[Sought]]]:
        """What is there and what is not in each photo: among all regions, and among those that an
        index stores."""
        records = [dataset[number] for number in self._numbers(dataset)]
        asked = find.to_ask(records)

        def look(dataset_model: DatasetModel, record: Record) -> tuple[list[Sought], list[Sought]]:
            look = dataset_model.look(record)
            seen = dataset_model.candidates_of(look, record)
            best = seen.first(1 + BEST_REGIONS)
            captioned = self.model.regions(look)
            stored = list(stored_regions(self.model.candidates(look, BEST_REGIONS), captioned))
            phrases = asked[record.image]
            return (
                seek(self.model, record.image, phrases, seen),
                seek(self.model, record.image, phrases, best, stored),
            )

        return self._each(dataset, look, f"Looking for phrases on {dataset.folder}")

    def _fit_alignment(self) -> Report:
        def align(dataset_model: DatasetModel, record: Record) -> list[AlignedSentence]:
            return AlignedPhotos.of_model(dataset_model).sentences(record)

        photos = self._each(self.datasets[0], align, "Aligning phrases")
        report = alignment.fit(photos, AlignmentHead(self.model.runtime).settings)
        self.of_words |= report["fitted"]
        return report

    def _fit_search(self) -> Report:
        """Fits search on what an index stores of photos if the model has these settings."""

        def look(dataset_model: DatasetModel, record: Record) -> tuple[Record, Entry]:
            file = PhotoFile(f"{dataset_model.dataset.folder}/{record.image}", 0, 0)
            return record, to_entry(self.model, dataset_model.look(record), file, b"")

        photos = [
            self._each(one, look, f"Looking at {one.folder} for search") for one in self.datasets
        ]
        config, report = search.fit(self.model, list(chain(*photos)))
        self.of_words["search"] = config
        return report

    def _fit_names(self) -> Report:
        photos = [
            self._each(one, names.look_at_names, f"Looking at {one.folder}")
            for one in self.datasets
        ]
        every = list(chain.from_iterable(chain.from_iterable(photos)))
        self.names, report = names.fit(every, self.detector)
        return report

    def _fit_colours(self) -> Report:
        photos = [
            self._each(one, colours.look_at_colours, f"Looking at {one.folder}")
            for one in self.datasets
        ]
        every = list(chain.from_iterable(chain.from_iterable(photos)))
        self.colours, report = colours.fit(every, self.detector)
        return report

    def _fit_background(self) -> Report:
        photos = [
            self._each(one, background.look_at_regions, f"Looking at {one.folder}")
            for one in self.datasets
        ]
        every = list(chain.from_iterable(photos))
        self.background, report = background.fit(every, self.left_out)
        return report

    @cached_property
    def _seen(self) -> list[SeenPhoto]:
        """The first data set's photos, with captions of all that one of the settings to try
        keeps."""
        tried = (
            list(settings.settings_to_try(self.settings))
            if "settings" in self.parts
            else [self.settings]
        )
        return self._look(self.datasets[0], tried)

    def _look(self, dataset: Dataset, tried: Sequence[PredictionConfig]) -> list[SeenPhoto]:
        judges = "confidence" in self.parts
        return self._each(
            dataset,
            lambda dataset_model, record: look_at(dataset_model, record, tried, judges),
            f"Looking at {dataset.folder}",
        )

    def _each(
        self, dataset: Dataset, answer: Callable[[DatasetModel, Record], Answer], doing: str
    ) -> list[Answer]:
        """The answers for the photos of a data set."""
        dataset_model = DatasetModel(self.model, dataset)
        numbers = self._numbers(dataset)
        return list(
            self.track(
                dataset_model.each(partial(answer, dataset_model), numbers, self.workers),
                doing,
                len(numbers),
            )
        )

    def _numbers(self, dataset: Dataset) -> list[int]:
        return evenly_spaced(len(dataset), self.photos or len(dataset))


def _find_report(sets: Sequence[Sequence[Sought]], config: FindConfig) -> Report:
    return {"likely": config.likely} | evaluate_find(chain.from_iterable(sets), config)


def _figures(result: DenseResult) -> dict[str, float]:
    return {name: getattr(result, name) for name in FIGURES}
