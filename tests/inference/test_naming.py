"""Which name is said of a region."""

from __future__ import annotations

import numpy as np

from regiontalk.inference.naming import likeliest, name_probabilities, to_say
from regiontalk.models.name_table import NameTable

NAMES = ("schipperke", "pug", "pagoda", "cup")
COARSE = ("dog", "dog", "building", "cup")
TABLE = NameTable(
    "detector", NAMES, COARSE, np.eye(4, dtype=np.float32), np.zeros(4, dtype=np.float32)
)


def of(*probabilities: float) -> np.ndarray:
    return name_probabilities(np.log(np.array([probabilities], dtype=np.float32)), TABLE)


def test_probabilities_are_the_softmax_of_the_logits() -> None:
    np.testing.assert_allclose(of(0.1, 0.2, 0.3, 0.4), [[0.1, 0.2, 0.3, 0.4]], rtol=1e-5)
    assert np.isfinite(name_probabilities(np.full((1, 4), 1e30, dtype=np.float32), TABLE)).all()


def test_a_fine_name_is_said_only_if_it_is_sure() -> None:
    (sure,) = to_say(of(0.9, 0.05, 0.03, 0.02), TABLE)
    assert (sure.name, round(sure.probability, 4)) == ("schipperke", 0.9)
    (unsure,) = to_say(of(0.3, 0.3, 0.35, 0.05), TABLE)
    assert (unsure.name, round(unsure.probability, 4)) == (
        "dog",
        0.6,
    )  # not the pagoda, the likeliest single name


def test_the_likeliest_names_come_first() -> None:
    (names,) = likeliest(of(0.1, 0.2, 0.3, 0.4), TABLE.names, 3)
    assert [name.name for name in names] == ["cup", "pagoda", "pug"]
