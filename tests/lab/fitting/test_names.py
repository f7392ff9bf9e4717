"""Names are learned from codes; how sure they are is chosen on held-out photos."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.inference.naming import name_probabilities
from regiontalk.lab.data.records import TrueRegion
from regiontalk.lab.fitting import names
from regiontalk.lab.fitting.names import NamedCodes

SIZE = 16


def photos(count: int, noise: float) -> list[NamedCodes]:
    """Codes near one centre per name; entry 0 is dead, entry 1 tells how sharp a photo is and says
    nothing."""
    random = np.random.default_rng(3)
    centres = np.random.default_rng(4).normal(size=(5, SIZE))
    made = []
    for number in range(count):
        name = number % 5
        code = centres[name] + noise * random.normal(size=SIZE)
        code[:2] = 0, random.normal()
        made.append(
            NamedCodes(
                f"{number}.jpg",
                (f"thing {name}",),
                ("thing",),
                (False,),
                code[None].astype(np.float32),
            )
        )
    return made


def test_names_are_learned_and_their_probabilities_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "STEPS", 300)
    table, report = names.fit(photos(400, 1.2), "detector")
    assert (table.names, set(table.coarse)) == (
        tuple(f"thing {number}" for number in range(5)),
        {"thing"},
    )
    others = photos(800, 1.2)[400:]
    found = name_probabilities(np.concatenate([one.codes for one in others]), table)
    right = found.argmax(axis=1) == np.array([int(one.names[0][-1]) for one in others])
    assert right.mean() > 0.8
    assert abs(right.mean() - found.max(axis=1).mean()) < 0.06
    assert report["photos"] == 400
    assert report["right"] > 70


def test_too_few_names_are_an_error() -> None:
    with pytest.raises(DataError, match="too few names"):
        names.fit(photos(400, 1.0)[::5], "detector")


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        ({"phrase": "Schipperke", "type": "whole", "coarse": "Dog"}, ("schipperke", "dog", False)),
        ({"phrase": "cat", "type": "object"}, ("cat", "cat", False)),
        ({"phrase": "a man in a red shirt", "type": "people"}, ("man", "person", True)),
        ({"phrase": "his blue helmet", "type": "clothing"}, ("helmet", "helmet", True)),
        ({"phrase": "left guy", "type": "referring"}, None),
        ({"phrase": "the background", "type": "scene"}, None),
        ({"phrase": "", "type": "object"}, None),
    ],
)
def test_what_a_true_region_is_called(region: dict[str, str], expected: object) -> None:
    assert names.name_of(TrueRegion((0.0, 0.0, 1.0, 1.0), **region)) == expected


def test_rare_nouns_are_left_out_and_plurals_join_their_singular(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(names, "STEPS", 10)
    monkeypatch.setattr(names, "MIN_NOUN_EXAMPLES", 30)
    made = photos(200, 1.0)
    phrased = [
        replace(photo, names=(noun,), coarse=(noun,), is_noun=(True,))
        for photo, noun in zip(
            made[:70], ["tree"] * 35 + ["trees"] * 10 + ["moth"] * 25, strict=True
        )
    ]
    table, _ = names.fit([*made[70:], *phrased], "detector")
    assert "tree" in table.names
    assert {"trees", "moth"}.isdisjoint(table.names)
