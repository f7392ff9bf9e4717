"""Photos kept in memory: opened once, reduced, and never another photo than the one asked for."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from PIL import Image

from regiontalk.lab.training.detector.photo_cache import PhotoCache

SIZES = [(40, 30), (200, 100), (30, 40)]


def photo(number: int) -> Image.Image:
    width, height = SIZES[number]
    return Image.fromarray(
        np.random.default_rng(number).integers(0, 255, (height, width, 3), dtype=np.uint8)
    )


class Opener:
    def __init__(self, number: int) -> None:
        self.number, self.times = number, 0

    def __call__(self) -> Image.Image:
        self.times += 1
        return photo(self.number)


@pytest.fixture
def cache() -> PhotoCache:
    return PhotoCache(SIZES, 100)


def test_each_photo_is_opened_once_and_comes_back_whole(cache):
    openers = [Opener(number) for number in range(3)]
    for number in (2, 0, 1, 0, 2, 1):
        found = cache.get(number, openers[number])
        assert found.size == ((100, 50) if number == 1 else SIZES[number])
        if number != 1:
            assert np.array_equal(np.asarray(found), np.asarray(photo(number)))
    assert [opener.times for opener in openers] == [1, 1, 1]


def test_the_second_time_it_is_the_same(cache):
    first, second = (np.asarray(cache.get(1, Opener(1))).copy() for _ in range(2))
    assert np.array_equal(first, second)


def test_a_photo_of_unexpected_size_is_not_kept(cache):
    opener = Opener(2)
    assert cache.get(0, opener).size == SIZES[2]
    assert cache.get(0, opener).size == SIZES[2]
    assert opener.times == 2
    assert np.array_equal(
        np.asarray(cache.get(2, Opener(2))), np.asarray(photo(2))
    )  # its neighbours are unharmed


def test_in_a_process_that_was_not_forked_photos_are_opened_anew(cache):
    copy = pickle.loads(pickle.dumps(cache))
    opener = Opener(1)
    assert copy.get(1, opener).size == (100, 50)
    assert copy.get(1, opener).size == (100, 50)
    assert opener.times == 2
