"""The METEOR 1.5 scorer: texts become numbers here, the rest is compiled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from threading import Timer

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import UsageError
from regiontalk.lab.evaluation.meteor.aligner import align
from regiontalk.lab.evaluation.meteor.arrays import Integers, Questions
from regiontalk.lab.evaluation.meteor.lexicon import Lexicon
from regiontalk.lab.evaluation.meteor.matching import find_matches
from regiontalk.lab.evaluation.meteor.phrases import find_phrases
from regiontalk.lab.evaluation.meteor.statistics import best_references, corpus_score
from regiontalk.lab.evaluation.meteor.tables import Notify, Tables

PAIRS_AT_ONCE = 10_000  # pairs of sentences: enough to hide what a call costs, and little memory

Pair = tuple[str, Sequence[str]]


class Meteor:
    """METEOR 1.5 for English, as `java -jar meteor-1.5.jar - - -stdio -l en -norm` computes it."""

    metric = "meteor"

    def __init__(self, tables: Tables) -> None:
        self._paraphrases = tables.paraphrases
        self._lexicon = Lexicon(tables)

    @classmethod
    def load(cls, notify: Notify | None = None) -> Meteor:
        """Loads METEOR; it needs the `evaluate` extra. `notify` is called with a message if the
        first use takes long."""
        meteor = cls(Tables.load(notify))
        patience = Timer(
            2.0, notify or str, ["Compiling METEOR (once, takes about a quarter of a minute)"]
        )
        patience.start()
        try:
            meteor.corpus_score([("a dog", ["a dog"])])
        finally:
            patience.cancel()
        return meteor

    def score(self, hypothesis: str, references: Sequence[str]) -> float:
        """Between 0 and 1: the best over the references."""
        return self.scores([(hypothesis, references)])[0]

    def scores(self, pairs: Iterable[Pair]) -> list[float]:
        out: list[float] = []
        for some in _portions(pairs):
            out += self._evaluate(some)[0].tolist()
        return out

    def corpus_score(self, pairs: Iterable[Pair]) -> float:
        """The score from the statistics of all segments together, which is not the mean of their
        scores."""
        statistics = [self._evaluate(some)[1] for some in _portions(pairs)]
        return corpus_score(np.concatenate(statistics)) if statistics else 0.0

    def _evaluate(self, pairs: Sequence[Pair]) -> tuple[NDArray[np.float64], Integers]:
        """Score and statistics of each segment (a hypothesis and its references)."""
        hypotheses = [hypothesis for hypothesis, _ in pairs]
        references = list(chain.from_iterable(others for _, others in pairs))
        texts = list(dict.fromkeys(chain(hypotheses, references)))
        number_of = {text: number for number, text in enumerate(texts)}
        questions = Questions(
            np.array([number_of[text] for text in hypotheses]),
            np.array([number_of[text] for text in references]),
            np.cumsum([0, *(len(others) for _, others in pairs)]),
        )
        sentences = self._lexicon.sentences(texts)
        words = self._lexicon.words()
        phrases = find_phrases(sentences, words, self._paraphrases)
        matches = find_matches(questions, sentences, words, phrases, self._paraphrases)
        lengths = np.diff(sentences.first_word)
        hypothesis_lengths = np.repeat(
            lengths[questions.hypotheses], np.diff(questions.first_reference)
        )
        alignments = align(matches, hypothesis_lengths, lengths[questions.references])
        return best_references(questions, matches, alignments, sentences, words)


def _portions(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    portion: list[Pair] = []
    count = 0
    for hypothesis, references in pairs:
        if not references:
            raise UsageError("METEOR needs at least one reference")
        portion.append((hypothesis, references))
        count += len(references)
        if count >= PAIRS_AT_ONCE:
            yield portion
            portion = []
            count = 0
    if portion:
        yield portion
