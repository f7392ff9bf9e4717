"""METEOR 1.5's score of an alignment.

Denkowski & Lavie 2014, "Meteor Universal", section 2, with the parameters tuned for English
ranking. The order of the floating-point operations is the jar's.

What a score is computed from is a row of numbers, its statistics: of the hypothesis the length, the
function words, the matched content words by matcher, and the matched function words by matcher; the
same of the reference; chunks. Those of a corpus are the sum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regiontalk.lab.evaluation.meteor.arrays import (
    EXTENT,
    LENGTH,
    MATCHER,
    PLACE,
    START,
    Alignments,
    Integers,
    Matches,
    Questions,
    Sentences,
    Words,
)
from regiontalk.lab.evaluation.meteor.compiled import compiled, compiled_once

ALPHA = 0.85
BETA = 0.2
GAMMA = 0.6
DELTA = 0.75
WEIGHTS = (1.0, 0.6, 0.8, 0.6)  # exact, stem, synonym, paraphrase

HYPOTHESIS = 0
REFERENCE = 10
CHUNKS = 20
COLUMNS = 21
_WORDS, _FUNCTION_WORDS, _MATCHED = 0, 1, 2  # of a side, the ten columns of hypothesis or reference


@compiled_once
def best_references(
    questions: Questions,
    matches: Matches,
    alignments: Alignments,
    sentences: Sentences,
    words: Words,
) -> tuple[NDArray[np.float64], Integers]:
    """Score and statistics of each hypothesis with the first of its best-scoring references."""
    first_reference = questions.first_reference
    scores = np.full(len(questions.hypotheses), -1.0)
    statistics = np.empty((len(questions.hypotheses), COLUMNS), np.int64)
    row = np.empty(COLUMNS, np.int64)
    for question in range(len(questions.hypotheses)):
        hypothesis = _words_of(questions.hypotheses[question], sentences)
        for pair in range(first_reference[question], first_reference[question + 1]):
            reference = _words_of(questions.references[pair], sentences)
            taken = alignments.rows[alignments.first_row[pair] : alignments.first_row[pair + 1]]
            row[:] = 0
            _count_words(
                row[HYPOTHESIS:REFERENCE], hypothesis, words, matches.table, taken, PLACE, EXTENT
            )
            _count_words(
                row[REFERENCE:CHUNKS], reference, words, matches.table, taken, START, LENGTH
            )
            row[CHUNKS] = _count_chunks(matches.table, taken)
            score = _score(row)
            if score > scores[question]:
                scores[question] = score
                for column in range(COLUMNS):
                    statistics[question, column] = row[column]
    return scores, statistics


@compiled_once
def corpus_score(statistics: Integers) -> float:
    """The score from the sum of all rows; a perfect segment adds no chunk."""
    total = np.zeros(COLUMNS, np.int64)
    for row in statistics:
        total += row
        if _is_perfect(row):
            total[CHUNKS] -= row[CHUNKS]
    return _score(total)


@compiled
def _words_of(sentence: int, sentences: Sentences) -> Integers:
    return sentences.words[sentences.first_word[sentence] : sentences.first_word[sentence + 1]]


@compiled
def _count_words(
    side: Integers,
    sentence: Integers,
    words: Words,
    table: Integers,
    taken: Integers,
    start: int,
    length: int,
) -> None:
    """`start` and `length` are the columns of the table that belong to this side."""
    is_function_word = words.is_function_word
    side[_WORDS] = len(sentence)
    for word in sentence:
        side[_FUNCTION_WORDS] += is_function_word[word]
    for row in taken:
        for place in range(table[row, start], table[row, start] + table[row, length]):
            side[_MATCHED + 4 * is_function_word[sentence[place]] + table[row, MATCHER]] += 1


@compiled
def _count_chunks(table: Integers, taken: Integers) -> int:
    """Runs of matches that follow each other in both sentences."""
    chunks = 0
    next_start = -1
    next_place = -1
    for row in taken:
        start = table[row, START]
        place = table[row, PLACE]
        chunks += start != next_start or place != next_place
        next_start = start + table[row, LENGTH]
        next_place = place + table[row, EXTENT]
    return chunks


@compiled
def _score(row: Integers) -> float:
    """Weighted F-mean of precision and recall times one minus the fragmentation penalty."""
    hypothesis = row[HYPOTHESIS:REFERENCE]
    reference = row[REFERENCE:CHUNKS]
    matched = hypothesis[_MATCHED:].sum()
    matched_reference = reference[_MATCHED:].sum()
    if matched == 0 or matched_reference == 0:
        return 0.0
    precision = _weighted_share(hypothesis)
    recall = _weighted_share(reference)
    fragmentation = 0.0 if _is_perfect(row) else row[CHUNKS] / ((matched + matched_reference) / 2.0)
    f_mean = 1.0 / ((1.0 - ALPHA) / precision + ALPHA / recall)
    return max(float(f_mean * (1.0 - GAMMA * fragmentation**BETA)), 0.0)


@compiled
def _is_perfect(row: Integers) -> bool:
    hypothesis = row[HYPOTHESIS:REFERENCE]
    reference = row[REFERENCE:CHUNKS]
    return bool(
        row[CHUNKS] == 1
        and hypothesis[_MATCHED:].sum() == hypothesis[_WORDS]
        and reference[_MATCHED:].sum() == reference[_WORDS]
    )


@compiled
def _weighted_share(side: Integers) -> float:
    """Weighted matches / weighted length."""
    matches = 0.0
    for matcher in range(4):
        matches += side[_MATCHED + matcher] * WEIGHTS[matcher] * DELTA
    for matcher in range(4):
        matches += side[_MATCHED + 4 + matcher] * WEIGHTS[matcher] * (1.0 - DELTA)
    function_words = side[_FUNCTION_WORDS]
    return float(
        matches / (DELTA * (side[_WORDS] - function_words) + (1.0 - DELTA) * function_words)
    )
