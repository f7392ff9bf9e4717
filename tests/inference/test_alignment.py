"""A sentence laid over a photo: pieces, unknown words, windows, segments; the same as the net
itself."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import regiontalk
from regiontalk.errors import ModelError, UsageError
from regiontalk.inference import maxsim
from regiontalk.inference.alignment import (
    MAX_WORDS,
    AlignmentHead,
    SentenceEvidence,
    read_sentence,
    region_vectors,
    word_vectors,
)
from regiontalk.inference.codes import BEST_REGIONS
from regiontalk.inference.likelihood import word_log_probabilities
from regiontalk.lab.nets.alignment import Texts
from regiontalk.lab.nets.sentence_encoders import WINDOW_WORDS
from regiontalk.lab.training.checkpoints import find_checkpoint, load_alignment
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.model import Model
from regiontalk.models.settings import AlignmentPredictionConfig

WORDS = Vocabulary(("a", "red", "square"), "karpathy")


@pytest.fixture(scope="module")
def model(aligning_model: Path) -> Model:
    return regiontalk.load(aligning_model, threads=1)


def weighing(model: Model, **weights: float) -> Model:
    """The model with other settings of its head `words`."""
    runtime = copy.copy(model.runtime)
    head = runtime.head("words")
    info = replace(head.info, settings=replace(head.info.settings, **weights))
    runtime.heads = {**runtime.heads, "words": replace(head, info=info)}
    return Model(runtime)


class TestEvidence:
    """ "a dog on the grass": two regions that fit alike, of which the language model calls one
    "dog", one "grass"."""

    evidence = SentenceEvidence(
        fits=np.array([[0, 1.0], [0, 0], [9, 0], [9, 0], [0, 0]]),
        likelihoods=np.array([[-1, -2], [-1, -4.0], [-3, -1], [-3, -1], [-5, -1.0]]),
        places=np.log([0.5, 0.25]),
        known=np.array([True, True, True, True, False]),
        function=np.array([True, False, True, True, False]),
    )
    plain = AlignmentPredictionConfig(0.05, 24, "cosine", place_weight=2.0)
    weighed = replace(plain, likelihood_weight=3.0, phrase_beta=0.4)

    def test_without_likelihoods_all_known_words_have_a_say(self) -> None:
        unary = self.evidence.unary(self.plain)
        expected = self.evidence.fits + 2 * np.log([0.5, 0.25])
        assert unary == pytest.approx(np.where(self.evidence.known[:, None], expected, 0))
        assert self.evidence.betas(self.plain).tolist() == [0.05] * 4

    def test_the_unary_term_of_content_words(self) -> None:
        unary = self.evidence.unary(self.weighed)
        assert unary[1] == pytest.approx([5 * np.log(0.5) - 3, 5 * np.log(0.25) - 12])
        assert not unary[[0, 2, 3, 4]].any(), "function words and unknown ones"

    def test_words_hold_together_inside_phrases(self) -> None:
        assert self.evidence.betas(self.weighed).tolist() == [0.4, 0, 0.4, 0.4]
        assert self.evidence.betas(self.weighed, 7.0).tolist() == [7.0] * 4, (
            "what is asked for is the paper's"
        )

    def test_function_words_go_with_the_word_after_them(self) -> None:
        evidence = self.evidence._replace(known=np.ones(5, dtype=bool))
        assert evidence.align(self.weighed).tolist() == [0, 0, 1, 1, 1]
        assert evidence.align(self.plain).tolist() == [0, 0, 0, 0, 0]


class TestReading:
    def test_pieces_words_and_unknown_ones(self) -> None:
        read = read_sentence("A  red,  zebra -- Square!", WORDS)
        assert read.pieces == ("A", "red,", "zebra", "--", "Square!")
        assert read.places == (0, 1, 2, 4)
        assert read.tokens == (2, 3, 1, 4)
        assert read.unknown == ("zebra",)

    @pytest.mark.parametrize(
        "sentence", ["", "  \n\t", "!!! ... 🐈", "zebra", "der Hund läuft", "犬 が 走る"]
    )
    def test_nothing_to_align(self, sentence: str) -> None:
        with pytest.raises(UsageError) as caught:
            read_sentence(sentence, WORDS)
        assert caught.value.exit_code == 2
        assert "\n" not in caught.value.message
        assert "no word" in caught.value.message or "knows none" in caught.value.message

    def test_unknown_words_are_named_but_not_all_of_many(self) -> None:
        with pytest.raises(UsageError, match=r"'w0', 'w1', 'w2', 'w3', 'w4' and 15 more"):
            read_sentence(" ".join(f"w{number}" for number in range(20)), WORDS)

    def test_too_many_words(self) -> None:
        read_sentence("a " * MAX_WORDS, WORDS)
        with pytest.raises(UsageError, match="the limit is 10000"):
            read_sentence("a " * (MAX_WORDS + 1), WORDS)


def test_vectors_are_the_nets(model: Model, alignment_run: Path) -> None:
    trained = load_alignment(find_checkpoint(alignment_run))
    net, words = trained.net, trained.words
    codes = np.random.default_rng(0).normal(size=(5, 192)).astype(np.float32)
    with torch.no_grad():
        assert region_vectors(model.runtime, codes) == pytest.approx(
            net.regions(torch.from_numpy(codes)).numpy(), abs=1e-5
        )
        for length in (1, 3, WINDOW_WORDS):
            tokens = [2 + number % len(words.words) for number in range(length)]
            expected = net.read(Texts(torch.tensor([tokens]), torch.tensor([length]))).numpy()
            assert word_vectors(model.runtime, tokens) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("length", [WINDOW_WORDS + 1, 36, 37, 100])
def test_a_long_sentence_is_read_in_windows(length: int, model: Model) -> None:
    """Every word has the vector of the window in which it stands nearest to the middle."""
    tokens = [2 + (7 * number) % 5 for number in range(length)]
    found = word_vectors(model.runtime, tokens)
    assert len(found) == length
    starts = range(0, length - WINDOW_WORDS // 2, WINDOW_WORDS // 2)
    windows = {
        start: word_vectors(model.runtime, tokens[start : start + WINDOW_WORDS]) for start in starts
    }
    assert found[0] == pytest.approx(windows[0][0])
    assert found[-1] == pytest.approx(windows[starts[-1]][-1])
    for place in range(length):
        holding = [start for start in starts if start <= place < start + WINDOW_WORDS]
        assert any(np.allclose(found[place], windows[start][place - start]) for start in holding)


class TestAlign:
    def test_segments_cover_the_sentence(self, model: Model, scene: Image.Image) -> None:
        sentence = "A red square -- is next to a zebra !"
        found = model.align(scene, sentence)
        assert found.sentence == sentence
        assert found.unknown == ("is", "next", "to", "zebra")
        assert " ".join(segment.text for segment in found.segments) == sentence
        ends = [segment.words for segment in found.segments]
        assert [start for start, _ in ends] == [0, *(end for _, end in ends[:-1])]
        assert ends[-1][1] == len(sentence.split())
        for segment in found.segments:
            x0, y0, x1, y1 = segment.xyxy
            assert 0 <= x0 <= x1 <= scene.width
            assert 0 <= y0 <= y1 <= scene.height
            assert len(segment.word_scores) == segment.words[1] - segment.words[0]

    def test_it_is_the_chain_of_eqs_10_to_12(self, model: Model, scene: Image.Image) -> None:
        codes = model.codes(model.look(scene))
        words = model.runtime.head("words").words
        read = read_sentence("a red square", words)
        fits = (
            word_vectors(model.runtime, read.tokens) @ region_vectors(model.runtime, codes.codes).T
        )
        for beta in (0.0, 0.5, 100.0):
            chosen = maxsim.align_words(fits, beta)
            segments = model.align(scene, "a red square", beta=beta).segments
            assert [segment.words for segment in segments] == maxsim.segments(chosen)
            assert [segment.xyxy for segment in segments] == [
                pytest.approx(codes.boxes_xyxy[chosen[start]])
                for start, _ in maxsim.segments(chosen)
            ]
        assert len(model.align(scene, "a red square", beta=100.0).segments) == 1

    def test_a_place_that_people_mark_is_preferred(self, model: Model, scene: Image.Image) -> None:
        """With a weight, words choose the region of the higher score."""
        head = AlignmentHead(weighing(model, place_weight=1000.0).runtime)
        seen = model.candidates(model.look(scene), BEST_REGIONS)
        scores = np.full(len(seen.scores), 0.2)
        scores[2] = 0.9
        found = head.segments(head.read("a red square"), replace(seen, scores=scores), 0.0)
        assert [segment.xyxy for segment in found] == [pytest.approx(seen.boxes_xyxy[2])]
        prior = head.place_prior(np.array([0.99, 0.5, 0.25]))
        assert prior.tolist() == pytest.approx(
            [1000 * np.log(0.5), 1000 * np.log(0.5), 1000 * np.log(0.25)]
        )

    def test_unknown_words_and_signs_have_no_say(self, model: Model, scene: Image.Image) -> None:
        head, seen = AlignmentHead(model.runtime), model.candidates(model.look(scene), BEST_REGIONS)
        unary = head.gather(head.read("red zebra --"), seen).unary(head.settings)
        assert unary[0].any()
        assert not unary[1:].any()

    def test_what_the_language_model_calls_a_region_counts(
        self, model: Model, scene: Image.Image
    ) -> None:
        """With a large weight, a word goes to the region that it names the likeliest, at a place
        that people mark."""
        seen = model.candidates(model.look(scene), BEST_REGIONS)
        named = word_log_probabilities(model.runtime, seen.state, ["square"])[0]
        places = AlignmentHead(weighing(model, place_weight=1.0).runtime).place_prior(seen.scores)
        (found,) = weighing(model, likelihood_weight=1e4).align(scene, "square").segments
        assert found.xyxy == pytest.approx(seen.boxes_xyxy[(named + places).argmax()])
        (before,) = model.align(scene, "square").segments
        assert found.score <= before.score, (
            "a segment's score is how well its words fit, whatever was weighed"
        )

    @pytest.mark.parametrize("beta", [-1.0, float("nan"), float("inf")])
    def test_impossible_beta(self, beta: float, model: Model, scene: Image.Image) -> None:
        with pytest.raises(UsageError, match="beta"):
            model.align(scene, "red", beta=beta)

    def test_a_model_without_the_head_says_what_to_do(
        self, tiny_model: Path, scene: Image.Image
    ) -> None:
        with pytest.raises(ModelError, match="no head 'words'") as caught:
            regiontalk.load(tiny_model).align(scene, "red")
        assert "--add" in str(caught.value.hint)

    def test_ten_thousand_words(self, model: Model, scene: Image.Image) -> None:
        found = model.align(scene, "a red square and " * 2500)
        assert found.segments[-1].words[1] == 10_000

    def test_a_picture(self, model: Model, scene: Image.Image) -> None:
        picture = model.align(scene, "a red square").draw()
        assert picture.width == scene.width
        assert picture.height > scene.height
