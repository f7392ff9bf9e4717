"""How well a sentence fits a photo (K&FF eq. 8), and which region each of its words belongs to
(eqs. 10–12).

Letters: K photos, R regions of each, W words, h the size of a vector. Regions and words are
embedded in one space; their inner product says how well they fit. `word_scores` takes numpy arrays
at inference and torch tensors in training.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]

LENGTHENED_CHAIN = 5
"""Added to the length of every sentence by which eq. 7's score is divided, so that short sentences
do not win."""
PADDING_SCORE = -1e4  # of padding rows; finite, and small enough for bfloat16


def word_scores(vectors: Any, words: Any, used: Any = None) -> Any:
    """vectors (K, R, h), words (W, h) -> how well each word fits its best region of each photo, (K,
    W).

    `used` (K, R): which rows are regions. Summed over the words of a sentence this is S of eq. 8.
    """
    return _largest(similarities(vectors, words, used))


def similarities(vectors: Any, words: Any, used: Any = None) -> Any:
    """vᵢ·sₜ of every region of every photo and every word, (K, R, W); `PADDING_SCORE` in padding
    rows."""
    photos, regions, size = vectors.shape
    products = (vectors.reshape(photos * regions, size) @ words.T).reshape(
        photos, regions, len(words)
    )
    if used is not None:
        products[~used] = PADDING_SCORE
    return products


def _largest(products: Any) -> Any:
    """The largest over the regions, (K, W)."""
    return products.amax(1) if hasattr(products, "amax") else products.max(axis=1)


def align_words(fits: Floats, beta: float | Floats) -> NDArray[np.intp]:
    """The region of each word, (W,), from how well each fits, (W, R): the chain that maximises eq.
    10, exactly.

    E(a) = Σⱼ fits[j, aⱼ] + β Σⱼ [aⱼ = aⱼ₊₁]: with β = 0 every word gets its best region; larger β
    give longer segments. Of equal chains, the one with the lower region for its last word. β may
    differ between neighbours, (W − 1,).
    """
    words, regions = fits.shape
    betas = np.broadcast_to(beta, max(words - 1, 0))
    same = np.eye(regions)
    best = fits[0].astype(np.float64) if words else np.zeros(regions)
    came_from = np.zeros((words, regions), dtype=np.intp)
    for word in range(1, words):
        chains = best[:, None] + betas[word - 1] * same  # (R before, R now)
        came_from[word] = chains.argmax(axis=0)
        best = chains.max(axis=0) + fits[word]
    chosen = np.zeros(words, dtype=np.intp)
    if words:
        chosen[-1] = best.argmax()
    for word in range(words - 1, 0, -1):
        chosen[word - 1] = came_from[word, chosen[word]]
    return chosen


def segments(chosen: NDArray[np.integer]) -> list[tuple[int, int]]:
    """The segments [start, end) of consecutive words with the same region."""
    changes = np.flatnonzero(np.diff(chosen)) + 1
    cuts = [0, *changes.tolist(), len(chosen)]
    return [(start, end) for start, end in pairwise(cuts) if end > start]
