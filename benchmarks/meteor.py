"""Throughput of METEOR here and of the jar (the peer) on the same pairs, after start-up.

Five kinds of work: phrases    random pairs of region phrases of 2 to 8 words sentences  random
    pairs of sentences of 8 to 20 words captions   a sentence against five others, none of which
    ever comes again: nothing to remember bags       a sentence against twenty others dense
    phrases against one to four references, both often said again, as a dense captioner does

All first do as many other pairs of the same kind, which do not count: ours meet the words then, and
Java compiles its code, for which it gets all works four times (it is at full speed after some
30,000 sentences). What counts is done in rounds, by the jar, one process of ours and two of ours in
turn, so that other work on the machine meets all of them; a ratio is the median over the rounds.
The jar is one process, which uses the second core for its compiler and garbage collector. Times are
wall-clock: see `load_average`, taken before.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from jar import JarMeteor
from regiontalk.lab.evaluation import scoring_pool
from regiontalk.lab.evaluation.meteor import Meteor
from regiontalk.lab.evaluation.scoring_pool import MeteorWorkers
from report import options_of

Pair = tuple[str, list[str]]
Compose = Callable[[random.Random], str]
Scorer = JarMeteor | Meteor | MeteorWorkers
ROUNDS = 5
PHRASE, SENTENCE = range(2, 9), range(8, 21)

_DETERMINERS = ["a", "a", "a", "the", "the", "two", "some", "his", "her", "one"]
_ADJECTIVES, _NOUNS, _VERBS = (
    text.split()
    for text in (
        """red blue green white black brown small little big large young old wooden metal bright dark striped wet
        dirty empty tall long happy colourful grey yellow""",
        """man men woman women boy girl child children dog dogs cat horse car bus truck bicycle bike street road
        field grass beach ocean water wall building house window door table chair plate bowl cup shirt hat jacket
        trousers tree trees sky cloud ball frisbee skateboard surfboard snow hill mountain bench sign light train
        tracks boat bird kite umbrella bag camera phone pizza cake sandwich""",
        """standing sitting walking running riding holding wearing playing jumping looking eating watching
        throwing catching carrying pulling climbing crossing lying resting""",
    )
)
_LINKS = [
    "in",
    "on",
    "near",
    "with",
    "behind",
    "next to",
    "in front of",
    "under",
    "beside",
    "on top of",
    "at",
]


def compose_phrase(chance: random.Random) -> str:
    words = [chance.choice(_DETERMINERS)]
    words += chance.sample(_ADJECTIVES, chance.choice([0, 0, 1, 1, 2]))
    words.append(chance.choice(_NOUNS))
    if chance.random() < 0.4:
        words += [chance.choice(_LINKS), chance.choice(_DETERMINERS), chance.choice(_NOUNS)]
    return " ".join(words)


def compose_sentence(chance: random.Random) -> str:
    parts = [
        compose_phrase(chance),
        "is",
        chance.choice(_VERBS),
        chance.choice(_LINKS),
        compose_phrase(chance),
    ]
    if chance.random() < 0.6:
        parts += ["while", compose_phrase(chance), "is", chance.choice(_VERBS)]
    return " ".join(parts).capitalize() + " ."


def texts(options: argparse.Namespace, lengths: range, compose: Compose, count: int) -> list[str]:
    """Different texts of so many words, from the file or composed."""
    chance = random.Random(lengths.start)
    if options.sentences is None:
        lines = (compose(chance) for _ in range(100 * count))
    else:
        lines = iter(options.sentences.read_text(encoding="utf-8").splitlines())
    fitting = dict.fromkeys(line for line in lines if len(line.split()) in lengths)
    found = list(islice(fitting, count))
    if len(found) < 24:
        raise SystemExit(f"too few texts of {lengths.start} to {lengths.stop - 1} words")
    chance.shuffle(found)
    return found


def works(options: argparse.Namespace) -> dict[str, list[Pair]]:
    """Twice as many cases as asked for; the first half is for warming up."""
    chance = random.Random(0)
    count = 2 * options.pairs
    phrases = texts(options, PHRASE, compose_phrase, count // 5)
    sentences = texts(options, SENTENCE, compose_sentence, count // 5)
    once = texts(options, SENTENCE, compose_sentence, 6 * count // 5)
    common = iter(
        [phrases[min(int(chance.paretovariate(0.7)), len(phrases)) - 1] for _ in range(5 * count)]
    )
    return {
        "phrases": [(chance.choice(phrases), [chance.choice(phrases)]) for _ in range(count)],
        "sentences": [(chance.choice(sentences), [chance.choice(sentences)]) for _ in range(count)],
        "captions": [(once[i], once[i + 1 : i + 6]) for i in range(0, len(once) - 5, 6)],
        "bags": [
            (chance.choice(sentences), chance.sample(sentences, 20)) for _ in range(count // 5)
        ],
        "dense": [
            (next(common), [next(common) for _ in range(chance.randint(1, 4))])
            for _ in range(count)
        ],
    }


def seconds(scorer: Scorer, pairs: Sequence[Pair]) -> tuple[float, list[float]]:
    """How long it takes, and the scores."""
    start = time.perf_counter()
    scores = scorer.scores(pairs)
    return time.perf_counter() - start, scores


def compare(pairs: Sequence[Pair], java: JarMeteor) -> dict[str, Any]:
    half = len(pairs) // 2
    rounds = [pairs[half + number :: ROUNDS] for number in range(ROUNDS)]
    times: list[tuple[float, float, float]] = []
    difference = 0.0
    with closing(MeteorWorkers(2)) as two:
        one = Meteor.load()
        for scorer in (java, one, two):
            scorer.scores(pairs[:half])
        for some in rounds:
            java_time, expected = seconds(java, some)
            own_time, scores = seconds(one, some)
            times.append((java_time, own_time, seconds(two, some)[0]))
            difference = max(
                difference, *(abs(a - b) for a, b in zip(scores, expected, strict=True))
            )
    scored = sum(len(references) for _, references in pairs[half:])
    jar_total, own_total, two_total = map(sum, zip(*times, strict=True))
    return {
        "cases": len(pairs) - half,
        "pairs": scored,
        "pairs_per_second": round(scored / own_total),
        "pairs_per_second_two_processes": round(scored / two_total),
        "jar_pairs_per_second": round(scored / jar_total),
        "ratio": round(median(jar / own for jar, own, _ in times), 2),
        "ratio_two_processes": round(median(jar / two for jar, _, two in times), 2),
        "largest_difference": difference,
    }


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--pairs", type=int, default=5000, help="cases of each kind of work")
    parser.add_argument("--sentences", type=Path, help="a text file, a phrase or sentence a line")
    options = parser.parse_args()
    scoring_pool.MAX_PAIRS_IN_ONE_PROCESS = (
        0  # what is measured here would be too little to start processes for
    )
    start = time.perf_counter()
    Meteor.load()
    result: dict[str, Any] = {"load_seconds": round(time.perf_counter() - start, 3)}
    if hasattr(os, "getloadavg"):
        result["load_average"] = round(os.getloadavg()[0], 2)
    start = time.perf_counter()
    java = JarMeteor()
    java.score("a dog", ["a dog"])
    result["jar_load_seconds"] = round(time.perf_counter() - start, 3)
    kinds = works(options)
    for pairs in 3 * list(kinds.values()):
        java.scores(pairs[: len(pairs) // 2])
    for name, pairs in kinds.items():
        result[name] = compare(pairs, java)
    if options.json:
        print(json.dumps(result))
        return
    print_table(result, list(kinds))


def print_table(result: dict[str, Any], kinds: Sequence[str]) -> None:
    for name, value in result.items():
        if name not in kinds:
            print(f"{name}: {value}")
    columns = (
        "pairs",
        "jar_pairs_per_second",
        "pairs_per_second",
        "pairs_per_second_two_processes",
    )
    print(
        f"\n{'':10}{'pairs':>8}{'jar/s':>9}{'1 process/s':>20}{'2 processes/s':>20}   largest difference"
    )
    for name in kinds:
        row = result[name]
        pairs, jar, one, two = (row[column] for column in columns)
        with_ratios = (f"{one} ({row['ratio']}x)", f"{two} ({row['ratio_two_processes']}x)")
        print(
            f"{name:10}{pairs:>8}{jar:>9}{with_ratios[0]:>20}{with_ratios[1]:>20}   {row['largest_difference']}"
        )


if __name__ == "__main__":
    main()
