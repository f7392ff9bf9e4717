"""Where a phrase is found: the formulas of the module on made-up numbers, and the path through a
model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import regiontalk
from regiontalk.errors import UsageError
from regiontalk.inference import find as finder
from regiontalk.inference import likelihood
from regiontalk.inference.alignment import place_prior
from regiontalk.inference.calibration import sigmoid
from regiontalk.inference.find import PhraseEvidence
from regiontalk.inference.phrases import read_phrases
from regiontalk.model import Model
from regiontalk.models.settings import FindConfig

CONFIG = FindConfig(2.0, 3.0, 1.5, 4.0, 0.5, -1.0, 0.4)


@pytest.fixture(scope="module")
def model(aligning_model: Path) -> Model:
    return regiontalk.load(aligning_model, threads=1)


def test_probabilities_are_those_of_the_formulas() -> None:
    evidence = PhraseEvidence(
        0.3, np.array([0.1, 0.4]), np.array([-2.0, -1.0]), np.array([-0.5, -0.7])
    )
    choices = [2.0 * 0.1 + 3.0 * -2.0 + 1.5 * -0.5, 2.0 * 0.4 + 3.0 * -1.0 + 1.5 * -0.7]
    best = float(sigmoid(np.array([4.0 * 0.3 + 0.5 * choices[1] - 1.0]))[0])
    expected = [best * np.exp(choices[0] - choices[1]), best]
    assert evidence.probabilities(CONFIG) == pytest.approx(expected)


def test_names_count_where_there_is_one() -> None:
    config = replace(CONFIG, name=0.5, photo_name=2.0, name_bias=-0.3)
    unnamed = PhraseEvidence(0.3, np.array([0.1, 0.4]), np.array([-2.0, -1.0]), np.zeros(2))
    assert unnamed.probabilities(config) == pytest.approx(unnamed.probabilities(CONFIG))
    named = unnamed._replace(shown=np.array([0.8, 0.0]))
    choices = unnamed.choices(CONFIG) + 0.5 * np.log([0.8, finder.MIN_NAME_PROB])
    assert named.choices(config) == pytest.approx(choices)
    logit = 4.0 * 0.3 + 0.5 * choices.max() - 1.0 + 2.0 * np.log(0.8 / 0.2) - 0.3
    assert named.probabilities(config).max() == pytest.approx(1 / (1 + np.exp(-logit)))


def test_another_animal_leaves_little_for_this_one() -> None:
    evidence = PhraseEvidence(0.3, np.array([0.1, 0.1]), np.zeros(2), np.zeros(2))
    evidence = evidence._replace(shown=np.array([0.3, 0.3]))
    alone = evidence._replace(others=np.zeros(2))
    assert alone.probabilities(CONFIG) == pytest.approx(evidence.probabilities(CONFIG))
    beside = evidence._replace(others=np.array([0.6, 0.0]))
    assert beside.choices(CONFIG).argmax() == 1, "the region that is no other animal"
    everywhere = evidence._replace(others=np.array([0.6, 0.6]))
    share = (0.3 + finder.DOUBT) / (0.9 + finder.DOUBT)
    assert everywhere.shares() == pytest.approx(share)
    assert everywhere.probabilities(CONFIG).max() < share * evidence.probabilities(CONFIG).max()


def test_of_regions_in_one_place_the_best_is_chosen() -> None:
    boxes = np.array(
        [[0, 0, 10, 10], [0, 0, 10, 9], [20, 20, 30, 30], [50, 50, 60, 60]], dtype=float
    )
    likely = np.array([0.5, 0.6, 0.7, 0.1])
    assert finder.choose(likely, boxes, 0.4, None).tolist() == [2, 1]
    assert finder.choose(likely, boxes, 0.0, 1).tolist() == [2]
    assert finder.choose(likely, boxes, 0.9, None).tolist() == []


def test_evidence_is_what_alignment_and_language_model_say(model: Model, scene_path: Path) -> None:
    seen = model.candidates(model.look(scene_path))
    phrase = read_phrases(model.runtime, ["a red square"])[0]
    (found,) = finder.gather(model.runtime, [phrase], seen)
    logprobs = likelihood.log_probabilities(model.runtime, seen.state, [phrase.tokens])[0]
    assert seen.vectors is not None
    fits = seen.vectors @ phrase.vectors.T
    assert found.likelihoods == pytest.approx(logprobs / (len(phrase.tokens) + 1))
    assert found.fits == pytest.approx(fits.mean(axis=1), abs=1e-6)
    assert found.photo_fit == pytest.approx(fits.max(axis=0).mean(), abs=1e-6)
    assert found.places == pytest.approx(place_prior(seen.scores, 1.0))


def test_the_first_candidate_is_the_whole_photo(model: Model, scene_path: Path) -> None:
    look = model.look(scene_path)
    seen = model.candidates(look)
    assert seen.boxes_xyxy[0].tolist() == [0, 0, *look.frame.photo_size]
    assert len(seen.boxes_xyxy) == 1 + min(len(look.regions), finder.MAX_REGIONS)
    assert all(
        len(part) == len(seen.boxes_xyxy)
        for part in (seen.scores, seen.logits, seen.vectors, *seen.state)
    )


class TestFind:
    def test_regions_by_falling_score_with_the_models_captions(
        self, model: Model, scene_path: Path
    ) -> None:
        found = model.find(str(scene_path), "a red square", threshold=0)
        scores = [region.score for region in found.regions]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] == found.closest
        assert (found.path, found.phrase, found.unknown) == (str(scene_path), "a red square", ())
        captions = {region.xyxy: region.caption for region in model(scene_path).regions}
        common = [region for region in found.regions if region.xyxy in captions]
        assert common
        assert all(region.caption == captions[region.xyxy] for region in common)

    def test_not_here(
        self, model: Model, scene_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        info = model.runtime.info
        fitted = replace(
            info, prediction=replace(info.prediction, find=FindConfig(bias=-100.0, likely=0.2))
        )
        monkeypatch.setattr(model.runtime, "info", fitted)
        found = model.find(scene_path, "a red square")
        assert (found.here, found.regions) == (False, ())
        assert 0 <= found.closest < 0.2
        assert not model.find(scene_path, "a red square", threshold=0).here
        assert model.find(scene_path, "a red square", threshold=0, top=2).regions

    def test_several_phrases_and_photos(self, model: Model, scene_path: Path) -> None:
        red, green = model.find(scene_path, ["a red square", "a green square"])
        assert (red.phrase, green.phrase) == ("a red square", "a green square")
        assert red.regions == model.find(scene_path, "a red square").regions
        first, second = model.find([scene_path, scene_path], "a red square")
        assert first == second
        ((pair,),) = model.find([scene_path], ["a red square"])
        assert pair.regions == red.regions

    def test_a_model_without_an_alignment_head(self, tiny_model: Path, scene_path: Path) -> None:
        found = regiontalk.load(tiny_model, threads=1).find(scene_path, "a red square")
        assert found.regions

    def test_wrong_options(self, model: Model, scene_path: Path) -> None:
        with pytest.raises(UsageError, match="threshold is 2"):
            model.find(scene_path, "a red square", threshold=2)
        with pytest.raises(UsageError, match="top is 0"):
            model.find(scene_path, "a red square", top=0)

    def test_it_shows_itself(self, model: Model, scene_path: Path) -> None:
        found = model.find(scene_path, "a red square", top=1)
        assert found.draw().size == (96, 64)
        assert found.regions[0].caption in str(found._repr_html_())
        data = found.to_dict()
        assert set(data) == {
            *(
                "schema",
                "path",
                "width",
                "height",
                "model",
                "phrase",
                "here",
                "regions",
                "closest",
                "unknown",
                "corrected",
                "synonyms",
                "notes",
            )
        }
        assert {"xyxy", "score", "caption"} <= set(data["regions"][0])
