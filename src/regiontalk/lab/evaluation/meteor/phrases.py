"""The phrases of sentences that the paraphrase table knows."""

from __future__ import annotations

import numpy as np

from regiontalk.lab.evaluation.meteor.arrays import Paraphrases, Phrases, Sentences, Words
from regiontalk.lab.evaluation.meteor.compiled import compiled, compiled_once


@compiled_once
def find_phrases(sentences: Sentences, words: Words, paraphrases: Paraphrases) -> Phrases:
    all_words = sentences.words
    first_word = sentences.first_word
    node_of = words.node
    first_phrase = np.zeros(len(first_word), np.int64)
    matches = np.empty((4 * len(all_words) + 1, 3), np.int64)
    count = 0
    for sentence in range(len(first_word) - 1):
        begin = first_word[sentence]
        end = first_word[sentence + 1]
        for start in range(begin, end):
            node = node_of[all_words[start]]
            stop = start + 1
            while node >= 0:
                if count == len(matches):
                    matches = np.concatenate((matches, np.empty_like(matches)))
                matches[count, 0] = node
                matches[count, 1] = start - begin
                matches[count, 2] = stop - start
                count += 1
                following = node_of[all_words[stop]] if stop < end else -1
                node = _longer_phrase(node, following, paraphrases) if following >= 0 else -1
                stop += 1
        first_phrase[sentence + 1] = count
    return Phrases(
        matches[:count, 0].copy(),
        matches[:count, 1].copy(),
        matches[:count, 2].copy(),
        first_phrase,
    )


@compiled
def _longer_phrase(node: int, word: int, paraphrases: Paraphrases) -> int:
    """The node of a phrase with one more word, or -1; children are ordered by that word."""
    last_word = paraphrases.last_word
    singles = paraphrases.single_words
    first = paraphrases.first_child[node] - singles
    end = paraphrases.first_child[node + 1] - singles
    place = first + np.searchsorted(last_word[first:end], word)
    return int(place + singles) if place < end and last_word[place] == word else -1
