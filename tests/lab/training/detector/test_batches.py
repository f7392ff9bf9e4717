"""Batches: a function of seed and step, full, every photo once an epoch, the right words on the
right boxes."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from regiontalk.errors import DataError
from regiontalk.images.photo import PADDING_GREY
from regiontalk.lab.training.detector.batches import (
    Example,
    Phrase,
    Plan,
    Source,
    TrainingBatches,
    share_counts,
    start_token,
    usable_phrases,
)
from regiontalk.lab.training.recipe.detector import AugmentationConfig, DataConfig
from regiontalk.language.vocabulary import END, UNKNOWN, Vocabulary

PLAIN = AugmentationConfig(flip=0.0)


def region(
    phrase: str, kind: str | None = None, xyxy: tuple[float, ...] = (4, 4, 40, 30)
) -> dict[str, object]:
    return {"xyxy": list(xyxy), "phrase": phrase} | ({} if kind is None else {"type": kind})


def write_dataset(
    folder: Path, records: list[dict[str, object]], size: tuple[int, int] = (64, 48)
) -> Path:
    """Photos of one colour each, and their records."""
    folder.mkdir()
    lines = []
    for number, record in enumerate(records):
        name = f"{number}.png"
        width, height = record.get("size", size)
        Image.new("RGB", (width, height), (10 * number % 250, 0, 0)).save(folder / name)
        regions = record.get("regions", [region("a thing")])
        lines.append(
            {"image": name, "width": width, "height": height, "split": "train", "regions": regions}
        )
    (folder / "annotations.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture
def two_sources(tmp_path) -> list[Source]:
    first = write_dataset(tmp_path / "first", [{"size": (64, 30 + n)} for n in range(7)])
    second = write_dataset(tmp_path / "second", [{"size": (40 + n, 64)} for n in range(5)])
    configs = (
        DataConfig(str(first), share=0.7, share_at_end=0.3),
        DataConfig(str(second), share=0.3),
    )
    return [Source(config, "train", "densecap") for config in configs]


def keys(examples: list[Example]) -> list[tuple[int, int]]:
    return [(example.source, example.number) for example in examples]


class TestPlan:
    def test_any_step_is_the_same_asked_for_alone(self, two_sources):
        plan = Plan(two_sources, steps=60, batch=3, seed=5)
        in_turn = [plan.examples(step) for step in range(60)]
        for step in np.random.default_rng(0).permutation(60).tolist():
            assert Plan(two_sources, steps=60, batch=3, seed=5).examples(step) == in_turn[step]
            assert plan.examples(step) == in_turn[step]

    def test_batches_are_full(self, two_sources):
        plan = Plan(two_sources, steps=37, batch=3, seed=0)
        assert all(len(plan.examples(step)) == 3 for step in range(37))

    def test_an_epoch_visits_every_photo_once(self, two_sources):
        plan = Plan(two_sources, steps=70, batch=3, seed=1)
        visits = Counter(key for step in range(70) for key in keys(plan.examples(step)))
        for number, source in enumerate(two_sources):
            counts = [visits[number, photo] for photo in range(len(source))]
            assert max(counts) - min(counts) <= 1
        assert visits.total() == 210

    def test_every_visit_has_a_seed_of_its_own(self, two_sources):
        plan = Plan(two_sources, steps=40, batch=3, seed=1)
        seeds = [example.seed for step in range(40) for example in plan.examples(step)]
        assert len(set(seeds)) == len(seeds)

    def test_another_seed_is_another_order(self, two_sources):
        orders = [
            [keys(Plan(two_sources, 20, 3, seed).examples(step)) for step in range(20)]
            for seed in (1, 2)
        ]
        assert orders[0] != orders[1]

    def test_a_small_data_set_still_gives_mixed_batches(self, tmp_path):
        """Sorting by shape must not put the same photo of several epochs into one batch."""
        folder = write_dataset(tmp_path / "few", [{"size": (64, 30 + 3 * n)} for n in range(6)])
        plan = Plan(
            [Source(DataConfig(str(folder)), "train", "densecap")], steps=40, batch=6, seed=0
        )
        for step in range(40):
            assert sorted(keys(plan.examples(step))) == [(0, n) for n in range(6)]

    def test_photos_of_like_shape_stand_together(self, tmp_path):
        shapes = [(64, 32), (32, 64)] * 60
        folder = write_dataset(tmp_path / "mixed", [{"size": shape} for shape in shapes])
        plan = Plan(
            [Source(DataConfig(str(folder)), "train", "densecap")], steps=20, batch=6, seed=0
        )
        mixed = sum(
            len({number % 2 for _, number in keys(plan.examples(step))}) > 1 for step in range(20)
        )
        assert mixed <= 2  # one batch a window


@settings(deadline=None, max_examples=60)
@given(
    shares=st.lists(
        st.tuples(st.floats(0.01, 5), st.one_of(st.none(), st.floats(0.01, 5))),
        min_size=1,
        max_size=4,
    ),
    steps=st.integers(1, 60),
    batch=st.integers(1, 9),
)
def test_shares_add_up(shares, steps, batch):
    """Never a negative count, always a full batch, and never more than a photo or so behind the
    share."""
    configs = [DataConfig("x", start, end) for start, end in shares]
    counts = share_counts(configs, steps, batch)
    assert counts.shape == (steps, len(shares))
    assert (counts >= 0).all()
    assert (counts.sum(axis=1) == batch).all()
    ratio = np.linspace(0, 1, steps)[:, None]
    start = np.array([share for share, _ in shares])
    end = np.array([start if end is None else end for start, end in shares])
    wanted = start + (end - start) * ratio
    wanted = np.cumsum(wanted / wanted.sum(axis=1, keepdims=True) * batch, axis=0)
    assert np.abs(np.cumsum(counts, axis=0) - wanted).max() < 1.5


def test_a_share_can_fall_to_nothing():
    counts = share_counts([DataConfig("a", 1.0, 1.0), DataConfig("b", 1.0, 0.0)], 100, 4)
    assert counts[:10, 1].sum() in (18, 19, 20)
    assert counts[-3:, 1].sum() <= 1


class TestPhrases:
    def phrases(self, records, **config) -> list[tuple[str, str]]:
        from regiontalk.lab.data.records import Record, TrueRegion

        record = Record("a.png", 64, 48, regions=tuple(TrueRegion(**item) for item in records))
        found = usable_phrases(record, DataConfig("x", **config), "densecap")
        return [(" ".join(phrase.words), phrase.style) for phrase in found]

    def test_every_kind_of_text_has_its_style(self):
        given = [region("a dog"), region("dog", "object"), region("left dog", "referring")]
        assert self.phrases(given) == [
            ("a dog", "phrase"),
            ("dog", "phrase"),
            ("left dog", "phrase"),
        ]
        styles = {"*": "phrase", "object": "name"}
        assert self.phrases(given, styles=styles) == [
            ("a dog", "phrase"),
            ("dog", "name"),
            ("left dog", "phrase"),
        ]
        assert self.phrases(given, styles={"object": "name"}) == [("dog", "name")]

    def test_bare_names_can_get_an_article_and_a_phrase_a_style_of_its_own(self):
        given = [region("cat", "object"), region("person", "object"), region("cat", "referring")]
        config = {"styles": {"*": "phrase", "object:person": "name"}, "articles": ["object"]}
        assert self.phrases(given, **config) == [
            ("a cat", "phrase"),
            ("a person", "name"),
            ("cat", "phrase"),
        ]

    def test_position_words_are_dropped_in_the_styles_named(self):
        given = [
            region("dog at the left", "referring"),
            region("brown dog", "referring"),
            region("left paw", "phrase"),
        ]
        config = {"styles": {"referring": "r", "phrase": "p"}, "without_position_words": ["r"]}
        assert self.phrases(given, **config) == [("brown dog", "r"), ("left paw", "p")]

    def test_phrases_and_boxes_that_are_no_use(self):
        given = [
            region("!!!"),
            region("one two three four five six seven eight nine ten eleven"),
            region("too thin", xyxy=(5, 5, 5.5, 30)),
            region("outside", xyxy=(70, 5, 90, 30)),
            region("there is"),
            region("fine"),
        ]
        assert self.phrases(given) == [("fine", "phrase")]

    def test_boxes_are_cut_to_the_photo(self):
        from regiontalk.lab.data.records import Record, TrueRegion

        record = Record("a.png", 64, 48, regions=(TrueRegion((-5.0, 2.0, 99.0, 60.0), "wide"),))
        (phrase,) = usable_phrases(record, DataConfig("x"), "densecap")
        assert phrase.xyxy == (0, 2, 64, 48)


def make_batches(folder: Path, augmentation: AugmentationConfig = PLAIN, **more) -> TrainingBatches:
    styles = {"*": "phrase", "object": "name"}
    source = Source(DataConfig(str(folder), styles=styles), "train", "densecap")
    words = Vocabulary.build(source.texts(), smallest_count=2, styles=("phrase", "name"))
    plan = Plan([source], steps=more.pop("steps", 8), batch=more.pop("batch", 2), seed=0)
    return TrainingBatches(plan, words, long_side=64, pad_to=32, augmentation=augmentation, **more)


class TestBalancedNames:
    def source(self, tmp_path: Path, balance: float) -> Source:
        names = [region("cat", "object", (1 + n, 1, 30, 30)) for n in range(9)] + [
            region("dog", "object", (0, 0, 20, 20))
        ]
        folder = write_dataset(
            tmp_path / "d", [{"regions": [*names, region("a red sofa", None, (5, 5, 40, 40))]}]
        )
        config = DataConfig(
            str(folder), styles={"*": "phrase"}, articles=("object",), balance_names=balance
        )
        return Source(config, "train", "densecap")

    def weights(self, source: Source) -> dict[str, float]:
        phrases = source.phrases(source.record(0))
        return dict(
            zip(
                (" ".join(phrase.words) for phrase in phrases), source.weights(phrases), strict=True
            )
        )

    def test_rare_names_count_more_and_phrases_as_ever(self, tmp_path):
        found = self.weights(self.source(tmp_path, 0.5))
        assert found == {"a cat": (5 / 9) ** 0.5, "a dog": 5**0.5, "a red sofa": 1.0}

    def test_no_name_counts_more_than_four_times(self, tmp_path):
        assert self.weights(self.source(tmp_path, 3.0)) == {
            "a cat": 0.25,
            "a dog": 4.0,
            "a red sofa": 1.0,
        }

    def test_without_it_all_count_the_same(self, tmp_path):
        assert set(self.weights(self.source(tmp_path, 0.0)).values()) == {1.0}

    def test_the_weights_are_in_the_batch(self, tmp_path):
        source = self.source(tmp_path, 0.5)
        plan = Plan([source], steps=1, batch=1, seed=0)
        words = Vocabulary.build(source.texts(), smallest_count=1)
        batch = TrainingBatches(plan, words, long_side=64, pad_to=32, augmentation=PLAIN)[0]
        said = [words.decode(tokens.tolist()) for tokens in batch.truths.tokens[0]]
        assert dict(zip(said, batch.truths.weights[0].tolist(), strict=True)) == pytest.approx(
            self.weights(source)
        )


class TestStartToken:
    words = Vocabulary(("a", "dog"), styles=("phrase", "name"), lengths=3)

    def starts(
        self, words: Vocabulary, style: str, count: int, is_name: bool = False
    ) -> Counter[int]:
        phrase, random = (
            Phrase((0, 0, 9, 9), ("dog",) * count, style, is_name),
            np.random.default_rng(0),
        )
        return Counter(start_token(phrase, words, random) for _ in range(400))

    def test_the_first_style_is_taught_with_its_own_and_with_the_lengths(self):
        found = self.starts(self.words, "phrase", 2)
        assert set(found) == {self.words.start("phrase"), self.words.start_of_length(2)}
        assert 150 < found[self.words.start("phrase")] < 250

    def test_other_styles_have_their_own_and_the_style_length_the_lengths(self):
        assert set(self.starts(self.words, "name", 2)) == {self.words.start("name")}
        assert set(self.starts(self.words, "length", 1)) == {self.words.start_of_length(1)}
        assert set(self.starts(self.words, "length", 9)) == {self.words.start_of_length(3)}

    def test_names_are_taught_with_their_style_alone(self):
        assert set(self.starts(self.words, "phrase", 2, is_name=True)) == {
            self.words.start("phrase")
        }

    def test_without_lengths_every_style_has_its_own(self):
        plain = Vocabulary(("a", "dog"), styles=("phrase", "name"))
        assert set(self.starts(plain, "phrase", 2)) == {plain.start("phrase")}


class TestBatch:
    def test_words_and_starts_stand_on_their_boxes(self, tmp_path):
        regions = [
            region("a red dog", None, (0, 0, 20, 20)),
            region("dog", "object", (30, 10, 50, 40)),
        ]
        folder = write_dataset(
            tmp_path / "d",
            [{"regions": regions}, {"regions": [region("a dog", xyxy=(1, 2, 30, 40))]}],
        )
        batches = make_batches(folder)
        words, truths = batches.words, batches[0].truths
        full = next(row for row in range(2) if truths.valid[row].sum() == 2)
        assert words.words == ("dog", "a")  # "red" occurs once
        assert truths.boxes_xyxy[full].tolist() == [[0, 0, 20, 20], [30, 10, 50, 40]]
        a, dog = words.encode(["a", "dog"])
        assert truths.tokens[full].tolist() == [[a, UNKNOWN, dog, END], [dog, END, END, END]]
        assert truths.starts[full].tolist() == [words.start("phrase"), words.start("name")]
        other = 1 - full
        assert truths.valid[other].tolist() == [True, False]
        assert truths.boxes_xyxy[other, 1].tolist() == [0, 0, 0, 0]

    def test_boxes_are_scaled_with_the_photo(self, tmp_path):
        folder = write_dataset(
            tmp_path / "d", [{"size": (128, 64), "regions": [region("x", xyxy=(10, 20, 110, 60))]}]
        )
        batch = make_batches(folder, batch=1)[0]
        assert batch.sizes.tolist() == [[64, 32]]
        assert batch.truths.boxes_xyxy[0].tolist() == [[5, 10, 55, 30]]

    def test_padding_is_grey_and_to_the_multiple(self, tmp_path):
        folder = write_dataset(tmp_path / "d", [{"size": (64, 20)}, {"size": (64, 40)}])
        batch = make_batches(folder)[0]
        assert batch.images.shape == (2, 3, 64, 64)
        assert batch.images.dtype == torch.uint8
        for photo, (width, height) in zip(batch.images, batch.sizes.int().tolist(), strict=True):
            assert (photo[:, height:] == PADDING_GREY).all()
            assert (photo[:, :, width:] == PADDING_GREY).all()
            assert (photo[1, :height, :width] == 0).all()

    def test_photos_fill_a_batch_that_has_one_zoom(self, tmp_path):
        """Shapes that are much alike become one, boxes with them; one that differs too much keeps
        its own."""
        shapes = [(64, 48), (64, 46), (64, 50), (64, 49), (200, 48)]
        records = [{"size": size, "regions": [region("x", xyxy=(0, 0, *size))]} for size in shapes]
        one_zoom = AugmentationConfig(flip=0.0, zoom=1.3, zoom_by_batch=True)
        batches = replace(
            make_batches(write_dataset(tmp_path / "d", records), one_zoom, batch=5), pad_to=4
        )
        widths = set()
        for step in range(8):
            batch = batches[step]
            height, width = batch.images.shape[2:]
            for name, size, box in zip(
                batch.names, batch.sizes, batch.truths.boxes_xyxy[:, 0], strict=True
            ):
                assert name == "4.png" or size.tolist() == [width, height]
                assert box.tolist() == [0, 0, *size.tolist()]
            widths.add(width)
        assert len(widths) > 2

    def test_ranks_share_a_batch(self, tmp_path):
        folder = write_dataset(tmp_path / "d", [{} for _ in range(6)])
        whole = make_batches(folder, batch=6)
        shares = [make_batches(folder, batch=6, rank=rank, ranks=3) for rank in range(3)]
        for step in range(3):
            names = [share[step].names for share in shares]
            assert all(len(part) == 2 for part in names)
            assert sorted(name for part in names for name in part) == sorted(whole[step].names)
            seeds = {
                name: int(seed)
                for name, seed in zip(whole[step].names, whole[step].seeds, strict=True)
            }
            for share in shares:
                part = share[step]
                assert all(
                    seeds[name] == int(seed)
                    for name, seed in zip(part.names, part.seeds, strict=True)
                )

    def test_the_same_batch_twice(self, tmp_path):
        folder = write_dataset(tmp_path / "d", [{} for _ in range(4)])
        strong = AugmentationConfig(0.5, 1.5, 0.2)
        first, second = make_batches(folder, strong)[3], make_batches(folder, strong)[3]
        assert torch.equal(first.images, second.images)
        assert torch.equal(first.truths.boxes_xyxy, second.truths.boxes_xyxy)

    def test_photos_with_left_and_right_are_never_mirrored(self, tmp_path):
        spoken = [region("left hand", xyxy=(0, 0, 20, 20)), region("a dog", xyxy=(1, 1, 30, 30))]
        plain = [region("a dog", xyxy=(0, 0, 20, 20))]
        folder = write_dataset(tmp_path / "d", [{"regions": spoken}, {"regions": plain}])
        batches = make_batches(folder, AugmentationConfig(flip=1.0))
        for step in range(8):
            batch = batches[step]
            for name, boxes in zip(batch.names, batch.truths.boxes_xyxy, strict=True):
                assert float(boxes[0, 0]) == (0 if name == "0.png" else 44)

    def test_a_view_that_lost_every_box_gives_way_to_the_whole_photo(self, tmp_path):
        tiny_box = [region("a corner", xyxy=(0, 0, 3, 3))]
        folder = write_dataset(tmp_path / "d", [{"regions": tiny_box}])
        batches = make_batches(folder, AugmentationConfig(0.0, zoom=3.0), batch=1, steps=30)
        sizes = set()
        for step in range(30):
            batch = batches[step]
            assert batch.truths.valid.all()
            sizes.add(tuple(batch.sizes[0].tolist()))
        assert len(sizes) > 3

    def test_moving_to_a_device_keeps_everything(self, tmp_path):
        batch = make_batches(write_dataset(tmp_path / "d", [{}]), batch=1)[0]
        moved = batch.to(torch.device("cpu"))
        assert moved.names == batch.names
        assert torch.equal(moved.truths.tokens, batch.truths.tokens)


class TestMosaic:
    def batches(self, folder: Path, regions: list[dict[str, object]]) -> TrainingBatches:
        write_dataset(folder, [{"regions": regions} for _ in range(6)])
        return make_batches(folder, AugmentationConfig(flip=0.0, mosaic=1.0))

    def test_four_photos_fill_one_with_their_boxes(self, tmp_path):
        batch = self.batches(tmp_path / "d", [region("a thing")])[0]
        assert batch.sizes.tolist() == [[64, 48]] * 2  # as large as the first of them
        for boxes, valid in zip(batch.truths.boxes_xyxy, batch.truths.valid, strict=True):
            expected = [[2, 2, 20, 15], [34, 2, 52, 15], [2, 26, 20, 39], [34, 26, 52, 39]]
            assert boxes[valid].tolist() == expected
        corners = batch.images[:, 0, [0, 0, 47, 47], [0, 63, 0, 63]]
        assert len({tuple(row.tolist()) for row in corners}) > 1  # of several photos

    def test_it_depends_on_seed_and_step_alone(self, tmp_path):
        batches = self.batches(tmp_path / "d", [region("a thing")])
        assert torch.equal(batches[1].images, batches[1].images)
        assert not torch.equal(batches[1].images, batches[2].images)

    def test_phrases_that_say_where_are_left_out(self, tmp_path):
        regions = [region("left man"), region("a thing"), region("man on the right")]
        truths = self.batches(tmp_path / "d", regions)[0].truths
        assert truths.valid.sum(dim=1).tolist() == [4, 4]

    def test_without_any_other_phrase_the_photo_stays_alone(self, tmp_path):
        truths = self.batches(tmp_path / "d", [region("left man")])[0].truths
        assert truths.valid.sum(dim=1).tolist() == [1, 1]

    def test_another_mosaic_takes_the_place_of_one_with_a_broken_photo(self, tmp_path):
        batches = self.batches(tmp_path / "d", [region("a thing")])
        (tmp_path / "d" / "3.png").write_bytes(b"no photo")
        for step in range(4):
            batch = batches[step]
            assert batch.truths.valid.sum(dim=1).tolist() == [4, 4]
            assert all("3.png: " in line for line in batch.skipped)

    def test_a_share_of_the_photos(self, tmp_path):
        write_dataset(tmp_path / "d", [{} for _ in range(6)])
        half = make_batches(tmp_path / "d", AugmentationConfig(flip=0.0, mosaic=0.5))
        counts = [half[step].truths.valid.sum(dim=1).tolist() for step in range(len(half))]
        assert {count for pair in counts for count in pair} == {1, 4}


class TestSource:
    def test_only_photos_with_something_to_say(self, tmp_path):
        folder = write_dataset(
            tmp_path / "d", [{"regions": []}, {}, {"regions": [region("!")]}, {}]
        )
        source = Source(DataConfig(str(folder)), "train", "densecap")
        assert [source.record(n).image for n in range(len(source))] == ["1.png", "3.png"]
        assert list(source.texts()) == ["a thing", "a thing"]

    def test_none_is_an_error_that_names_the_data_set(self, tmp_path):
        folder = write_dataset(tmp_path / "d", [{"regions": []}])
        with pytest.raises(DataError, match="no train photo with a usable phrase"):
            Source(DataConfig(str(folder)), "train", "densecap")

    def test_a_photo_of_another_size_than_its_record_says(self, tmp_path):
        """Resized files are common; boxes are in the record's pixels."""
        folder = write_dataset(tmp_path / "d", [{"size": (64, 48)}])
        Image.new("RGB", (32, 24)).save(folder / "0.png")
        batch = make_batches(folder, batch=1)[0]
        assert batch.truths.boxes_xyxy[0].tolist() == [[4, 4, 40, 30]]

    def test_remembered_photos_are_the_same_photos(self, tmp_path):
        folder = write_dataset(tmp_path / "d", [{} for _ in range(4)])
        plain, cached = make_batches(folder), make_batches(folder)
        cached.plan.sources[0].remember_photos(64)
        for step in (0, 1, 0, 1):
            assert torch.equal(plain[step].images, cached[step].images)

    def test_another_photo_takes_the_place_of_a_broken_one(self, tmp_path):
        folder = write_dataset(tmp_path / "d", [{} for _ in range(6)])
        whole = [make_batches(folder, batch=6)[step] for step in range(3)]
        (folder / "1.png").write_bytes(b"no photo")
        (folder / "4.png").unlink()
        for step, before in enumerate(whole):
            batch, again = make_batches(folder, batch=6)[step], make_batches(folder, batch=6)[step]
            assert batch.names == again.names
            assert torch.equal(batch.images, again.images)
            assert len(batch.names) == 6
            assert not {"1.png", "4.png"} & set(batch.names)
            named = {line.split(": ")[1] for line in batch.skipped}
            assert named == {"1.png", "4.png"}
            assert all(
                line.startswith(f"{folder}: ") and "\n" not in line for line in batch.skipped
            )
            kept = [number for number, name in enumerate(before.names) if name not in named]
            assert [batch.names[number] for number in kept] == [
                before.names[number] for number in kept
            ]
            assert torch.equal(batch.images[kept], before.images[kept])
            assert before.skipped == ()

    def test_where_no_photo_can_be_read_it_is_an_error(self, tmp_path):
        folder = write_dataset(tmp_path / "d", [{} for _ in range(2)])
        for photo in folder.glob("*.png"):
            photo.write_bytes(b"no photo")
        error = make_batches(folder)[0]
        assert isinstance(error, DataError)
        assert error.message.startswith(f"{folder}: ")
