"""The multimodal RNN against its equations, and its ways of computing against each other."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from regiontalk.lab.nets.multimodal_rnn import MultimodalRNN, MultimodalRNNConfig, State, packed

CODE, TOKENS, START = 6, 7, 7
SMALL = MultimodalRNNConfig(embedding=5, hidden=8, dropout=0.0)
VARIANTS = [
    replace(SMALL, cell=cell, attention=attention, heads=2, views=views)
    for cell, attention, views in itertools.product(("rnn", "lstm"), (0, 4), (1, 3))
]
VARIANTS += [replace(SMALL, cell=cell, conditioning="multiplicative") for cell in ("rnn", "lstm")]


def make(config: MultimodalRNNConfig, seed: int = 0) -> MultimodalRNN:
    torch.manual_seed(seed)
    net = MultimodalRNN(CODE, TOKENS, 1, config)
    for parameter in net.parameters():
        parameter.data = torch.randn(parameter.shape) * 0.5
    return net.eval()


def scene(rows: int = 3, regions: int = 4, seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    views = torch.randn(rows, 3, CODE, generator=generator)
    codes = torch.randn(rows, regions, CODE, generator=generator)
    return views, codes, torch.rand(rows, regions, 5, generator=generator) + 0.1


@pytest.mark.parametrize("conditioning", ["additive", "multiplicative"])
def test_the_papers_equations(conditioning: Literal["additive", "multiplicative"]) -> None:
    """Eqs. 13–15 in numpy, three steps: the image adds in the first alone, and scales the state in
    all of them."""
    net = make(replace(SMALL, conditioning=conditioning))
    views, regions, places = scene(rows=1)
    weights = {
        name: value.detach().numpy().astype(np.float64) for name, value in net.named_parameters()
    }
    image = weights["image.weight"] @ views[0, 0].numpy() + weights["image.bias"]
    scale = image[8:] if conditioning == "multiplicative" else 1
    h = np.zeros(8)
    state = net.begin(net.look(views, regions, places))
    for step, token in enumerate((START, 3, 5)):
        x = weights["embedding.weight"][token]
        total = (
            weights["word.weight"] @ x
            + weights["word.bias"]
            + weights["recurrent.weight"] @ (h * scale)
        )
        h = np.maximum(total + (image[:8] if step == 0 else 0), 0)
        y = weights["output.weight"] @ h + weights["output.bias"]
        logprobs, state = net.step(torch.tensor([token]), state)
        expected = y - np.log(np.exp(y).sum())
        np.testing.assert_allclose(logprobs[0].detach().numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("config", VARIANTS, ids=str)
def test_teacher_forcing_is_step_after_step(config: MultimodalRNNConfig) -> None:
    net = make(config)
    seen = net.look(*scene())
    tokens = torch.tensor([[START, 2, 5, 3], [START, 6, 4, 0], [START, 0, 0, 0]])
    lengths = torch.tensor([4, 3, 1])
    together = torch.log_softmax(net(seen, tokens, lengths), dim=1)
    state = net.begin(seen)
    apart = []
    for place in range(4):
        logprobs, state = net.step(tokens[:, place], state)
        apart.append(logprobs)
    torch.testing.assert_close(
        together, packed(torch.stack(apart, dim=1), lengths), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("config", VARIANTS, ids=str)
def test_every_weight_learns_and_every_view_counts(config: MultimodalRNNConfig) -> None:
    net = make(config)
    views, regions, places = (part.requires_grad_() for part in scene())
    tokens = torch.tensor([[START, 2, 5, 3]] * 3)
    net(net.look(views, regions, places), tokens, torch.tensor([4, 4, 4])).logsumexp(
        dim=1
    ).sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
    assert views.grad is not None
    used = views.grad.abs().sum(dim=(0, 2)) > 0
    assert used.tolist() == [True, config.views == 3, config.views == 3]
    assert (regions.grad is not None) == bool(config.attention)


def test_gradients_are_those_of_small_differences() -> None:
    config = replace(SMALL, cell="lstm", attention=4, heads=2, views=3, embedding=3, hidden=3)
    net = make(config).double()
    views, regions, places = (part.double() for part in scene(rows=2, regions=2))
    tokens, lengths = torch.tensor([[START, 2, 5], [START, 4, 0]]), torch.tensor([3, 2])

    def logits(views: Tensor, regions: Tensor) -> Tensor:
        return net(net.look(views, regions, places), tokens, lengths)

    assert torch.autograd.gradcheck(logits, (views.requires_grad_(), regions.requires_grad_()))


def test_rows_that_are_no_regions_are_not_attended_to() -> None:
    net = make(replace(SMALL, attention=4))
    views, regions, places = scene(regions=2)
    padded = [
        torch.cat([part, torch.full((3, 3, part.shape[2]), fill)], dim=1)
        for part, fill in ((regions, 50.0), (places, 0.0))
    ]
    plain, _ = net.step(torch.tensor([START] * 3), net.begin(net.look(views, regions, places)))
    with_padding, _ = net.step(torch.tensor([START] * 3), net.begin(net.look(views, *padded)))
    torch.testing.assert_close(plain, with_padding)


def test_attention_looks_at_the_region_that_fits() -> None:
    """One region's memory is the question itself, much enlarged: it gets all the weight."""
    net = make(replace(SMALL, attention=4))
    state = net.begin(net.look(*scene(rows=1)))
    asking = torch.cat([state.h, net.embedding(torch.tensor([2]))], dim=1)
    memory = torch.stack(
        [torch.zeros(4), net.ask(asking)[0] * 100, torch.zeros(4), torch.zeros(4)]
    )[None]
    context = net._attend(asking, State(state.h, state.c, state.bias, memory, state.absent))
    torch.testing.assert_close(context, memory[:, 1])


def test_the_output_begins_with_the_words_frequencies() -> None:
    net = MultimodalRNN(CODE, TOKENS, 1, SMALL)
    counts = torch.tensor([99, 9, 0, 49, 19, 4, 1])
    net.begin_with_frequencies(counts)
    expected = (counts + 1) / (counts + 1).sum()
    torch.testing.assert_close(torch.softmax(net.output.bias, dim=0), expected)


def test_dropout_spares_the_states() -> None:
    """With all words, codes and outputs dropped, the state is what the recurrence and the biases
    make of it."""
    net = make(replace(SMALL, dropout=1.0)).train()
    seen = net.look(*scene())
    torch.testing.assert_close(seen.bias, net.image.bias.expand(3, 8))
    state, _ = net._advance(
        torch.zeros(3, 5), net.word.bias.expand(3, 8), State(torch.ones(3, 8), *net.begin(seen)[1:])
    )
    expected = torch.relu(net.recurrent(torch.ones(3, 8)) + net.word.bias + net.image.bias)
    torch.testing.assert_close(state.h, expected)


def test_packed_order() -> None:
    values = torch.tensor([[1, 2, 3], [4, 5, 0], [6, 0, 0]])
    assert packed(values, torch.tensor([3, 2, 1])).tolist() == [1, 4, 6, 2, 5, 3]
