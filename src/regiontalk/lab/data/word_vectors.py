"""GloVe's vectors (Pennington et al. 2014) of the words in data sets, as the small file that
recipes read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from regiontalk.errors import DataError
from regiontalk.io.files import read_lines, replacing
from regiontalk.lab.data.records import stream_records
from regiontalk.language.vocabulary import clean_karpathy


def write_word_vectors(vectors: Path, datasets: Iterable[Path], out: Path) -> int:
    """Writes `words` (N) and `vectors` (N, e) in half precision; how many words were found.

    `vectors` is a text file such as glove.6B.100d.txt: one word and its numbers per line.
    """
    wanted = words_of(datasets)
    vectors_by_word: dict[str, Sequence[float]] = {}
    for number, line in read_lines(vectors):
        word, *numbers = line.decode("utf-8", "replace").split()
        if word in wanted:
            try:
                vectors_by_word[word] = [float(text) for text in numbers]
            except ValueError as error:
                raise DataError(
                    f"{vectors}, line {number}: not a word and its vector: {error}"
                ) from error
    if not vectors_by_word or len({len(vector) for vector in vectors_by_word.values()}) > 1:
        raise DataError(f"{vectors}: vectors of different lengths, or none of the words")
    words = sorted(vectors_by_word)
    with replacing(out) as partial, partial.open("wb") as file:
        table = np.array([vectors_by_word[word] for word in words], dtype=np.float16)
        np.savez_compressed(file, words=np.array(words), vectors=table)
    return len(words)


def words_of(datasets: Iterable[Path]) -> set[str]:
    """Every word of the sentences and phrases, cleaned as K&FF do."""
    words = set[str]()
    for record in chain.from_iterable(map(stream_records, datasets)):
        phrases = [region.phrase for region in record.regions]
        for text in (*record.sentences, *phrases):
            words.update(clean_karpathy(text))
    return words
