"""From records to batches of two towers: which texts are drawn, and which pairs belong together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from regiontalk.errors import DataError
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.training.detector.augmentation import View
from regiontalk.lab.training.detector.batches import Plan
from regiontalk.lab.training.recipe.towers import ContrastiveRecipe, TextDataConfig
from regiontalk.lab.training.towers.batches import (
    Described,
    Item,
    TextSource,
    TowersBatch,
    TowersBatches,
    collate,
    described_regions,
    encode_texts,
)
from regiontalk.language.wordpiece import WordPieces

WHOLE_BOX = (0.0, 0.0, 60.0, 40.0)
RECORD = Record(
    "a.jpg",
    60,
    40,
    regions=(
        TrueRegion((1, 2, 30, 30), "A  red Dog", "animals"),
        TrueRegion((1, 2, 30, 30), "the dog", "animals"),
        TrueRegion((9, 9, 20, 20), "left dog", "referring"),
        TrueRegion((9, 9, 20, 20), "dog", "object"),
        TrueRegion(WHOLE_BOX, "schipperke", "whole", coarse="dog"),
        TrueRegion((5, 5, 5.5, 30), "a leash", "other"),
    ),
)


@pytest.fixture(scope="module")
def pieces(towers_desk: Path) -> WordPieces:
    return WordPieces.load(towers_desk / "vocab.txt")


@pytest.fixture
def batches(
    towers_recipe: Callable[..., ContrastiveRecipe], pieces: WordPieces
) -> Callable[..., TowersBatches]:
    def make(*changes: str) -> TowersBatches:
        recipe = towers_recipe(*changes)
        sources = [TextSource(data) for data in recipe.data]
        run = recipe.run
        plan = Plan(sources, run.steps, run.batch, run.seed, sorted_together=1)
        return TowersBatches(plan, pieces, recipe)

    return make


def test_phrases_and_names_of_a_record() -> None:
    config = TextDataConfig("x", phrases=("*",), names=("object", "whole"))
    assert described_regions(RECORD, config) == [
        Described("phrases", (1, 2, 30, 30), "a red dog", ("a red dog", "the dog")),
        Described("phrases", (1, 2, 30, 30), "the dog", ("a red dog", "the dog")),
        Described("phrases", (9, 9, 20, 20), "left dog", ("left dog", "dog")),
        Described("names", (9, 9, 20, 20), "dog"),
        Described("names", None, "schipperke", ("dog",)),
    ]
    without = replace(config, names=(), phrases=("referring", "other"))
    assert [one.text for one in described_regions(RECORD, without)] == ["left dog"]
    without = replace(without, without_position_words=("referring",))
    assert described_regions(RECORD, without) == []


def item(name: str, *described: Described) -> Item:
    boxes = np.array([one.xyxy for one in described if one.xyxy]).reshape(-1, 4)
    view = View(np.zeros((64, 64, 3), dtype=np.uint8), boxes, np.ones(len(boxes), dtype=bool))
    return Item(view, described, name)


def test_pairs_know_all_texts_that_are_right(pieces: WordPieces) -> None:
    """A name on two photos is one text; a fine name and its everyday word are both right."""
    items = [
        item(
            "a",
            Described("sentences", None, "a red ring", ("a red ring", "a ring")),
            Described("names", (1, 1, 9, 9), "ring"),
            Described("names", None, "circle", ("ring",)),
        ),
        item("b", Described("names", (2, 2, 8, 8), "circle")),
        item("c", Described("sentences", None, "a ring", ("a ring",))),
    ]
    batch = collate(items, pieces, 20)
    assert batch.boxes_xyxy.shape == (3, 2, 4)
    assert batch.boxes_xyxy[2].tolist() == [[0, 0, 64, 64]] * 2
    sentences, names = batch.pairs.sentences, batch.pairs.names
    assert batch.pairs.phrases is None
    assert sentences is not None
    assert names is not None
    assert sentences.rows.tolist() == [0, 4]
    assert sentences.matches.tolist() == [[True, True], [False, True]]
    assert names.rows.tolist() == [1, 0, 3]
    assert names.matches.tolist() == [[True, False], [True, True], [False, True]]
    assert names.texts.lengths.tolist() == [3, 3]


def test_texts_are_padded(pieces: WordPieces) -> None:
    texts = encode_texts(["a ring", "ring"], pieces, 20)
    pad, start, end = (pieces.id(piece) for piece in ("[PAD]", "[CLS]", "[SEP]"))
    ring = pieces.id("ring")
    assert texts.tokens.tolist() == [[start, pieces.id("a"), ring, end], [start, ring, end, pad]]


def test_a_batch_depends_on_its_step_alone(batches: Callable[..., TowersBatches]) -> None:
    first, again = batches()[3], batches()[3]
    other = batches()[4]
    assert isinstance(first, TowersBatch)
    assert isinstance(again, TowersBatch)
    assert isinstance(other, TowersBatch)
    assert torch.equal(first.images, again.images)
    assert torch.equal(first.boxes_xyxy, again.boxes_xyxy)
    assert first.names == again.names
    assert first.names != other.names
    assert first.images.shape == (12, 3, 64, 64)


def test_boxes_follow_the_photo(batches: Callable[..., TowersBatches]) -> None:
    """The colour at the centre of a box is that of its phrase, mirrored and stretched or not; a
    ring has a hole there."""
    made = batches("augmentation.resolution=[60,64]", "run.per_photo=9")
    hues = {"red": 0, "green": 1, "blue": 2}
    checked = 0
    for step in range(3):
        batch = made[step]
        assert isinstance(batch, TowersBatch)
        phrases = batch.pairs.phrases
        assert phrases is not None
        table = batch.boxes_xyxy.flatten(0, 1)
        for place, row in enumerate(phrases.rows.tolist()):
            ids = phrases.texts.tokens[int(phrases.matches[place].nonzero()[0])].tolist()
            words = [made.pieces.pieces[number] for number in ids]
            hue = next((hues[word] for word in words if word in hues), None)
            if hue is None or "ring" in words:
                continue
            x0, y0, x1, y1 = table[row].tolist()
            pixels = batch.images[row // batch.boxes_xyxy.shape[1]]
            centre = pixels[:, int((y0 + 2 * y1) / 3), int((x0 + x1) / 2)]
            assert int(centre.argmax()) == hue
            checked += 1
    assert checked > 10


def test_an_unreadable_photo_is_replaced(
    batches: Callable[..., TowersBatches], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = batches()
    source = made.plan.sources[0]
    first = made.plan.examples(0)[0].number
    whole = source.photo

    def photo(number: int) -> object:
        if number == first:
            raise DataError("broken.png: no photo")
        return whole(number)

    monkeypatch.setattr(source, "photo", photo)
    batch = made[0]
    assert isinstance(batch, TowersBatch)
    assert batch.skipped == ("broken.png: no photo",)
    assert len(batch.images) == 12


def test_photos_without_sentences_may_be_left_out(named_scenes: Path) -> None:
    path = str(named_scenes)
    assert len(TextSource(TextDataConfig(path, names=("object",)))) == 48
    with pytest.raises(DataError, match="no train photo with a text"):
        TextSource(TextDataConfig(path, names=("object",), require_sentences=True))


def test_ranks_share_a_batch(batches: Callable[..., TowersBatches]) -> None:
    whole = batches()
    parts: Sequence[object] = [replace(whole, rank=rank, ranks=2)[5] for rank in range(2)]
    names = [part.names for part in parts if isinstance(part, TowersBatch)]
    together = whole[5]
    assert isinstance(together, TowersBatch)
    assert sorted((*names[0], *names[1])) == sorted(together.names)
    assert len(names[0]) == len(names[1])
