"""What the thing in a region is called: the likeliest names of the model's table, and which of them
to say.

A name is said only as finely as it is sure: "a schipperke" where that is likely, else "a dog" with
the probability of all dogs together.

Shapes: B regions, D the size of a code with the appearance appended, N names, G everyday words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from regiontalk.inference.calibration import Scores
from regiontalk.inference.codes import with_codes
from regiontalk.inference.regions import Look, RegionTable
from regiontalk.models.name_table import NameTable
from regiontalk.models.runtime import Floats, Runtime
from regiontalk.results import Name

MIN_FINE_PROB = 0.5  # a name finer than the everyday word is said from this probability on


def with_names(runtime: Runtime, look: Look, regions: RegionTable) -> RegionTable:
    """The regions with the name to say of each, if the model has names."""
    if runtime.names is None or not len(regions):
        return regions
    regions = with_codes(runtime, look, regions)
    probabilities = name_probabilities(regions.codes, runtime.names)
    return replace(regions, names=tuple(to_say(probabilities, runtime.names)))


def name_probabilities(codes: Floats, table: NameTable) -> Scores:
    """Codes (B, D) -> (B, N) the probability of every name."""
    # Not `@`: its threads wait for each other, and so hold the cores that the graphs need next.
    products = np.einsum("bd,nd->bn", codes, table.weights)
    logits = (products + table.biases).astype(np.float64)
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: Scores = shifted / shifted.sum(axis=1, keepdims=True)
    return probabilities


def likeliest(probabilities: Scores, words: Sequence[str], top: int) -> list[tuple[Name, ...]]:
    """The `top` likeliest names of each region, most likely first."""
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, :top]
    names = []
    for region_probabilities, best in zip(probabilities, order.tolist(), strict=True):
        likeliest_names = [Name(words[row], float(region_probabilities[row])) for row in best]
        names.append(tuple(likeliest_names))
    return names


def to_say(probabilities: Scores, table: NameTable) -> list[Name]:
    """The name to say of each region: the likeliest one if it is sure, else the likeliest everyday
    word."""
    words, groups = _everyday_words(table)
    together = np.zeros((len(probabilities), len(words)))
    for row, group in enumerate(groups.tolist()):
        together[:, group] += probabilities[:, row]
    chosen = []
    for fine, coarse in zip(probabilities, together, strict=True):
        best_name = int(fine.argmax())
        best_word = int(coarse.argmax())
        if fine[best_name] >= MIN_FINE_PROB:
            chosen.append(Name(table.names[best_name], float(fine[best_name])))
        else:
            chosen.append(Name(words[best_word], float(coarse[best_word])))
    return chosen


def _everyday_words(table: NameTable) -> tuple[list[str], NDArray[np.intp]]:
    """The everyday words (G,), and the number of each name's word (N,)."""
    words = list(dict.fromkeys(table.coarse))
    numbers = {word: number for number, word in enumerate(words)}
    return words, np.array([numbers[word] for word in table.coarse], dtype=np.intp)
