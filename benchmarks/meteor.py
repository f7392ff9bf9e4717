"""Throughput of METEOR in Python and of the jar (the peer) on the same pairs, after start-up.

Four kinds of work:
    phrases    random pairs of region phrases of 2 to 8 words
    sentences  random pairs of sentences of 8 to 20 words
    captions   a sentence against five others, none of which ever comes again: nothing to remember
    dense      phrases against one to four references, both often said again, as a dense captioner does

The jar runs every work twice and the second time counts, so that its code is compiled; all questions are
written ahead of the answers. Python begins each work with nothing remembered. Times are wall-clock.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regiontalk.evaluation.meteor import JavaMeteor, Meteor

Pair = tuple[str, list[str]]

_DETERMINERS = ["a", "a", "a", "the", "the", "two", "some", "his", "her", "one"]
_ADJECTIVES = (
    "red blue green white black brown small little big large young old wooden metal bright dark striped wet "
    "dirty empty tall long happy colourful grey yellow"
).split()
_NOUNS = (
    "man men woman women boy girl child children dog dogs cat horse car bus truck bicycle bike street road "
    "field grass beach ocean water wall building house window door table chair plate bowl cup shirt hat jacket "
    "trousers tree trees sky cloud ball frisbee skateboard surfboard snow hill mountain bench sign light train "
    "tracks boat bird kite umbrella bag camera phone pizza cake sandwich"
).split()
_VERBS = (
    "standing sitting walking running riding holding wearing playing jumping looking eating watching throwing "
    "catching carrying pulling climbing crossing lying resting"
).split()
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


def texts(options: argparse.Namespace, shortest: int, longest: int, compose: Any, count: int) -> list[str]:
    """Different texts of so many words, from the file or composed."""
    chance = random.Random(shortest)
    if options.sentences is None:
        lines = (compose(chance) for _ in range(100 * count))
    else:
        lines = iter(options.sentences.read_text(encoding="utf-8").splitlines())
    fitting: dict[str, None] = {}
    for line in lines:
        if shortest <= len(line.split()) <= longest:
            fitting[line] = None
        if len(fitting) == count:
            break
    if len(fitting) < 12:
        raise SystemExit(f"too few lines of {shortest} to {longest} words")
    found = list(fitting)
    chance.shuffle(found)
    return found


def works(options: argparse.Namespace) -> dict[str, list[Pair]]:
    chance = random.Random(0)
    count = options.pairs
    phrases = texts(options, 2, 8, compose_phrase, count // 5)
    sentences = texts(options, 8, 20, compose_sentence, count // 5)
    once = texts(options, 8, 20, compose_sentence, 6 * count // 5)
    often = [min(int(chance.paretovariate(0.7)), len(phrases)) - 1 for _ in range(5 * count)]
    common = iter([phrases[rank] for rank in often])
    return {
        "phrases": [(chance.choice(phrases), [chance.choice(phrases)]) for _ in range(count)],
        "sentences": [(chance.choice(sentences), [chance.choice(sentences)]) for _ in range(count)],
        "captions": [(once[i], once[i + 1 : i + 6]) for i in range(0, len(once) - 5, 6)],
        "dense": [(next(common), [next(common) for _ in range(chance.randint(1, 4))]) for _ in range(count)],
    }


def timed(scorer: Meteor | JavaMeteor, pairs: Sequence[Pair]) -> tuple[float, list[float]]:
    start = time.perf_counter()
    scores = scorer.scores(pairs)
    return time.perf_counter() - start, scores


_worker: Meteor


def start_worker() -> None:
    global _worker  # noqa: PLW0603, how a pool's processes keep what they load once
    _worker = Meteor.load()


def score_in_worker(pairs: Sequence[Pair]) -> list[float]:
    return _worker.scores(pairs)


def time_two_processes(pairs: Sequence[Pair]) -> float:
    half = len(pairs) // 2
    with multiprocessing.get_context("spawn").Pool(2, start_worker) as pool:
        pool.map(score_in_worker, [[("a", ["b"])]] * 8, chunksize=1)
        start = time.perf_counter()
        pool.map(score_in_worker, [pairs[:half], pairs[half:]], chunksize=1)
        return time.perf_counter() - start


def compare(pairs: Sequence[Pair], java: JavaMeteor) -> dict[str, Any]:
    scored = sum(len(references) for _, references in pairs)
    java.scores(pairs)
    java_seconds, expected = timed(java, pairs)
    seconds, scores = timed(Meteor.load(), pairs)
    two = time_two_processes(pairs)
    return {
        "cases": len(pairs),
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
    parser.add_argument("--pairs", type=int, default=5000, help="cases per kind of work")
    parser.add_argument("--sentences", type=Path, help="a text file, a phrase or sentence a line")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    start = time.perf_counter()
    Meteor.load()
    result: dict[str, Any] = {"load_seconds": round(time.perf_counter() - start, 3)}
    start = time.perf_counter()
    with JavaMeteor.load() as java:
        java.score("a dog", ["a dog"])
        result["jar_load_seconds"] = round(time.perf_counter() - start, 3)
        for name, pairs in works(options).items():
            result[name] = compare(pairs, java)
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:16} {value}")


if __name__ == "__main__":
    main()
