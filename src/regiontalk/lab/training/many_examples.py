"""Trains the captions of a model on many examples of new words (`regiontalk teach --train`).

The language model alone learns, from region inputs that the model's own graphs computed: the
examples' phrases, and on other regions its old captions, so that it forgets nothing. The result is
checked on named regions that it did not learn from before it is written. Names, heads,
probabilities and word books stay as they are.

Shapes: N examples, M other regions, E the language model's region input.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from regiontalk import boxes as geometry
from regiontalk.errors import InputError, ModelError, RegionTalkError
from regiontalk.inference.captions import decode_captions
from regiontalk.inference.detect import recognize_given
from regiontalk.inference.regions import Look, RegionTable
from regiontalk.inference.teaching import NO_BACKGROUND, Change, ToTeach, main_region
from regiontalk.lab.data.records import TrueRegion
from regiontalk.lab.evaluation.names import is_right
from regiontalk.lab.export.language import write_with_language
from regiontalk.lab.nets.language import LanguageModel
from regiontalk.lab.training.detector.batches import Phrase
from regiontalk.lab.training.engine import Engine, Watcher
from regiontalk.lab.training.heads.language import LanguageTask, PhrasedRegions, greedy_captions
from regiontalk.lab.training.recipe.language import (
    LanguageDataConfig,
    LanguageRecipe,
    LanguageRunConfig,
)
from regiontalk.lab.training.recipe.shared import OptimizerConfig, ScheduleConfig
from regiontalk.language.articles import as_caption
from regiontalk.language.vocabulary import CLEANING
from regiontalk.model import Model
from regiontalk.models.background import NamedRegions, read_background
from regiontalk.models.folder import BACKGROUND, check_free, read_model_folder
from regiontalk.models.runtime import Floats
from regiontalk.results import BoxXYXY, path_of

MIN_EXAMPLES = 20
MAX_NAME_WORDS = 3
MAX_LOSS = 1.0
"""Percentage points that old words may lose."""
MAX_OTHERS_OF_PHOTO = 8
"""How many regions of a photo, away from its examples, keep their captions."""
MAX_IOU_WITH_EXAMPLE = 0.3
"""The highest IoU of such a region with an example."""
RUN = LanguageRunConfig(
    steps=200,
    batch=64,
    workers=0,
    log_every=10,
    checkpoint_every=1_000_000,  # minutes of work: no checkpoints between
    evaluate_every=1_000_000,
)
OPTIMIZER = OptimizerConfig(kind="adamw", rate=3e-4, weight_decay=0.02)
SCHEDULE = ScheduleConfig(warmup=10, decay="cosine", clip_norm=5.0, ema=0.98)
EXAMPLE_SHARE = 0.2
"""The share of the examples in a batch."""
CPU = torch.device("cpu")


Track = Callable[[Iterator[Any], int], Iterator[Any]]
"""Reports progress: takes an iterator and how many items there are; yields the items."""


class SeenExample(NamedTuple):
    """An example as the model saw it."""

    photo: Any
    name: str
    """The photo's name."""
    xyxy: BoxXYXY
    words: tuple[str, ...]
    """Words of its phrase, as captions have them."""


@dataclass(frozen=True)
class Seen:
    """Examples and other regions of their photos."""

    examples: tuple[SeenExample, ...]
    inputs: Floats
    """(N, E) what the language model reads of the examples."""
    others: Floats
    """(M, E) regions that are none of the examples."""
    captions: tuple[str, ...]
    """(M,) what the model says of these."""
    skipped: tuple[str, ...]
    """A line for each example that cannot be used."""


@dataclass(frozen=True)
class Report:
    """What a training changed; shares in percent."""

    examples: int
    new_words: int
    right_before: float
    """Examples whose caption names what their phrase names."""
    right_after: float
    old_before: float
    """Named regions that were not learned from, whose caption names what their phrase names."""
    old_after: float
    changes: tuple[Change, ...]

    def to_dict(self) -> dict[str, Any]:
        figures = ("right_before", "right_after", "old_before", "old_after")
        shares = {name: round(getattr(self, name), 2) for name in figures}
        counts = {"examples": self.examples, "new_words": self.new_words}
        changes = [change._asdict() | {"photo": change.name} for change in self.changes]
        return counts | shares | {"changes": changes}


def look_at(model: Model, examples: Sequence[ToTeach], track: Track) -> Seen:
    """Looks at the photos of examples, at each once. Raises `InputError` for fewer than
    `MIN_EXAMPLES` that can be used, and `ModelError` for a model that cannot be checked."""
    _named_regions(model.runtime.background, model.runtime.info.name)
    clean = CLEANING[model.runtime.words.cleaning]
    by_photo: dict[str, list[ToTeach]] = {}
    seen, inputs, skipped = list[SeenExample](), list[Floats](), list[str]()
    for example in examples:
        if clean(_phrase(example.word)):
            by_photo.setdefault(_photo_name(example.photo), []).append(example)
        else:
            skipped.append(f"{example.word[:60]!r}: captions have the letters a to z alone")
    others, captions = list[Floats](), list[str]()
    for name, of_photo in track(iter(by_photo.items()), len(by_photo)):
        try:
            look = model.look(of_photo[0].photo)
            regions = _regions_of(model, look, name, of_photo)
        except RegionTalkError as error:
            skipped.append(error.message)
            continue
        for example, box in zip(of_photo, regions.boxes_xyxy.tolist(), strict=True):
            words = tuple(clean(_phrase(example.word)) or ())
            seen.append(SeenExample(example.photo, name, tuple(box), words))
        inputs.append(regions.state[2])
        rest = _other_regions(look, regions)
        others.append(rest.state[2])
        decoded = decode_captions(model.runtime, rest.state)
        captions += [model.runtime.words.decode(caption.tokens) for caption in decoded]
    if len(seen) < MIN_EXAMPLES:
        reason = f": {skipped[0]}" if skipped else ""
        raise InputError(
            f"{len(seen)} examples can be used; training needs {MIN_EXAMPLES}{reason}",
            hint="regiontalk teach learns from few examples, without --train",
        )
    return Seen(
        tuple(seen), np.concatenate(inputs), np.concatenate(others), tuple(captions), tuple(skipped)
    )


def _phrase(word: str) -> str:
    """A name as a caption; longer phrases are captions already."""
    return as_caption(word) if len(word.split()) <= MAX_NAME_WORDS else word


def _photo_name(photo: Any) -> str:
    """The path of a photo; for bytes a name that tells them apart."""
    return path_of(photo) or f"photo {zlib.crc32(photo):08x}"


def train(seen: Seen, model: Path, out: Path, watcher: Watcher) -> Report:
    """Trains a copy of a model folder, checks it, and writes it to `out`; raises `InputError`, and
    writes nothing, if old words got worse."""
    check_free(out)
    old = read_model_folder(model)
    kept, check = _halves(_named_regions(old.background, old.info.name))
    style = old.words.styles[0]
    taught = _phrased(
        seen.inputs, [example.words for example in seen.examples], style, EXAMPLE_SHARE
    )
    recipe = LanguageRecipe(
        RUN, (taught.config,), str(model), smallest_count=1, optimizer=OPTIMIZER, schedule=SCHEDULE
    )
    task = LanguageTask.of(recipe, [taught], {})
    inputs = np.concatenate([seen.others, kept.inputs])
    captions = [*seen.captions, *greedy_captions(task.old, task.words, kept.inputs, CPU)]
    others = _phrased(
        inputs, [text.split() for text in captions], style, 1 - EXAMPLE_SHARE, keep=1.0
    )
    recipe = replace(recipe, data=(taught.config, others.config))
    task = replace(task, recipe=recipe, sources=[taught, others])
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.absolute().parent) as folder:
        engine = Engine(task, Path(folder) / "run", CPU, watcher)
        engine.train()
        if engine.step < RUN.steps:  # Ctrl-C ends a run after its step
            raise KeyboardInterrupt
        net = engine.averaged_net()
        assert isinstance(net, LanguageModel)
        new_words = len(task.words.words) - len(old.words.words)
        report = _report(seen, check, task, net, new_words)
        training = {**old.info.training, "taught": {"examples": len(seen.examples)}}
        info = replace(old.info, name=out.name, training=training)
        write_with_language(Path(folder) / "model", replace(old, info=info), net, task.words)
        (Path(folder) / "model").rename(out)
    return report


def _named_regions(background: bytes | None, model: str) -> NamedRegions:
    """The named regions in a model's file; raises `ModelError` if it has none."""
    named = None
    if background is not None:
        named = read_background(background, f"{model}: {BACKGROUND}").named
    if named is None:
        raise ModelError(
            f"the model {model!r} has no named regions to check what it forgets",
            hint=NO_BACKGROUND,
        )
    return named


def _halves(named: NamedRegions) -> tuple[NamedRegions, NamedRegions]:
    """Regions to learn from, and others for the check."""
    return (
        NamedRegions(named.inputs[::2], named.names[::2]),
        NamedRegions(named.inputs[1::2], named.names[1::2]),
    )


def _phrased(
    inputs: Floats,
    phrases: Sequence[Sequence[str]],
    style: str,
    share: float,
    keep: float = 0.0,
) -> PhrasedRegions:
    """Region inputs (R, E) with a phrase each. A phrase without words says nothing to learn; names
    are no examples for captions of a given length, but kept captions are."""
    rows = [row for row, words in enumerate(phrases) if words]
    learned = []
    for row in rows:
        is_name = not keep and len(phrases[row]) <= MAX_NAME_WORDS
        learned.append(Phrase((0, 0, 1, 1), tuple(phrases[row]), style, is_name))
    config = LanguageDataConfig("examples", share=share, keep=keep, codes=("examples",))
    return PhrasedRegions(inputs.astype(np.float16), rows, learned, [1.0] * len(rows), config)


def _report(
    seen: Seen, check: NamedRegions, task: LanguageTask, net: LanguageModel, new_words: int
) -> Report:
    """How captions changed; raises `InputError` if old words got worse."""
    old_before, old_after = (
        _share_right(greedy_captions(tried_net, task.words, check.inputs, CPU), check.names)
        for tried_net in (task.old, net)
    )
    if old_after < old_before - MAX_LOSS:
        raise InputError(
            f"not used, nothing was written: {old_after:.1f} % of known regions would be named "
            f"rightly, {old_before:.1f} % before",
            hint="look for examples with wrong words",
        )
    phrases = [" ".join(example.words) for example in seen.examples]
    befores = greedy_captions(task.old, task.words, seen.inputs, CPU)
    afters = greedy_captions(net, task.words, seen.inputs, CPU)
    changes = [
        Change(example.photo, example.name, example.xyxy, before, after, phrase)
        for example, phrase, before, after in zip(
            seen.examples, phrases, befores, afters, strict=True
        )
    ]
    right_before = _share_right(befores, phrases)
    right_after = _share_right(afters, phrases)
    return Report(
        len(changes), new_words, right_before, right_after, old_before, old_after, tuple(changes)
    )


def _share_right(captions: Sequence[str], names: Sequence[str]) -> float:
    """How many captions name what the names say, in percent."""
    pairs = zip(captions, names, strict=True)
    right = [is_right(caption, [TrueRegion((0, 0, 1, 1), name)]) for caption, name in pairs]
    return 100 * sum(right) / len(right)


def _regions_of(model: Model, look: Look, name: str, examples: Sequence[ToTeach]) -> RegionTable:
    """The regions that the examples of a photo are of, in their order."""
    main = None
    boxes = []
    for example in examples:
        if example.box_xyxy is not None:
            boxes.append(geometry.given_boxes([example.box_xyxy], look.frame.photo_size)[0])
        else:
            main = main_region(model, look, name) if main is None else main
            boxes.append(look.boxes_xyxy[main])
    settings = model.runtime.info.prediction
    boxes_xyxy = np.array(boxes, dtype=np.float64)
    return recognize_given(model.runtime, look.proposed, look.frame, boxes_xyxy, settings)


def _other_regions(look: Look, examples: RegionTable) -> RegionTable:
    """The best regions of a photo that are away from its examples."""
    overlaps = geometry.iou(look.regions.boxes_xyxy, examples.boxes_xyxy)
    far = np.flatnonzero(overlaps.max(axis=1) < MAX_IOU_WITH_EXAMPLE)
    return look.regions.take(far[:MAX_OTHERS_OF_PHOTO])
