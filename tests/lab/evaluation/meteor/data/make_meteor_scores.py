"""Makes `meteor_scores.json` anew: the jar's scores of pairs from `meteor_sentences.txt`. Needs
Java.

The sentences were written for these tests. A case is [hypothesis, [references], score], by line
numbers from 0.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from pycocoevalcap.meteor.meteor import Meteor

HERE = Path(__file__).parent
NEAR = 6


def choose_cases(count: int) -> list[tuple[int, list[int]]]:
    """Neighbours, which speak of the same thing; random pairs; several references; every line with
    itself."""
    chance = random.Random(0)
    cases = [(line, [line]) for line in range(0, count, 4)]
    cases += [
        (line, [other])
        for line in range(count)
        for other in chance.sample(range(max(line - NEAR, 0), min(line + NEAR, count)), 3)
    ]
    cases += [(chance.randrange(count), [chance.randrange(count)]) for _ in range(100)]
    for _ in range(100):
        line = chance.randrange(NEAR, count - NEAR)
        cases.append((line, chance.sample(range(line - NEAR, line + NEAR), chance.randint(2, 6))))
    return cases


def main() -> None:
    sentences = (HERE / "meteor_sentences.txt").read_text(encoding="utf-8").split("\n")[:-1]
    cases = choose_cases(len(sentences))
    pairs = [(sentences[line], [sentences[other] for other in others]) for line, others in cases]
    numbered = dict(enumerate(pairs))
    references = {number: others for number, (_, others) in numbered.items()}
    corpus, scores = Meteor().compute_score(
        references, {number: [text] for number, (text, _) in numbered.items()}
    )
    rows = [json.dumps([*case, score]) for case, score in zip(cases, scores, strict=True)]
    text = f'{{"corpus": {corpus!r}, "cases": [\n' + ",\n".join(rows) + "\n]}\n"
    (HERE / "meteor_scores.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
