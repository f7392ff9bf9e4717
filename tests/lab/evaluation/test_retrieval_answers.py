"""Each measure against a direct computation on a few drawn scenes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import regiontalk
from regiontalk.inference import find as finder
from regiontalk.inference import likelihood
from regiontalk.inference.alignment import AlignmentHead
from regiontalk.inference.captions import decode_captions
from regiontalk.inference.phrases import to_phrase
from regiontalk.inference.regions import RegionTable
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.evaluation import retrieval_answers
from regiontalk.lab.evaluation.retrieval import QuerySet, evaluate_retrieval, sample_queries
from regiontalk.lab.evaluation.retrieval_answers import answer_queries
from regiontalk.model import Model
from regiontalk.models.settings import FindConfig


@pytest.fixture(scope="module")
def model(aligning_model: Path) -> Model:
    return regiontalk.load(aligning_model, threads=1)


@pytest.fixture(scope="module")
def asked(scenes: Path) -> QuerySet:
    return sample_queries(list(Dataset(scenes, "train")), images=8, queries=5, captions=2)


@pytest.fixture(scope="module")
def photos(model: Model, scenes: Path) -> dict[str, RegionTable]:
    dataset = Dataset(scenes, "train")
    return {record.image: DatasetModel(model, dataset).candidates(record) for record in dataset}


def directly(model: Model, phrase: str, seen: RegionTable, by: str) -> tuple[float, int]:
    """The score of a caption in a photo and its region, written out."""
    read = to_phrase(model.runtime, phrase)
    logprobs = likelihood.log_probabilities(model.runtime, seen.state, [read.tokens])[0]
    assert seen.vectors is not None
    fits = seen.vectors @ read.vectors.T  # (R, W)
    if by == "likelihood":
        return float(logprobs.max()), int(logprobs.argmax())
    if by == "alignment":
        prior = AlignmentHead(model.runtime).place_prior(seen.scores)
        return float(fits.max(axis=0).mean()), int((fits.mean(axis=1) + prior).argmax())
    (evidence,) = finder.gather(model.runtime, [read], seen)
    found = int(evidence.probabilities(FindConfig()).argmax())
    return float(10 * fits.max(axis=0).mean() + 0.5 * logprobs[found]), found


def usual_fits(model: Model, photos: Mapping[str, RegionTable]) -> dict[str, float]:
    """What is subtracted for `both`, written out: the log of the sum of exp(10 · fit) over the
    model's own captions."""
    words, said = model.runtime.words, set()
    for seen in photos.values():
        said |= {
            words.decode(caption.tokens)
            for caption in decode_captions(model.runtime, seen.first(21).state)
        }
    read = [to_phrase(model.runtime, text) for text in said]
    return {
        image: math.log(
            sum(math.exp(10 * (seen.vectors @ one.vectors.T).max(axis=0).mean()) for one in read)
        )
        for image, seen in photos.items()
        if seen.vectors is not None
    }


@pytest.mark.parametrize("by", ["likelihood", "alignment", "both"])
def test_scores_are_means_over_captions_of_the_best_region(
    model: Model, asked: QuerySet, photos: Mapping[str, RegionTable], by: str
) -> None:
    answers = answer_queries(model, asked, photos, by)
    usual = usual_fits(model, photos) if by == "both" else dict.fromkeys(photos, 0.0)
    for query in asked.queries:
        for image in asked.images:
            expected = np.mean(
                [directly(model, one.phrase, photos[image], by)[0] for one in query.captions]
            )
            assert answers[query.query].scores[image] == pytest.approx(
                expected - usual[image], abs=1e-4
            )
        rows = [directly(model, one.phrase, photos[query.image], by)[1] for one in query.captions]
        assert answers[query.query].groundings == tuple(
            map(tuple, photos[query.image].boxes_xyxy[rows].tolist())
        )
    assert evaluate_retrieval(asked, answers)["queries"] == 5


@pytest.mark.parametrize("by", ["likelihood", "both"])
def test_only_the_best_photos_are_measured_exactly_and_come_first(
    model: Model,
    asked: QuerySet,
    photos: Mapping[str, RegionTable],
    by: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every = answer_queries(model, asked, photos, by)
    monkeypatch.setattr(retrieval_answers, "MAX_RERANKED", 3)
    few = answer_queries(model, asked, photos, by)
    quick, usual = answer_queries(model, asked, photos, "alignment"), usual_fits(model, photos)
    for query in asked.queries:
        ranked = sorted(asked.images, key=lambda image: -few[query.query].scores[image])
        for image in ranked[:3]:
            assert few[query.query].scores[image] == pytest.approx(every[query.query].scores[image])
        if by == "both":
            fits = quick[query.query].scores
            found = sorted(asked.images, key=lambda image: usual[image] - 10 * fits[image])
            assert set(ranked[:3]) == set(found[:3])
            assert ranked[3:] == found[3:]


def test_whole_photos_have_no_groundings(
    model: Model, asked: QuerySet, photos: Mapping[str, RegionTable]
) -> None:
    whole = {image: seen.first(1) for image, seen in photos.items()}
    answers = answer_queries(model, asked, whole, "likelihood", grounded=False)
    assert "median_iou" not in evaluate_retrieval(asked, answers)
    query = asked.queries[0]
    expected = np.mean(
        [directly(model, one.phrase, whole[query.image], "likelihood")[0] for one in query.captions]
    )
    assert answers["0"].scores[query.image] == pytest.approx(expected, abs=1e-4)
