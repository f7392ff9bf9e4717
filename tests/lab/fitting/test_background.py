"""The background of taught words is made from the regions of everyday photos."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.lab.fitting import background
from regiontalk.lab.fitting.background import Examples, SeenRegions, fit
from regiontalk.models.background import NamedRegions, read_background
from regiontalk.models.runtime import Floats


def seen(photos: int, size: int = 12, has_head: bool = True) -> list[SeenRegions]:
    """Regions that vary a hundred times more along the first direction than along the last."""
    random = np.random.default_rng(0)
    spread = np.geomspace(10, 0.1, size)
    return [
        SeenRegions(codes.astype(np.float32), codes[:, :4].astype(np.float32) if has_head else None)
        for codes in random.normal(size=(photos, 20, size)) * spread + 3
    ]


def test_directions_along_which_regions_vary_much_count_less() -> None:
    made, report = fit(seen(50))
    assert report == {"photos": 50, "regions": 1000, "kept": 1000, "examples": 0}
    places = made.codes.place(np.concatenate([photo.codes for photo in seen(50)]))
    variances = np.sort((places**2).mean(axis=0))
    assert variances[-1] / variances[-4] < 2  # 100 and more before
    assert made.vectors is not None
    assert made.vectors.mean.shape == (4,)


def test_what_is_made_is_what_a_model_reads() -> None:
    made, _ = fit(seen(5))
    back = read_background(made.to_bytes(), "background.npz")
    assert back.codes.places.shape == made.codes.places.shape


def test_a_model_without_an_alignment_head_has_codes_alone() -> None:
    assert fit(seen(5, has_head=False))[0].vectors is None


def test_only_so_many_regions_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MAX_KEPT", 30)
    made, _ = fit(seen(5))
    assert len(made.codes.places) == 30


def test_named_regions_are_drawn_from_all_photos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MAX_NAMED", 30)
    photos = [
        replace(one, named=NamedRegions(np.full((10, 6), number, np.float32), (str(number),) * 10))
        for number, one in enumerate(seen(5))
    ]
    named = fit(photos)[0].named
    assert named is not None
    assert len(named.names) == 30
    assert set(named.names) == set("01234")
    assert [float(name) for name in named.names] == named.inputs[:, 0].tolist()
    assert fit(seen(5))[0].named is None


def with_names(photos: list[SeenRegions], kinds: int = 10) -> list[SeenRegions]:
    """A thing in each photo; those of one name differ along direction 3 alone."""
    random = np.random.default_rng(1)
    shapes = random.normal(size=(kinds, 12)) + 3
    named = []
    for number, photo in enumerate(photos):
        code = shapes[number % kinds].astype(np.float32)
        code[3] += random.normal() * 5
        examples = Examples((f"thing {number % kinds}",), code[None], code[None, :4])
        named.append(replace(photo, examples=examples))
    return named


def test_directions_along_which_things_of_a_name_differ_count_less() -> None:
    photos = with_names(seen(50))
    made, report = fit(photos)
    assert report["examples"] == 50
    assert share_of(made.codes.axes, 3) < share_of(fit(seen(50))[0].codes.axes, 3) / 2
    assert made.vectors is not None
    assert share_of(made.vectors.axes, 3) < share_of(made.vectors.axes, 2)


def share_of(axes: Floats, direction: int) -> float:
    """How much a direction counts in a space."""
    return float(np.linalg.norm(axes[direction]) / np.linalg.norm(axes))


def test_nothing_is_learned_from_photos_with_names_that_are_left_out() -> None:
    photos = with_names(seen(50))
    left_out = {f"thing {number}" for number in range(0, 10, 2)}
    made, report = fit(photos, left_out)
    assert report == {"photos": 25, "regions": 500, "kept": 500, "examples": 25}
    assert made.to_bytes() == fit(photos[1::2])[0].to_bytes()


def test_the_code_of_the_recognition_network_is_not_used() -> None:
    photos = [replace(photo, appearance=7) for photo in with_names(seen(50))]
    made, _ = fit(photos)
    codes = photos[0].codes
    others = codes.copy()
    others[:, :7] += 100
    np.testing.assert_array_equal(made.codes.place(codes), made.codes.place(others))
    assert made.codes.axes.shape == (12, 5)


def test_too_few_regions_are_refused() -> None:
    with pytest.raises(DataError, match="0 regions"):
        fit([SeenRegions(np.zeros((0, 12), np.float32), None)])
