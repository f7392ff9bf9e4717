"""Throughput of METEOR in Python and of the jar (the peer) on the same pairs, after start-up.

Five kinds of work:
    phrases    random pairs of region phrases of 2 to 8 words
    sentences  random pairs of sentences of 8 to 20 words
    captions   a sentence against five others, none of which ever comes again: nothing to remember
    bags       a sentence against twenty others
    dense      phrases against one to four references, both often said again, as a dense captioner does

Both scorers first do as many other pairs of the same kind, which do not count: Python meets the words then,
and Java compiles its code, for which it gets all works four times (it is at full speed after some 30,000
sentences). Python is measured in one process and in two that share the work; the jar is one process, which uses
the second core for its compiler and garbage collector. Times are wall-clock: see `load_average`, taken before.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from threading import Barrier
from typing import Any

from regiontalk.evaluation.meteor import JavaMeteor, Meteor

Pair = tuple[str, list[str]]
Compose = Callable[[random.Random], str]
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
_LINKS = ["in", "on", "near", "with", "behind", "next to", "in front of", "under", "beside", "on top of", "at"]


def compose_phrase(chance: random.Random) -> str:
    words = [chance.choice(_DETERMINERS)]
    words += chance.sample(_ADJECTIVES, chance.choice([0, 0, 1, 1, 2]))
    words.append(chance.choice(_NOUNS))
    if chance.random() < 0.4:
        words += [chance.choice(_LINKS), chance.choice(_DETERMINERS), chance.choice(_NOUNS)]
    return " ".join(words)


def compose_sentence(chance: random.Random) -> str:
    parts = [compose_phrase(chance), "is", chance.choice(_VERBS), chance.choice(_LINKS), compose_phrase(chance)]
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
    common = iter([phrases[min(int(chance.paretovariate(0.7)), len(phrases)) - 1] for _ in range(5 * count)])
    return {
        "phrases": [(chance.choice(phrases), [chance.choice(phrases)]) for _ in range(count)],
        "sentences": [(chance.choice(sentences), [chance.choice(sentences)]) for _ in range(count)],
        "captions": [(once[i], once[i + 1 : i + 6]) for i in range(0, len(once) - 5, 6)],
        "bags": [(chance.choice(sentences), chance.sample(sentences, 20)) for _ in range(count // 5)],
        "dense": [(next(common), [next(common) for _ in range(chance.randint(1, 4))]) for _ in range(count)],
    }


def measure(scorer: Meteor | JavaMeteor, pairs: Sequence[Pair]) -> tuple[float, list[float]]:
    """Seconds for the second half of the pairs, and its scores."""
    half = len(pairs) // 2
    scorer.scores(pairs[:half])
    start = time.perf_counter()
    scores = scorer.scores(pairs[half:])
    return time.perf_counter() - start, scores


def measure_new_scorer(pairs: Sequence[Pair], together: Barrier) -> float:
    """In a process of its own; all begin at the same time."""
    scorer = Meteor.load()
    half = len(pairs) // 2
    scorer.scores(pairs[:half])
    together.wait()
    start = time.perf_counter()
    scorer.scores(pairs[half:])
    return time.perf_counter() - start


def measure_two_processes(pairs: Sequence[Pair]) -> float:
    """Seconds of the slower of two processes that share the work."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, context.Pool(2) as pool:
        together = manager.Barrier(2)
        return max(pool.starmap(measure_new_scorer, [(pairs[n::2], together) for n in (0, 1)], chunksize=1))


def compare(pairs: Sequence[Pair], java: JavaMeteor) -> dict[str, Any]:
    scored = sum(len(references) for _, references in pairs[len(pairs) // 2 :])
    java_seconds, expected = measure(java, pairs)
    seconds, scores = measure(Meteor.load(), pairs)
    two = measure_two_processes(pairs)
    return {
        "cases": len(expected),
        "pairs": scored,
        "pairs_per_second": round(scored / seconds),
        "pairs_per_second_two_processes": round(scored / two),
        "jar_pairs_per_second": round(scored / java_seconds),
        "ratio": round(java_seconds / seconds, 2),
        "ratio_two_processes": round(java_seconds / two, 2),
        "largest_difference": max(abs(a - b) for a, b in zip(scores, expected, strict=True)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5000, help="cases of each kind of work")
    parser.add_argument("--sentences", type=Path, help="a text file, a phrase or sentence a line")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    start = time.perf_counter()
    Meteor.load()
    result: dict[str, Any] = {"load_seconds": round(time.perf_counter() - start, 3)}
    if hasattr(os, "getloadavg"):
        result["load_average"] = round(os.getloadavg()[0], 2)
    start = time.perf_counter()
    with JavaMeteor.load() as java:
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
    columns = ("pairs", "jar_pairs_per_second", "pairs_per_second", "pairs_per_second_two_processes")
    print(f"\n{'':10}{'pairs':>8}{'jar/s':>9}{'1 process/s':>20}{'2 processes/s':>20}   largest difference")
    for name in kinds:
        row = result[name]
        pairs, jar, one, two = (row[column] for column in columns)
        with_ratios = (f"{one} ({row['ratio']}x)", f"{two} ({row['ratio_two_processes']}x)")
        print(f"{name:10}{pairs:>8}{jar:>9}{with_ratios[0]:>20}{with_ratios[1]:>20}   {row['largest_difference']}")


if __name__ == "__main__":
    main()
