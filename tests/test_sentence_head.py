"""Sentences through the exported head, on the small model that has learned a little."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import regiontalk
from regiontalk import Description
from regiontalk.data.records import Dataset
from regiontalk.decoding import repeating_words
from regiontalk.errors import ModelError, UsageError
from regiontalk.images import open_photo
from regiontalk.model import Model
from regiontalk.nets.multimodal_rnn import MultimodalRNN
from regiontalk.training.checkpoints import find_checkpoint, load_sentence_net
from regiontalk.vocabulary import END, UNKNOWN, Vocabulary


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
        logprobs[:, [UNKNOWN, *repeating_words(said)]] = -torch.inf
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


def test_a_wider_beam_is_no_worse_on_average(model: Model, photos: list[Image.Image]) -> None:
    means = [np.mean([model.describe(photo, beam=beam).logprob for photo in photos]) for beam in (1, 3, 7)]
    assert means == sorted(means)
    assert means[0] < means[2], "the photos are too easy to tell"


def test_alternatives_are_different_and_sorted(model: Model, photos: list[Image.Image]) -> None:
    found = model.describe(photos[0], alternatives=4)
    assert len(found.alternatives) == 4
    sentences = [found.sentence, *(other.sentence for other in found.alternatives)]
    assert len(set(sentences)) == 5
    logprobs = [found.logprob, *(other.logprob for other in found.alternatives)]
    assert logprobs == sorted(logprobs, reverse=True)
    assert found.sentence == model.describe(photos[0]).sentence
    assert not any("<" in sentence for sentence in sentences), "no END, no <UNK>"
    assert len(model.describe(photos[0], alternatives=9).alternatives) == 9, "the beam grows with what is asked for"


def test_draws_depend_on_the_seed_alone(model: Model, photos: list[Image.Image]) -> None:
    first = model.describe(photos[0], seed=1, alternatives=5)
    assert model.describe(photos[0], seed=1, alternatives=5) == first
    others = [model.describe(photos[0], seed=seed).sentence for seed in range(8)]
    assert len(set(others)) > 1
    logprobs = [first.logprob, *(other.logprob for other in first.alternatives)]
    assert logprobs == sorted(logprobs, reverse=True)


def test_where_it_came_from_and_how_it_is_drawn(model: Model, scene_path: Path) -> None:
    found = model.describe(str(scene_path))
    assert isinstance(found, Description)
    assert (found.path, found.width, found.height, found.model) == (str(scene_path), 96, 64, "speaking")
    assert found.draw().crop((0, 0, 96, 64)).tobytes() == open_photo(scene_path).tobytes(), "no frame"
    assert found.draw().height > 64, "the sentence is below the photo"


@pytest.mark.parametrize("options", [{"beam": 0}, {"beam": 1000}, {"alternatives": -1}, {"beam": 3, "alternatives": 3}])
def test_what_makes_no_sense(model: Model, photos: list[Image.Image], options: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        model.describe(photos[0], **options)  # type: ignore[arg-type]


def test_a_model_that_cannot_speak(tiny_model: Path, photos: list[Image.Image]) -> None:
    with pytest.raises(ModelError, match="has no head 'sentence': it cannot describe whole photos"):
        regiontalk.load(tiny_model).describe(photos[0])
