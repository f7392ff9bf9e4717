"""The text tower: BERT's encoder, written out once more in its own terms."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

from regiontalk.errors import ModelError
from regiontalk.lab.nets.text_tower import (
    EPSILON,
    TextTower,
    TextTowerConfig,
    load_text_tower,
    mean_of_tokens,
)
from small_bert import TOKENS, bert_weights

CONFIG = TextTowerConfig(blocks=2, width=8, heads=2, positions=6)


def plain_bert(weights: dict[str, Tensor], tokens: list[int]) -> Tensor:
    """One text, (T,) -> (T, E), a head at a time."""

    def norm(x: Tensor, name: str) -> Tensor:
        gain, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return F.layer_norm(x, x.shape[-1:], gain, bias, EPSILON)

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    x = weights["embeddings.word_embeddings.weight"][tokens]
    x = x + weights["embeddings.position_embeddings.weight"][: len(tokens)]
    x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for number in range(CONFIG.blocks):
        layer = f"encoder.layer.{number}"
        q, k, v = (linear(x, f"{layer}.attention.self.{n}") for n in ("query", "key", "value"))
        size = CONFIG.width // CONFIG.heads
        heads = []
        for start in range(0, CONFIG.width, size):
            part = slice(start, start + size)
            fits = (q[:, part] @ k[:, part].T / math.sqrt(size)).softmax(dim=1)
            heads.append(fits @ v[:, part])
        attended = linear(torch.cat(heads, dim=1), f"{layer}.attention.output.dense")
        x = norm(x + attended, f"{layer}.attention.output.LayerNorm")
        inner = F.gelu(linear(x, f"{layer}.intermediate.dense"))
        x = norm(x + linear(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    return x


@pytest.fixture
def tower(tmp_path: Path) -> TextTower:
    save_file(bert_weights(CONFIG), tmp_path / "model.safetensors")
    made = TextTower(TOKENS, CONFIG).eval().requires_grad_(False)
    load_text_tower(made, tmp_path / "model.safetensors")
    return made


def test_it_computes_what_bert_does(tower: TextTower) -> None:
    weights = bert_weights(CONFIG)
    texts = [[2, 7, 4, 9, 3], [2, 5, 3]]
    tokens = torch.tensor([texts[0], [*texts[1], 0, 0]])
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    x = tower(tokens, mask)
    first, second = (plain_bert(weights, text) for text in texts)
    torch.testing.assert_close(x[0], first, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(x[1, :3], second, rtol=1e-4, atol=1e-5)
    means = mean_of_tokens(x, mask)
    torch.testing.assert_close(means[1], second.mean(dim=0), rtol=1e-4, atol=1e-5)


def test_weights_of_another_net_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file(bert_weights(CONFIG), path)
    with pytest.raises(ModelError, match="another net"):
        load_text_tower(TextTower(TOKENS + 1, CONFIG), path)
    path.write_bytes(b"no weights at all")
    with pytest.raises(ModelError, match="cannot be read"):
        load_text_tower(TextTower(TOKENS, CONFIG), path)


def test_depth_counts_from_the_end() -> None:
    tower = TextTower(TOKENS, CONFIG)
    names = ("blocks.1.mlp.fc1.weight", "blocks.0.norm1.bias", "tokens.weight", "norm.bias")
    assert [tower.depth(name) for name in names] == [1, 2, 3, 3]
