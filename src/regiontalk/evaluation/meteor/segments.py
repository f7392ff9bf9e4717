"""METEOR's compiled steps one after the other, for many segments (a hypothesis and its references) at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regiontalk.evaluation.meteor.aligner import align
from regiontalk.evaluation.meteor.arrays import Integers, Paraphrases, Questions, Sentences, Words
from regiontalk.evaluation.meteor.matching import find_matches
from regiontalk.evaluation.meteor.phrases import find_phrases
from regiontalk.evaluation.meteor.statistics import best_references


def evaluate_segments(
    questions: Questions, sentences: Sentences, words: Words, paraphrases: Paraphrases
) -> tuple[NDArray[np.float64], Integers]:
    """Score and statistics of each segment."""
    phrases = find_phrases(sentences, words, paraphrases)
    matches = find_matches(questions, sentences, words, phrases, paraphrases)
    lengths = np.diff(sentences.first_word)
    references_each = np.diff(questions.first_reference)
    hypothesis_lengths = np.repeat(lengths[questions.hypotheses], references_each)
    alignments = align(matches, hypothesis_lengths, lengths[questions.references])
    return best_references(questions, matches, alignments, sentences, words)
