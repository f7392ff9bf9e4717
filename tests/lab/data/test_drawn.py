"""Drawn scenes: shapes stand where their boxes are, in the colour their phrases say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from regiontalk import boxes
from regiontalk.images.photo import open_photo
from regiontalk.lab.data.checking import Checker
from regiontalk.lab.data.drawn import (
    COLOURS,
    GROUND,
    MOST_OVERLAP,
    SHAPES,
    draw_scene,
    write_scenes,
)
from regiontalk.lab.data.records import Dataset


def test_a_shape_fills_its_box_with_its_colour():
    for seed in range(20):
        picture, regions = draw_scene(np.random.default_rng(seed), 120, 90, shapes=1)
        pixels = np.asarray(picture)
        (region,) = regions
        painted = (pixels != GROUND).any(axis=2)
        rows, columns = np.flatnonzero(painted.any(axis=1)), np.flatnonzero(painted.any(axis=0))
        extent = (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
        np.testing.assert_allclose(region.xyxy, extent, atol=2)
        colour = region.phrase.split()[1]
        assert tuple(pixels[painted][0]) == COLOURS[colour]


def test_phrases_name_colour_and_shape():
    phrases = {
        r.phrase
        for seed in range(200)
        for r in draw_scene(np.random.default_rng(seed), 100, 100, 3)[1]
    }
    assert phrases == {f"a {colour} {shape}" for colour in COLOURS for shape in SHAPES}


def test_shapes_differ():
    """The same box and colour, another shape: other pixels."""
    seen = {}
    for seed in range(400):
        picture, (region,) = draw_scene(np.random.default_rng(seed), 100, 100, 1)
        shape, side = region.phrase.split()[2], region.xyxy[2] - region.xyxy[0]
        share = float((np.asarray(picture) != GROUND).any(axis=2).sum() / side**2)
        seen.setdefault(shape, []).append(share)
    means = sorted(float(np.mean(shares)) for shares in seen.values())
    assert len(means) == 4
    assert all(b - a > 0.02 for a, b in itertools.pairwise(means))


def test_shapes_hardly_overlap_and_stay_inside():
    for seed in range(50):
        picture, regions = draw_scene(np.random.default_rng(seed), 100, 80, 4)
        corners = np.array([region.xyxy for region in regions])
        assert np.triu(boxes.iou(corners, corners), 1).max() <= MOST_OVERLAP
        assert corners.min() >= 0
        assert (corners[:, 2:] <= picture.size).all()


def test_written_scenes_are_a_sound_data_set(tmp_path):
    write_scenes(tmp_path / "drawn", train=5, dev=3, seed=2, long_side=80)
    assert list(Checker(tmp_path / "drawn", quick=False).problems()) == []
    train, dev = (Dataset(tmp_path / "drawn", split) for split in ("train", "dev"))
    assert (len(train), len(dev)) == (5, 3)
    for record in [*train, *dev]:
        photo = open_photo(train.read_photo(record))
        assert photo.size == (record.width, record.height)
        assert max(photo.size) == 80
        assert record.regions
    assert len({(record.width, record.height) for record in [*train, *dev]}) > 3


@pytest.mark.parametrize("seed", [0, 7])
def test_the_same_seed_writes_the_same_bytes(seed, tmp_path):
    for name in ("a", "b"):
        write_scenes(tmp_path / name, train=3, dev=1, seed=seed)
    write_scenes(tmp_path / "other", train=3, dev=1, seed=seed + 1)
    for file in ("annotations.jsonl", "images-00.tar", "dataset.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
        assert (tmp_path / "a" / file).read_bytes() != (tmp_path / "other" / file).read_bytes()
