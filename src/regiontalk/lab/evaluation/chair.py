"""CHAIR (Rohrbach et al. 2018): how many of the objects that sentences mention are not in the
photo.

    CHAIR-i = mentions of objects that are not there / all mentions
    CHAIR-s = sentences with at least one of them / all sentences

A photo shows the classes of its regions of type `object`, and those that people mention in its
sentences and other regions.

Differs from the paper: the nouns are those of `language/object_names.toml`, where the longest name
counts, "orange" before a noun is a colour, and a noun of several classes ("bag") is right if one of
them is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from regiontalk.boxes import Integers
from regiontalk.errors import DataError
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.intervals import bootstrap
from regiontalk.language.object_names import MAX_NAME_WORDS, object_names, singulars
from regiontalk.language.vocabulary import FUNCTION_WORDS, clean_karpathy, word_set

GROUPS = word_set("couple crowd family")  # "a couple of dogs" mentions no person
MOST_LISTED = 10


class Mention(NamedTuple):
    """A noun of a sentence, and the object classes that it may name."""

    noun: str
    classes: tuple[str, ...]


def mentions(sentence: str) -> list[Mention]:
    """The objects that a sentence mentions, in its order; one mentioned twice is there twice."""
    words = clean_karpathy(sentence)
    named = []
    index = 0
    while index < len(words):
        length = _name_length(words, index)
        name = words[index : index + max(length, 1)]
        classes = object_names().classes_of(name) if length else ()
        index += len(name)
        following = words[index] if index < len(words) else ""
        if classes and not _is_no_object(name, following):
            named.append(Mention(" ".join(name), classes))
    return named


def _name_length(words: Sequence[str], index: int) -> int:
    """Words of the longest name that starts at `index`; 0 if there is none."""
    for length in range(min(MAX_NAME_WORDS, len(words) - index), 0, -1):
        name = words[index : index + length]
        known = object_names().name_of(name)
        if known is not None and known.count(" ") == length - 1:
            return length
    return 0


def _is_no_object(name: Sequence[str], following: str) -> bool:
    """Whether a word before another is something else: "baby elephant", "passenger train", "orange
    shirt"."""
    if name == ["orange"]:
        return following == "and" or (bool(following) and following not in FUNCTION_WORDS)
    names = object_names()
    kinds = (
        {names.kinds.get(class_name) for class_name in names.classes_of([following])}
        if following
        else ()
    )
    if name[-1] in GROUPS and following == "of":
        return True
    if name[-1] == "passenger":
        return "vehicle" in kinds
    return "animal" in kinds and not names.family.isdisjoint(singulars(name[-1]))


def classes_shown(record: Record) -> frozenset[str]:
    """The classes of a photo's objects, and those that people mention in what they wrote."""
    texts = [*record.sentences]
    for region in record.regions:
        if region.type != "object":
            texts += region.references
    every_mention = chain.from_iterable(map(mentions, texts))
    return _marked(record).union(*(mention.classes for mention in every_mention))


def evaluate_chair(records: Iterable[Record], sentences: Mapping[str, str]) -> dict[str, Any]:
    """`chair_i` and `chair_s` in percent, with 95 % intervals over photos; `recall`: the share of
    the marked classes that are mentioned.

    `sentences`: image -> what a model says of it. Images without a sentence, or of which nothing is
    known, are left out.
    """
    rows = []
    invented: Counter[str] = Counter()
    for record in records:
        shown = classes_shown(record)
        if record.image not in sentences or not shown:
            continue
        mentioned = mentions(sentences[record.image])
        wrong = [mention.noun for mention in mentioned if shown.isdisjoint(mention.classes)]
        invented.update(wrong)
        marked = _marked(record)
        recalled = marked & set(chain.from_iterable(mention.classes for mention in mentioned))
        rows.append((len(mentioned), len(wrong), bool(wrong), len(marked), len(recalled)))
    if not rows:
        raise DataError("no sentence about a photo whose objects are known")
    counts = np.array(rows)
    return _shares(counts) | {
        "intervals": bootstrap(len(counts), lambda sample: _shares(counts[sample])),
        "sentences": len(counts),
        "mentions": int(counts[:, 0].sum()),
        "invented": dict(invented.most_common(MOST_LISTED)),
    }


def _marked(record: Record) -> frozenset[str]:
    return frozenset(region.phrase for region in record.regions if region.type == "object")


def _shares(counts: Integers) -> dict[str, float]:
    mentioned, wrong, bad_sentences, marked, recalled = counts.sum(axis=0).tolist()
    return {
        "chair_i": 100 * wrong / mentioned if mentioned else 0.0,
        "chair_s": 100 * bad_sentences / len(counts),
        "recall": 100 * recalled / marked if marked else 0.0,
    }
