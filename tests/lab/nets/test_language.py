"""The language model (DenseCap 3.1.4): stepping equals teacher forcing, and so does decoding over
its steps."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regiontalk.inference import decoding
from regiontalk.lab.nets.language import LanguageConfig, LanguageModel
from regiontalk.language.vocabulary import END, UNKNOWN

TOKENS, STYLES, CODE = 9, 2, 6
START = TOKENS
CONFIG = LanguageConfig(embedding=5, hidden=7)
FEEDS = ["once", "always"]


def make_model(feed: str = "once", **more: object) -> LanguageModel:
    torch.manual_seed(3)
    model = LanguageModel(CODE, TOKENS, STYLES, replace(CONFIG, feed=feed, **more)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return model


def codes(count: int = 4) -> torch.Tensor:
    return torch.randn(count, CODE, generator=torch.Generator().manual_seed(1))


def visual_inputs(model: LanguageModel, shown: torch.Tensor) -> torch.Tensor:
    return model.visual_inputs(shown, torch.zeros_like(shown), torch.zeros(len(shown), 5))


@pytest.mark.parametrize("feed", FEEDS)
def test_one_cell_step_equals_the_lstm(feed):
    model = make_model(feed)
    x = torch.randn(3, model.lstm.input_size)
    h, c = torch.randn(3, 7), torch.randn(3, 7)
    _, (expected_h, expected_c) = model.lstm(x[:, None], (h[None], c[None]))
    found_h, found_c = model._cell(x, h, c)
    torch.testing.assert_close(found_h, expected_h[0])
    torch.testing.assert_close(found_c, expected_c[0])


@pytest.mark.parametrize("feed", FEEDS)
def test_stepping_equals_teacher_forcing(feed):
    model = make_model(feed)
    seen = visual_inputs(model, codes())
    fed = torch.tensor([[START, 2, 5, 3], [START + 1, 8, 8, 1], [START, 0, 0, 4], [START, 3, 2, 7]])
    expected = torch.log_softmax(model(seen, fed), dim=2)
    h, c = model.begin(seen)
    for t in range(fed.shape[1]):
        logprobs, h, c = model.step(fed[:, t], h, c, seen)
        torch.testing.assert_close(logprobs, expected[:, t])


@pytest.mark.parametrize("feed", FEEDS)
def test_counted_words_alone_have_the_same_logits(feed):
    model = make_model(feed)
    seen = visual_inputs(model, codes())
    fed = torch.tensor([[START, 2, 3], [START, 4, 0], [START, 0, 0], [START, 5, 6]])
    counted = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 1, 0]], dtype=torch.bool)
    torch.testing.assert_close(model(seen, fed, counted), model(seen, fed)[counted])


def steps(model: LanguageModel) -> decoding.Step:
    """What `decoding` drives, over the net itself."""

    def step(
        tokens: decoding.Integers, state: decoding.State
    ) -> tuple[decoding.Floats, decoding.State]:
        with torch.inference_mode():
            logprobs, h, c = model.step(torch.from_numpy(tokens), *map(torch.from_numpy, state))
        return logprobs.numpy(), (h.numpy(), c.numpy(), state[2])

    return step


@pytest.mark.parametrize("feed", FEEDS)
def test_greedy_captions_are_the_argmax_of_what_teacher_forcing_says(feed):
    model = make_model(feed)
    lengths: set[int] = set()
    for pull_to_end in (0.0, 0.5, 1.0, 1.5):
        with torch.no_grad():
            model.output.bias[UNKNOWN] = -50.0  # so that the rule about <UNK> changes nothing here
            model.output.bias[END] = pull_to_end
            seen = visual_inputs(model, codes(32))
            state = tuple(part.numpy() for part in (*model.begin(seen), seen))
            captions = decoding.word_by_word(steps(model), state, START, decoding.Rules(6))
            for row, caption in enumerate(captions):
                ended = len(caption.tokens) < 6
                words = torch.tensor([*caption.tokens, *([END] if ended else [])])
                fed = torch.tensor([[START, *caption.tokens]])[:, : len(words)]
                forced = torch.log_softmax(model(seen[row : row + 1], fed), dim=2)[0]
                for place, said in enumerate(forced):
                    said[decoding.repeating_words(caption.tokens[:place])] = -torch.inf
                forced[0, END] = -torch.inf  # no caption is empty
                best = forced.max(dim=1)
                assert best.indices.tolist() == words.tolist()
                assert caption.logprob == pytest.approx(best.values.sum().item(), abs=1e-4)
                lengths.add(len(caption.tokens))
    assert len(lengths) > 1, "captions of different lengths are what END is about"


def test_what_follows_the_code_itself_is_ignored():
    """Fed once: T inputs give T outputs, the first of them what follows START; y₋₁ is not among
    them."""
    model = make_model("once")
    seen = visual_inputs(model, codes())
    fed = torch.full((4, 3), START)
    logits = model(seen, fed)
    assert logits.shape == (4, 3, TOKENS)
    whole, _ = model.lstm(torch.cat([seen[:, None], model.embedding(fed)], dim=1))
    torch.testing.assert_close(logits, model.output(whole[:, 1:]))


def test_code_comes_rectified_and_first():
    """x₋₁ = ReLU(linear(code)); a code the ReLU zeroes leaves the model blind."""
    model = make_model("once")
    with torch.no_grad():
        model.visual.bias.fill_(-100.0)
    seen = visual_inputs(model, codes())
    assert (seen == 0).all()
    logits = model(seen, torch.full((4, 2), START))
    torch.testing.assert_close(logits, logits[:1].expand_as(logits))


def test_fed_always_the_code_stands_beside_every_word():
    model = make_model("always")
    seen, fed = visual_inputs(model, codes()), torch.full((4, 2), START)
    beside = torch.cat([model.embedding(fed), seen[:, None].expand(-1, 2, -1)], dim=2)
    torch.testing.assert_close(model(seen, fed), model.output(model.lstm(beside)[0]))
    h, c = model.begin(seen)
    assert not h.any()
    assert not c.any()


@pytest.mark.parametrize("feed", FEEDS)
def test_styles_begin_differently(feed):
    model = make_model(feed)
    seen = visual_inputs(model, codes())
    assert not torch.allclose(
        model(seen, torch.tensor([[START]] * 4)), model(seen, torch.tensor([[START + 1]] * 4))
    )


def test_surroundings_matter_only_where_they_are_asked_for():
    shown, photo, geometry = codes(), codes().flip(0), torch.rand(4, 5)
    plain, wide = make_model(), make_model(surroundings=True)
    torch.testing.assert_close(
        plain.visual_inputs(shown, photo, geometry), visual_inputs(plain, shown)
    )
    seen = wide.visual_inputs(shown, photo, geometry)
    assert not torch.allclose(seen, wide.visual_inputs(shown, photo * 0, geometry))
    assert not torch.allclose(seen, wide.visual_inputs(shown, photo, geometry * 0))


def test_dropout_in_training_alone():
    model = make_model(dropout=0.5)
    seen, fed = visual_inputs(model, codes()), torch.full((4, 3), START)
    assert torch.equal(model(seen, fed), model(seen, fed))
    model.train()
    assert not torch.equal(model(seen, fed), model(seen, fed))


def test_no_regions_no_captions():
    model = make_model()
    assert model(torch.zeros(0, 5), torch.zeros(0, 3, dtype=torch.long)).shape == (0, 3, TOKENS)
