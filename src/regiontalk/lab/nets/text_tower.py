"""A transformer that reads texts: BERT's encoder (Devlin et al. 2019), as small as in
all-MiniLM-L6-v2 (Wang et al. 2020; Reimers & Gurevych 2019).

Shapes: L texts, T tokens of each, E numbers of a token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from regiontalk.errors import ModelError, check_range
from regiontalk.io.files import open_file
from regiontalk.lab.nets.layers import MLP, Attention

EPSILON = 1e-12
TOKEN_TABLE = "tokens.weight"
BERT_NAMES = {
    "embeddings.word_embeddings.": "tokens.",
    "embeddings.position_embeddings.": "positions.",
    "embeddings.token_type_embeddings.": "types.",
    "embeddings.LayerNorm.": "norm.",
    "encoder.layer.": "blocks.",
    "attention.output.dense.": "attention.proj.",
    "attention.output.LayerNorm.": "norm1.",
    "intermediate.dense.": "mlp.fc1.",
    "output.dense.": "mlp.fc2.",
    "output.LayerNorm.": "norm2.",
}
"""Parts of the names in BERT's files -> ours; the first ones that fit come first."""


@dataclass(frozen=True)
class TextTowerConfig:
    """The defaults are those of all-MiniLM-L6-v2."""

    blocks: int = 6
    """Number of transformer blocks."""
    width: int = 384
    """E, the numbers of a token."""
    heads: int = 12
    """Attention heads of a block."""
    positions: int = 512
    """The most tokens that a text may have."""
    dropout: float = 0.0
    """After the embedding, attention and MLP."""

    def __post_init__(self) -> None:
        check_range(
            1, blocks=self.blocks, width=self.width, heads=self.heads, positions=self.positions
        )
        check_range(0, 1, dropout=self.dropout)


class TextBlock(nn.Module):
    """Attention and an MLP, each added to its input and then normalised."""

    def __init__(self, config: TextTowerConfig) -> None:
        super().__init__()
        self.attention = Attention(config.width, config.heads)
        self.norm1 = nn.LayerNorm(config.width, eps=EPSILON)
        self.mlp = MLP(config.width)
        self.norm2 = nn.LayerNorm(config.width, eps=EPSILON)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(L, T, E), which tokens are attended to (L, 1, 1, T) -> (L, T, E)."""
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        return self.norm2(x + self.dropout(self.mlp(x)))


class TextTower(nn.Module):
    """Tokens (L, T) and which of them are no padding (L, T) -> a vector of each (L, T, E)."""

    def __init__(self, tokens: int, config: TextTowerConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(tokens, config.width)
        self.positions = nn.Embedding(config.positions, config.width)
        self.types = nn.Embedding(2, config.width)  # all texts are of the first type
        self.norm = nn.LayerNorm(config.width, eps=EPSILON)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(TextBlock(config) for _ in range(config.blocks))
        for table in (self.tokens, self.positions, self.types):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.encode(self.tokens(tokens), mask)

    def encode(self, embedded: Tensor, mask: Tensor) -> Tensor:
        """Embedded tokens (L, T, E), and which of them are no padding (L, T) -> (L, T, E)."""
        positions = self.positions.weight[: embedded.shape[1]]  # (T, E)
        x = self.dropout(self.norm(embedded + positions + self.types.weight[0]))  # (L, T, E)
        for block in self.blocks:
            x = block(x, mask[:, None, None])
        return x

    def depth(self, name: str) -> int:
        """How many layers follow the one that this weight is in, for rates that fall towards the
        first layers."""
        part, _, rest = name.partition(".")
        count = self.config.blocks
        return count - int(rest.split(".", 1)[0]) if part == "blocks" else count + 1


def mean_of_tokens(x: Tensor, mask: Tensor) -> Tensor:
    """The mean over a text's tokens: (L, T, E), (L, T) -> (L, E)."""
    weights = mask[..., None].to(x.dtype)
    return (x * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


def read_text_tower(path: Path) -> dict[str, Tensor]:
    """The weights in a BERT model's `model.safetensors`, by our names."""
    open_file(path).close()  # neither a pipe nor a device
    try:
        return _own_names(load_file(path))
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path}: cannot be read as pretrained weights: {error}") from error


def load_text_tower(tower: TextTower, path: Path, tokens: Sequence[int] | None = None) -> None:
    """Fills the tower from a BERT model's `model.safetensors`; with `tokens`, its table has only
    these."""
    named = read_text_tower(path)
    table = named.get(TOKEN_TABLE)
    if tokens is not None and table is not None:
        named[TOKEN_TABLE] = table[list(tokens)]
    expected = tower.state_dict()
    wrong = [key for key in expected if key not in named or named[key].shape != expected[key].shape]
    if wrong:
        raise ModelError(
            f"{path}: weights of another net ({wrong[0]} is missing or has another shape)"
        )
    tower.load_state_dict({key: named[key].to(expected[key].dtype) for key in expected})


def _own_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """BERT's names -> ours; the matrices of queries, keys and values become one."""
    named: dict[str, Tensor] = {}
    for name, value in state.items():
        for theirs, ours in BERT_NAMES.items():
            name = name.replace(theirs, ours)  # noqa: PLW2901
        named[name] = value
    for name in [name for name in named if ".attention.self.query." in name]:
        parts = [named[name.replace("query", part)] for part in ("query", "key", "value")]
        named[name.replace("self.query", "qkv")] = torch.cat(parts)
    return named
