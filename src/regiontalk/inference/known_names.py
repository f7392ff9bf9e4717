"""Whether regions show the thing that a phrase is about, by what they are called: by the model's
table of names, or by captions that were stored. "A dog" and "a small dog on a sofa" are about dogs.
And whether they show another animal: of all things, animals are most often taken for each other.

Shapes: R regions, N names of the table, D the size of a code with the appearance appended.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regiontalk.inference.calibration import Scores
from regiontalk.inference.phrases import Phrase
from regiontalk.language.head_nouns import head_place, named_classes
from regiontalk.language.object_names import object_names, word_forms
from regiontalk.language.synonyms import caption_words
from regiontalk.models.name_table import NameTable
from regiontalk.results import Region


def shown_by_names(phrase: Phrase, probabilities: Scores, table: NameTable) -> Scores | None:
    """(R,) the probability that each region shows what the phrase is about, from those of all names
    (R, N); None if the table has no name for it."""
    rows = table.called(" ".join(phrase.read.known))
    if not rows:
        return None
    shown: Scores = probabilities[:, list(rows)].sum(axis=1)
    return shown


def shown_by_captions(phrase: Phrase, regions: Sequence[Region]) -> Scores | None:
    """(R,) the confidence of each caption that has the word for what the phrase is about, and 0 for
    the others; None if the phrase has no word."""
    if not phrase.read.known:
        return None
    forms = caption_words(phrase.read.known[head_place(phrase.read.known)])
    shown = np.zeros(len(regions))
    for row, region in enumerate(regions):
        words = frozenset[str]().union(*map(word_forms, region.caption.split()))
        if not words.isdisjoint(forms):
            shown[row] = 1.0 if region.confidence is None else region.confidence
    return shown


def others_by_names(phrase: Phrase, probabilities: Scores, table: NameTable) -> Scores | None:
    """(R,) the probability that each region shows another animal than the phrase is about; None for
    a phrase about something else."""
    classes = _animals(phrase)
    if not classes:
        return None
    others: Scores = probabilities[:, list(table.other_animals(classes))].sum(axis=1)
    return others


def others_by_captions(phrase: Phrase, regions: Sequence[Region]) -> Scores | None:
    """(R,) the same as the captions have it: the confidence of those that name another animal. A
    region without a caption, as the whole photo is, may show what any of the captions names."""
    classes = _animals(phrase)
    if not classes:
        return None
    others = np.zeros(len(regions))
    for row, region in enumerate(regions):
        named = frozenset(named_classes(region.caption))
        if named and named <= object_names().animals - classes:
            others[row] = 1.0 if region.confidence is None else region.confidence
    has_caption = np.array([bool(region.caption) for region in regions])
    return np.where(has_caption, others, others.max(initial=0.0))


def _animals(phrase: Phrase) -> frozenset[str]:
    """The class of the animal that the phrase is about; empty if it is about something else."""
    classes = frozenset(named_classes(" ".join(phrase.read.known)))
    return classes if classes <= object_names().animals else frozenset()
