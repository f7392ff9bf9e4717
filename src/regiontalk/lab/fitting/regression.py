"""What the fits share: logistic regression, choices among several, and numbers as they are
stored."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regiontalk.inference.calibration import Verdicts, sigmoid

Floats = NDArray[np.float64]

MAX_ROUNDS = 100
LAST_STEP = 1e-9
LONGEST_STEP = 2.0  # Newton's method may diverge where nearly all are right or wrong
STORED_DIGITS = 6  # of a stored number
CHOICE_ROUNDS = 50
LAST_CHOICE_STEP = 1e-6
MOST_HALVINGS = 40  # of a step of Newton's method
IMPOSSIBLE = -1e9  # of a row that is padding


def logistic_regression(columns: Floats, wanted: Floats, counts: Floats | None = None) -> Floats:
    """Logistic regression by Newton's method: columns (K, N) and targets (N,) -> weights (K,).
    `counts` (N,): how much each target counts; default: all the same."""
    weights = np.zeros(len(columns))
    counts = np.ones(len(wanted)) if counts is None else counts
    for _ in range(MAX_ROUNDS):
        probabilities = sigmoid(weights @ columns)
        curved = columns * (counts * probabilities * (1 - probabilities))
        curvature = curved @ columns.T + 1e-9 * np.eye(len(columns))
        step = np.linalg.solve(curvature, columns @ (counts * (probabilities - wanted)))
        longest = float(np.abs(step).max())
        weights = weights - step * min(1.0, LONGEST_STEP / max(longest, LAST_STEP))
        if longest < LAST_STEP:
            break
    return weights


def smoothed(right: Verdicts) -> Floats:
    """Platt's targets, (n₊+1)/(n₊+2) and 1/(n₋+2) instead of 1 and 0: they keep a fit finite where
    right and wrong can be separated without error."""
    hits = int(right.sum())
    misses = int((~right).sum())
    return np.where(right, (hits + 1) / (hits + 2), 1 / (misses + 2))


def rounded(numbers: Floats) -> tuple[float, ...]:
    return tuple(float(f"{number:.{STORED_DIGITS}g}") for number in numbers.tolist())


def padded(
    pairs: Sequence[tuple[Floats, NDArray[np.bool_]]],
) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
    """Pads N choices with features (R, K) and which of them are right (R,) to one length: features
    (N, R, K), which rows are used (N, R), and which of those are right (N, R)."""
    most = max(len(right) for _, right in pairs)
    columns = pairs[0][0].shape[1]
    features = np.zeros((len(pairs), most, columns))
    used = np.zeros((len(pairs), most), dtype=bool)
    rights = np.zeros_like(used)
    for number, (rows, right) in enumerate(pairs):
        features[number, : len(right)] = rows
        used[number, : len(right)] = True
        rights[number, : len(right)] = right
    return features, used, rights


def conditional_logit(
    features: Floats, used: NDArray[np.bool_], right: NDArray[np.bool_]
) -> Floats:
    """The weights (K,) for which right choices among R are the likeliest: features (N, R, K), by
    Newton's method. A step that makes them less likely is halved until it does not."""
    weights = np.zeros(features.shape[2])
    loss = _choice_loss(weights, features, used, right)
    for _ in range(CHOICE_ROUNDS):
        step = _newton_step(weights, features, used, right)
        for _ in range(MOST_HALVINGS):
            next_loss = _choice_loss(weights + step, features, used, right)
            if next_loss <= loss:
                break
            step = step / 2
        else:
            break
        weights = weights + step
        loss = next_loss
        if np.abs(step).max() < LAST_CHOICE_STEP:
            break
    return weights


def _newton_step(
    weights: Floats, features: Floats, used: NDArray[np.bool_], right: NDArray[np.bool_]
) -> Floats:
    logits = np.where(used, features @ weights, IMPOSSIBLE)
    chosen = _softmax(logits)  # (N, R)
    wanted = _softmax(np.where(right, logits, IMPOSSIBLE))
    gradient = np.einsum("nr,nrk->k", wanted - chosen, features)
    centred = features - np.einsum("nr,nrk->nk", chosen, features)[:, None]
    curvature = np.einsum("nr,nrk,nrl->kl", chosen, centred, centred) + 1e-9 * np.eye(len(weights))
    step: Floats = np.linalg.solve(curvature, gradient)
    return step


def _choice_loss(
    weights: Floats, features: Floats, used: NDArray[np.bool_], right: NDArray[np.bool_]
) -> float:
    """−log of the probability that all choices are right."""
    logits = features @ weights
    every = _log_of_sums(np.where(used, logits, IMPOSSIBLE))
    of_right = _log_of_sums(np.where(right, logits, IMPOSSIBLE))
    return float((every - of_right).sum())


def _log_of_sums(logits: Floats) -> Floats:
    """(N, R) -> (N,)"""
    highest = logits.max(axis=1)
    sums: Floats = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
    return sums


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=1, keepdims=True)
    return shares
