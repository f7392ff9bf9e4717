"""`find` asked for the name of every object class in every photo: where they are (COCO's AP),
whether they are there (POPE), and both together (SAM 3's cgF1).

The truth are the regions of type `object`. A class is there if the photo has such a region, so
every object of these classes must be marked, as in COCO.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.boxes import Integers
from regiontalk.errors import DataError
from regiontalk.inference import find as finder
from regiontalk.inference.phrases import Phrase
from regiontalk.inference.regions import RegionTable
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.coco_ap import IOU_THRESHOLDS, MOST_BOXES, Detected, coco_ap, matches
from regiontalk.lab.evaluation.intervals import bootstrap
from regiontalk.lab.evaluation.matching import boxes_of
from regiontalk.lab.evaluation.names import objects_of
from regiontalk.model import Model
from regiontalk.models.settings import FindConfig

ASKED_PER_PHOTO = 3  # classes that are there, and as many that are not (POPE)
NEGATIVES = ("random", "popular", "adversarial")


class Finding(NamedTuple):
    """What `find` answers when it is asked for a class in a photo."""

    is_here: bool
    """Whether it says that the photo shows one."""
    detected: Detected
    """The regions that it found, most likely first, and the true boxes."""
    shown: int
    """How many of the regions are likely enough to be shown."""


Findings = Sequence[Mapping[str, Finding]]
"""What `find` answers for each photo, by class."""


def classes_in(records: Iterable[Record]) -> list[str]:
    """The classes of the objects of these photos, by name."""
    objects = chain.from_iterable(map(objects_of, records))
    names = sorted({region.phrase for region in objects})
    if not names:
        raise DataError(
            "no object to look for", hint="regions of type 'object' with a class name as phrase"
        )
    return names


def find_classes(
    model: Model, record: Record, regions: RegionTable, names: Sequence[Phrase]
) -> dict[str, Finding]:
    """Looks for every class among the regions of a photo, in the record's pixels, exactly as
    `Model.find` does."""
    config = model.runtime.info.prediction.find or FindConfig()
    truths = defaultdict(list)
    for region in objects_of(record):
        truths[region.phrase].append(region)
    readable = [name for name in names if name.read.says_something]
    gathered = finder.gather(model.runtime, readable, regions)
    scores = {
        name.text: evidence.probabilities(config)
        for name, evidence in zip(readable, gathered, strict=True)
    }
    findings = {}
    for name in names:
        likely = scores.get(name.text, np.zeros(len(regions)))
        rows = finder.choose(likely, regions.boxes_xyxy, 0.0, MOST_BOXES)
        detected = Detected(regions.boxes_xyxy[rows], likely[rows], boxes_of(truths[name.text]))
        shown = int((detected.scores >= config.likely).sum())
        findings[name.text] = Finding(bool(likely.max() >= config.likely), detected, shown)
    return findings


def evaluate_objects(findings: Findings, seed: int = 0) -> dict[str, Any]:
    """All figures, in percent; `intervals` are 95 % intervals over photos."""
    names = list(findings[0])
    pairs = _pairs(findings)
    questions_by_way = {way: questions(findings, way, seed) for way in NEGATIVES}
    presence = {
        way: _presence(findings, pairs_asked) for way, pairs_asked in questions_by_way.items()
    }

    def figures_of(sample: Integers) -> dict[str, float]:
        return {"cgf1": cg_f1(pairs[sample])["cgf1"]}

    detected = {}
    for name in names:
        detected[name] = [of_photo[name].detected for of_photo in findings]
    return {
        "detection": coco_ap(detected),
        "presence": presence,
        **cg_f1(pairs),
        "intervals": bootstrap(len(findings), figures_of),
        "photos": len(findings),
        "classes": len(names),
    }


# -- is it there? (POPE)


def questions(findings: Findings, way: str, seed: int = 0) -> list[tuple[int, str]]:
    """Photo and class of each question, by POPE's rules: in photos of three classes or more,
    three of them are asked for, and for each a class that is not there.

    `way`: `random`; `popular`: the class in most photos; `adversarial`: the class that is in most
    photos together with the one asked for. Each class is asked for once in a photo.
    """
    random = np.random.default_rng(seed)
    present = [_present(of_photo) for of_photo in findings]
    every = list(findings[0])
    popular = _by_count(chain.from_iterable(present))
    beside = {}
    for name in every if way == "adversarial" else ():
        beside[name] = _by_count(chain.from_iterable(names for names in present if name in names))
    pairs = []
    for number, names in enumerate(present):
        if len(names) < ASKED_PER_PHOTO or len(every) < len(names) + ASKED_PER_PHOTO:
            continue
        taken = set(names)
        chosen = random.permutation(len(names))[:ASKED_PER_PHOTO]
        for name in (names[index] for index in sorted(chosen)):
            shuffled = [every[index] for index in random.permutation(len(every))]
            first = {"random": [], "popular": popular, "adversarial": beside.get(name, [])}[way]
            absent = next(other for other in [*first, *shuffled] if other not in taken)
            taken.add(absent)
            pairs += [(number, name), (number, absent)]
    return pairs


def _present(of_photo: Mapping[str, Finding]) -> list[str]:
    """The classes that a photo shows."""
    return [name for name, finding in of_photo.items() if _is_there(finding)]


def _by_count(names: Iterable[str]) -> list[str]:
    """Most frequent first; of equally frequent ones, the first in the alphabet."""
    return [
        name for name, _ in sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0]))
    ]


def _is_there(finding: Finding) -> bool:
    return len(finding.detected.truths_xyxy) > 0


def _presence(findings: Findings, pairs: Sequence[tuple[int, str]]) -> dict[str, float]:
    answers = [findings[number][name] for number, name in pairs]
    return presence_figures(
        np.array([_is_there(finding) for finding in answers], dtype=bool),
        np.array([finding.is_here for finding in answers], dtype=bool),
    )


def presence_figures(there: NDArray[np.bool_], answered: NDArray[np.bool_]) -> dict[str, float]:
    """POPE's figures, in percent: of questions whose answer is yes where `there`, and was yes where
    `answered`."""
    right = float((there & answered).sum())
    precision = right / answered.sum() if answered.any() else 0.0
    recall = right / there.sum() if there.any() else 0.0
    both = precision + recall
    return {
        "accuracy": 100 * float((there == answered).mean()) if len(there) else 0.0,
        "precision": 100 * float(precision),
        "recall": 100 * float(recall),
        "f1": 100 * float(2 * precision * recall / both) if both else 0.0,
        "yes": 100 * float(answered.mean()) if len(answered) else 0.0,
        "questions": len(there),
    }


# -- is it there, and where? (SAM 3)

TRUE_YES, TRUE_NO, FALSE_YES, FALSE_NO = range(4)
VERDICT_COUNTS = 4


def _pairs(findings: Findings) -> Integers:
    """(photos, 4 + 3 · 10) what `cg_f1` counts in each photo."""
    return np.array([_count(photo.values()) for photo in findings])


def _count(findings: Iterable[Finding]) -> Integers:
    verdicts = np.zeros(VERDICT_COUNTS, dtype=np.int64)
    boxes = np.zeros((3, len(IOU_THRESHOLDS)), dtype=np.int64)  # right, wrong, missed
    for finding in findings:
        there = _is_there(finding)
        if not there:
            verdicts[FALSE_YES if finding.is_here else TRUE_NO] += 1
            continue
        verdicts[TRUE_YES if finding.is_here else FALSE_NO] += 1
        boxes_xyxy, scores, truths_xyxy = finding.detected
        shown = Detected(boxes_xyxy[: finding.shown], scores[: finding.shown], truths_xyxy)
        right = matches(shown).sum(axis=1)
        boxes += [right, finding.shown - right, len(finding.detected.truths_xyxy) - right]
    return np.concatenate([verdicts, boxes.flatten()])


def cg_f1(counts: Integers) -> dict[str, float]:
    """`cgf1` = `mcc` × `positive_f1`, all times 100.

    `mcc`: Matthews' correlation of "is here" with the truth, over all pairs of photo and class.
    `positive_f1`: F1 of the boxes shown in pairs where the class is there, all pooled, mean over
    the IoU thresholds .5 … .95. Differs from SAM 3: boxes instead of masks, paired with the truth
    as in COCO (best score first) instead of by the best assignment, and shown above `find`'s own
    cut-off instead of 0.5.
    """
    total = counts.sum(axis=0).astype(np.float64)
    right, wrong, missed = total[VERDICT_COUNTS:].reshape(3, -1)
    f1 = np.divide(2 * right, 2 * right + wrong + missed, out=np.zeros_like(right), where=right > 0)
    mcc = matthews(*total[:VERDICT_COUNTS])
    return {
        "cgf1": 100 * float(mcc * f1.mean()),
        "cgf1_50": 100 * float(mcc * f1[0]),
        "mcc": 100 * mcc,
        "positive_f1": 100 * float(f1.mean()),
    }


def matthews(true_yes: float, true_no: float, false_yes: float, false_no: float) -> float:
    """Matthews' correlation coefficient; 0 where one of the answers or truths never occurs."""
    margins = (
        (true_yes + false_yes)
        * (true_yes + false_no)
        * (true_no + false_yes)
        * (true_no + false_no)
    )
    return float((true_yes * true_no - false_yes * false_no) / margins**0.5) if margins else 0.0
