"""Sentences encoded for the alignment nets: as words with vectors from a file, or as edges of
dependency trees."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regiontalk.errors import DataError
from regiontalk.io.files import open_file, read_file, read_json, replacing
from regiontalk.lab.data.parse_tree import Tree, load_parser
from regiontalk.lab.nets.alignment import AlignmentConfig, AlignmentNet, Texts
from regiontalk.lab.nets.sentence_encoders import WINDOW_WORDS
from regiontalk.lab.nets.text_tower import TOKEN_TABLE, read_text_tower
from regiontalk.lab.training.checkpoints import Trained
from regiontalk.lab.training.recipe.heads import AlignmentRecipe
from regiontalk.language.vocabulary import SPECIAL, Vocabulary, clean_karpathy
from regiontalk.language.wordpiece import PAD, WordPieces
from regiontalk.language.wordpiece import UNKNOWN as UNKNOWN_PIECE

RAREST_RELATION = (
    50  # a relation that is rarer among the training edges shares its weights with other rare ones
)
MAX_WORD_LIST_BYTES = 1 << 24

Edges = list[tuple[str, str, str]]
"""Relation, head, dependent."""
Sentence = NDArray[np.int64]


class SentenceReader(Protocol):
    """Encodes sentences, and stacks them for the net."""

    @property
    def words(self) -> Vocabulary: ...
    @property
    def relations(self) -> tuple[str, ...]:
        """The relations of dependency trees, where it reads those."""
        ...

    def read(self, sentence: str) -> Sentence: ...
    def stack(self, sentences: Sequence[Sentence]) -> Texts: ...


@dataclass(frozen=True)
class WordReader:
    """Sentences as words, at most `WINDOW_WORDS`."""

    words: Vocabulary
    relations: tuple[str, ...] = ()

    def split(self, sentence: str) -> list[str]:
        return (self.words.clean(sentence) or [])[:WINDOW_WORDS]

    def read(self, sentence: str) -> Sentence:
        return self.encode(self.split(sentence))

    def encode(self, words: Sequence[str]) -> Sentence:
        return np.array(self.words.encode(words), dtype=np.int64)

    def stack(self, sentences: Sequence[Sentence]) -> Texts:
        lengths = [len(sentence) for sentence in sentences]
        tokens = np.zeros((len(sentences), max(lengths, default=0)), dtype=np.int64)
        for row, sentence in zip(tokens, sentences, strict=True):
            row[: len(sentence)] = sentence
        return Texts(torch.from_numpy(tokens), torch.tensor(lengths))


@dataclass(frozen=True)
class EdgeReader:
    """Sentences as the edges (relation, head, dependent) of their dependency trees; relation 0 is
    any rare one."""

    words: Vocabulary
    relations: tuple[str, ...]
    parses: dict[str, Edges]

    @classmethod
    def build(
        cls, words: Vocabulary, training: Iterable[str], parses: dict[str, Edges]
    ) -> EdgeReader:
        edges = chain.from_iterable(parses[sentence] for sentence in training)
        counts = Counter(relation for relation, _, _ in edges)
        common = sorted(relation for relation, count in counts.items() if count >= RAREST_RELATION)
        return cls(words, ("", *common), parses)

    def read(self, sentence: str) -> Sentence:
        numbers = {relation: number for number, relation in enumerate(self.relations)}
        rows = [
            (numbers.get(relation, 0), *self.words.encode((head, dependent)))
            for relation, head, dependent in self.parses[sentence]
        ]
        return np.array(rows, dtype=np.int64).reshape(-1, 3)

    def stack(self, sentences: Sequence[Sentence]) -> Texts:
        lengths = torch.tensor([len(sentence) for sentence in sentences])
        return Texts(torch.from_numpy(np.concatenate(sentences)), lengths)


def trained_reader(
    trained: Trained[AlignmentNet, AlignmentRecipe], sentences: Iterable[str]
) -> SentenceReader:
    """The reader that a net was trained with, ready for `sentences`."""
    if trained.recipe.parses is None:
        return WordReader(trained.words)
    parses = load_parses(Path(trained.recipe.parses), sentences, trained.words)
    return EdgeReader(trained.words, tuple(trained.state["relations"]), parses)


def read_word_vectors(path: Path) -> dict[str, NDArray[np.float32]]:
    """Word -> vector, from an .npz with `words` and `vectors`."""
    try:
        with open_file(path) as file, np.load(file, allow_pickle=False) as stored:
            words = stored["words"].tolist()
            vectors = stored["vectors"].astype(np.float32)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: cannot be read as word vectors: {error}") from error
    if vectors.ndim != 2 or len(words) != len(vectors):
        raise DataError(f"{path}: {len(words)} words, but vectors of shape {vectors.shape}")
    return dict(zip(words, vectors, strict=True))


def vector_table(words: Vocabulary, vectors: dict[str, NDArray[np.float32]]) -> Tensor:
    """(tokens, e): a row for each token, zero where the file has no vector."""
    size = len(next(iter(vectors.values())))
    table = np.zeros((len(words), size), dtype=np.float32)
    for row, word in enumerate(words.words, start=len(SPECIAL)):
        if word in vectors:
            table[row] = vectors[word]
    return torch.from_numpy(table)


def bert_table(words: Vocabulary, pieces: WordPieces, weights: Path) -> Tensor:
    """(tokens, e): the vector of each word in a BERT model's table of pieces; of a word that is
    several pieces, their mean. END, which no sentence has, is padding."""
    table = read_text_tower(weights)[TOKEN_TABLE].float()
    if len(table) != len(pieces):
        raise DataError(f"{weights}: {len(table)} tokens, but {len(pieces)} pieces in the list")
    rows = [table[pieces.id(special)] for special in (PAD, UNKNOWN_PIECE)]
    rows += [table[pieces.encode(word)[1:-1]].mean(dim=0) for word in words.words]
    return torch.stack(rows)


def read_word_list(path: Path) -> list[str]:
    """The words of a text file with one a line, as K&FF clean them; lines of several words, or of
    none, are left out."""
    text = read_file(path, MAX_WORD_LIST_BYTES).decode("utf-8", "replace")
    lines = [clean_karpathy(line) for line in text.splitlines()]
    return list(dict.fromkeys(words[0] for words in lines if len(words) == 1))


def new_net(
    config: AlignmentConfig, code: int, words: Vocabulary, table: Tensor | None, relations: int = 0
) -> AlignmentNet:
    """A net whose word embedding starts from `table` (tokens, e), if there is one, and has its
    size. A word without a vector there starts at random, or stays zero where the embedding is not
    trained."""
    if table is None:
        return AlignmentNet(config, code, len(words), relations)
    net = AlignmentNet(replace(config, embedding=table.shape[1]), code, len(words), relations)
    word_table = net.get_parameter("words.table.weight")
    has_vector = table.abs().sum(dim=1, keepdim=True) > 0
    without = word_table.data if config.train_embedding else torch.zeros_like(word_table.data)
    word_table.data = torch.where(has_vector, table, without)
    return net


def load_parses(path: Path, sentences: Iterable[str], cleaning: Vocabulary) -> dict[str, Edges]:
    """Sentence -> edges, from a file that keeps them; sentences that it lacks are parsed and added
    to it."""
    known = _read_parses(path) if path.exists() else {}
    missing = list(dict.fromkeys(sentence for sentence in sentences if sentence not in known))
    if missing:
        known |= zip(missing, _parse(missing, cleaning), strict=True)
        with replacing(path) as temporary, gzip.open(temporary, "wt", encoding="utf-8") as file:
            json.dump(known, file)
    return known


def _read_parses(path: Path) -> dict[str, Edges]:
    try:
        stored = read_json(path)
        parses = {}
        for sentence, edges in stored.items():
            parses[sentence] = [(relation, head, word) for relation, head, word in edges]
        return parses
    except (DataError, ValueError, AttributeError, TypeError) as error:
        raise DataError(
            f"{path}: cannot be read as parses: {error}", hint="delete it, and it is made again"
        ) from error


def _parse(sentences: Sequence[str], cleaning: Vocabulary) -> list[Edges]:
    return [_edges(tree, cleaning) for tree in load_parser()(sentences)]


def _edges(tree: Tree, cleaning: Vocabulary) -> Edges:
    """The edges between words; punctuation is no word."""
    edges: Edges = []
    for place, token in enumerate(tree.tokens):
        head, dependent = (cleaning.clean(word.text) for word in (tree.governor(place), token))
        if token.dep != "ROOT" and head and dependent:
            edges.append((token.dep, head[0], dependent[0]))
    return edges
