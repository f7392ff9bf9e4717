"""Sentences through the exported head, on the small model that has learned a little."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import regiontalk
from regiontalk import Description
from regiontalk.errors import ModelError, UsageError
from regiontalk.images.photo import open_photo
from regiontalk.inference.alignment import AlignmentHead
from regiontalk.inference.decoding import repeating_words
from regiontalk.inference.sentences import SentenceHead, SentenceInputs, photo_inputs
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.export.heads import load_heads
from regiontalk.lab.nets.multimodal_rnn import MultimodalRNN
from regiontalk.lab.training.checkpoints import find_checkpoint, load_sentence_net
from regiontalk.language.vocabulary import END, FUNCTION_WORDS, LEADING_WORDS, UNKNOWN, Vocabulary
from regiontalk.model import Model
from regiontalk.models.folder import read_model_folder, write_model_folder
from regiontalk.results import Sentence


@pytest.fixture(scope="module")
def model(speaking_model: Path) -> Model:
    return regiontalk.load(speaking_model)


@pytest.fixture(scope="module")
def photos(untrained_run: Path) -> list[Image.Image]:
    dataset = Dataset(untrained_run / "data")
    return [open_photo(dataset.read_photo(record)) for record in dataset]


@torch.no_grad()
def plain_greedy(
    net: MultimodalRNN, words: Vocabulary, codes: torch.Tensor, places: torch.Tensor
) -> tuple[list[int], float]:
    state = net.begin(net.look(codes[:, :1], codes, places))
    said: list[int] = []
    total, token = 0.0, words.start()
    while token != END:
        logprobs, state = net.step(torch.tensor([token]), state)
        silent = not said or said[-1] in words.leading_tokens
        once = [*words.content_tokens.intersection(said), *([END] if silent else [])]
        logprobs[:, [UNKNOWN, *repeating_words(said), *once]] = -torch.inf
        token = int(logprobs.argmax())
        total += float(logprobs.max())
        said.append(token)
    return said[:-1], total


def test_a_beam_of_one_is_the_likeliest_word_each_time(
    model: Model, photos: list[Image.Image], sentences_run: Path
) -> None:
    """Against a plain loop over the net in torch, START to END."""
    trained = load_sentence_net(find_checkpoint(sentences_run / "run"))
    net, words = trained.net, trained.words
    for photo in photos[:4]:
        look = model.codes(model.look(photo))
        size = torch.tensor([*photo.size, *photo.size, 1.0])
        boxes = torch.tensor(look.boxes_xyxy, dtype=torch.float32)
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) / (size[0] * size[1])
        places = torch.cat([boxes, area[:, None]], dim=1) / size
        codes = torch.tensor(look.codes)[None]
        said, total = plain_greedy(net, words, codes, places[None])
        found = model.describe(photo, beam=1)
        assert found.sentence == words.decode(said)
        assert found.logprob == pytest.approx(total, abs=1e-3)
        assert found.alternatives == ()


def test_alternatives_are_different_and_sorted(model: Model, photos: list[Image.Image]) -> None:
    rules = SentenceHead(model.runtime).rules
    found = model.describe(photos[0], alternatives=4)
    everything = [Sentence(found.sentence, found.logprob), *found.alternatives]
    assert len({one.sentence for one in everything}) == 5
    scores = [
        one.logprob / ((6 + len(one.sentence.split())) / 6) ** rules.length_penalty
        for one in everything
    ]
    assert scores == sorted(scores, reverse=True)
    assert not any("<" in one.sentence for one in everything), "no END, no <UNK>"


@pytest.mark.parametrize("beam", [None, 1, 3])
def test_b3_the_best_sentence_does_not_depend_on_the_alternatives(
    model: Model, photos: list[Image.Image], beam: int | None
) -> None:
    for photo in photos[:4]:
        alone = model.describe(photo, beam=beam)
        fewer, more = (model.describe(photo, beam=beam, alternatives=count) for count in (2, 12))
        assert alone.sentence == fewer.sentence == more.sentence
        assert len({more.sentence, *(one.sentence for one in more.alternatives)}) == 13
        kept = (beam or 7) - 1
        assert more.alternatives[:kept][:2] == fewer.alternatives[:kept]


@pytest.mark.parametrize("beam", [1, 7, 20, 40, 100])
def test_b3_no_sentence_is_empty_or_repeats_itself(
    model: Model, photos: list[Image.Image], beam: int
) -> None:
    for photo in photos[:3]:
        found = model.describe(photo, beam=beam, alternatives=beam - 1)
        for sentence in (found.sentence, *(one.sentence for one in found.alternatives)):
            content = [word for word in sentence.split() if word not in FUNCTION_WORDS]
            assert sentence
            assert sentence.split()[-1] not in LEADING_WORDS or len(sentence.split()) == 20
            assert len(set(content)) == len(content)


def test_draws_depend_on_the_seed_alone(model: Model, photos: list[Image.Image]) -> None:
    first = model.describe(photos[0], sample=True, seed=1, alternatives=5)
    assert model.describe(photos[0], sample=True, seed=1, alternatives=5) == first
    assert model.describe(photos[0], sample=True, seed=1).sentence == first.sentence
    others = [model.describe(photos[0], sample=True, seed=seed).sentence for seed in range(8)]
    assert len(set(others)) > 1


def test_careful_draws_are_the_likeliest_words(model: Model, photos: list[Image.Image]) -> None:
    likeliest = model.describe(photos[0], beam=1).sentence
    assert model.describe(photos[0], sample=True, temperature=1e-3).sentence == likeliest
    assert model.describe(photos[0], sample=True, top_p=1e-3).sentence == likeliest
    daring = model.describe(
        photos[0], sample=True, temperature=3.0, top_p=1.0, alternatives=5
    ).alternatives
    careful = model.describe(photos[0], sample=True, temperature=0.3, alternatives=5).alternatives
    assert np.mean([one.logprob for one in daring]) < np.mean([one.logprob for one in careful])


def test_the_alignment_head_may_choose_among_the_sentences(
    speaking_model: Path, alignment_run: Path, photos: list[Image.Image], tmp_path: Path
) -> None:
    """Off by default; with a weight beyond all scores, the sentence that is found best in the photo
    is said."""
    heads = load_heads([alignment_run], "float32")
    folder = read_model_folder(speaking_model)
    sentence = folder.heads["sentence"]
    settings = replace(sentence.info.settings, alignment_weight=1e6)
    heads["sentence"] = replace(sentence, info=replace(sentence.info, settings=settings))
    write_model_folder(tmp_path / "model", folder.info, folder.words, folder.graphs, heads)
    choosing, plain = regiontalk.load(tmp_path / "model"), regiontalk.load(speaking_model)
    for photo in photos[:4]:
        found = plain.describe(photo, alternatives=6)
        sentences = [found.sentence, *(one.sentence for one in found.alternatives)]
        fits = AlignmentHead(choosing.runtime).fits(
            sentences, choosing.codes(choosing.look(photo)).codes
        )
        assert choosing.describe(photo).sentence == sentences[int(np.argmax(fits))]
        assert sorted(
            one.sentence for one in choosing.describe(photo, alternatives=6).alternatives
        ) == sorted(one for one in sentences if one != sentences[int(np.argmax(fits))])


def test_where_it_came_from_and_how_it_is_drawn(model: Model, scene_path: Path) -> None:
    found = model.describe(str(scene_path))
    assert isinstance(found, Description)
    assert (found.path, found.width, found.height, found.model) == (
        str(scene_path),
        96,
        64,
        "speaking",
    )
    assert found.draw().crop((0, 0, 96, 64)).tobytes() == open_photo(scene_path).tobytes(), (
        "no frame"
    )
    assert found.draw().height > 64, "the sentence is below the photo"


@pytest.mark.parametrize(
    "options",
    [
        *({"beam": 0}, {"beam": 1000}, {"alternatives": -1}, {"alternatives": 100}, {"seed": -1}),
        *({"temperature": 0.0}, {"temperature": float("nan")}, {"top_p": 0.0}, {"top_p": 1.5}),
    ],
)
def test_what_makes_no_sense(
    model: Model, photos: list[Image.Image], options: dict[str, float]
) -> None:
    with pytest.raises(UsageError):
        model.describe(photos[0], **options)  # type: ignore[arg-type]


def test_a_model_that_cannot_speak(tiny_model: Path, photos: list[Image.Image]) -> None:
    with pytest.raises(ModelError, match="has no head 'sentence': it cannot describe whole photos"):
        regiontalk.load(tiny_model).describe(photos[0])


def test_words_are_as_likely_as_after_each_other(model: Model, photos: list[Image.Image]) -> None:
    """Several photos at a time, filled up with regions that are not there, as one photo by
    itself."""
    head = SentenceHead(model.runtime)
    words = [*model.describe(photos[0]).sentence.split(), "quokka"]
    tokens = head.words.encode(words)
    scenes, expected = [], []
    for photo in photos[:3]:
        codes = model.codes(model.look(photo))
        scenes.append(head.scene(codes.codes, codes.boxes_xyxy, 25))
        state = head._begin(photo_inputs(codes.codes, codes.boxes_xyxy))
        logprobs_of_words = []
        for before, token in pairwise((head.words.start(), *tokens)):
            logprobs, state = head._step(np.array([before]), state)
            logprobs_of_words.append(float(logprobs[0, token]))
        expected.append(logprobs_of_words)
    assert {len(scene) for scene in scenes} == {head.scene_size(25)}
    found = head.log_probabilities(words, np.stack(scenes), 25)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_gains_are_over_a_photo_that_shows_nothing(model: Model, photos: list[Image.Image]) -> None:
    """Of the words that count, without unknown ones."""
    head = SentenceHead(model.runtime)
    words = [*model.describe(photos[0]).sentence.split(), "quokka"]
    every = [model.codes(model.look(photo)) for photo in photos[:2]]
    nothing = head.scene(np.zeros_like(every[0].codes[:1]), np.array([[0.0, 0.0, 1.0, 1.0]]), 25)
    scenes = np.stack(
        [nothing, *(head.scene(codes.codes, codes.boxes_xyxy, 25) for codes in every)]
    )
    logprobs = head.log_probabilities(words, scenes, 25)
    for counted in ([0], list(range(len(words)))):
        known = [place for place in counted if words[place] != "quokka"]
        expected = (logprobs - logprobs[0])[:, known].mean(axis=1)
        counts = [place in counted for place in range(len(words))]
        np.testing.assert_allclose(head.gains(words, counts, scenes, 25), expected, atol=1e-5)
    nowhere = head.gains(words, [False] * len(words), scenes, 25)
    assert nowhere.tolist() == [0.0, 0.0, 0.0]


def test_a_texts_probability_is_that_of_its_words_and_the_end(
    model: Model, photos: list[Image.Image]
) -> None:
    """Of two texts of different lengths and photos at a time, as of each word after the other."""
    head = SentenceHead(model.runtime)
    texts = [head.words.encode(["a", "red", "square"]), head.words.encode(["circle"])]
    inputs = []
    for photo in photos[:2]:
        regions = model.codes(model.look(photo)).first(2)
        inputs.append(photo_inputs(regions.codes, regions.boxes_xyxy))
    both = SentenceInputs(*(np.concatenate(parts) for parts in zip(*inputs, strict=True)))
    found = head.text_log_probabilities(both, texts)
    for row, tokens in enumerate(texts):
        total = 0.0
        state = model.runtime.run("sentence_begin", *inputs[row])
        before = head.words.start()
        for following in [*tokens, END]:
            logprobs, h, c, bias = model.runtime.run("sentence_step", np.array([before]), *state)
            state = (h, c, bias, *state[3:])
            total += float(logprobs[0, following])
            before = following
        assert found[row] == pytest.approx(total, abs=1e-4)
