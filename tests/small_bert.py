"""Made-up weights of small BERT models, with the names that their files have."""

from __future__ import annotations

import torch
from torch import Tensor

from regiontalk.lab.nets.text_tower import TextTowerConfig

TOKENS = 11


def bert_weights(config: TextTowerConfig, tokens: int = TOKENS) -> dict[str, Tensor]:
    """Weights as a BERT model's file names them."""
    torch.manual_seed(0)
    width = config.width
    shapes = {
        "embeddings.word_embeddings.weight": (tokens, width),
        "embeddings.position_embeddings.weight": (config.positions, width),
        "embeddings.token_type_embeddings.weight": (2, width),
        "embeddings.LayerNorm.weight": (width,),
        "embeddings.LayerNorm.bias": (width,),
        "pooler.dense.weight": (width, width),
    }
    for number in range(config.blocks):
        layer = f"encoder.layer.{number}."
        for name, (out, into) in {
            "attention.self.query": (width, width),
            "attention.self.key": (width, width),
            "attention.self.value": (width, width),
            "attention.output.dense": (width, width),
            "intermediate.dense": (4 * width, width),
            "output.dense": (width, 4 * width),
        }.items():
            shapes[f"{layer}{name}.weight"] = (out, into)
            shapes[f"{layer}{name}.bias"] = (out,)
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"{layer}{name}.weight"] = (width,)
            shapes[f"{layer}{name}.bias"] = (width,)
    return {name: torch.randn(shape) for name, shape in shapes.items()}
