"""Licence and sources of a model's weights, a part of `model.json`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Weights or data that a model was made from."""

    name: str
    licence: str
    """An SPDX identifier, or the terms in words."""
    obtained_from: str = ""
    """The package or page that it came through."""
    use: str = ""
    """What it was used for."""


@dataclass(frozen=True)
class Terms:
    """What holds for a model's weights."""

    licence: str
    """An SPDX expression."""
    summary: str
    """What one may do with the weights, in one sentence."""
    weights: tuple[Source, ...] = ()
    """Pretrained weights that training started from."""
    training_data: tuple[Source, ...] = ()
