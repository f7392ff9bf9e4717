"""Training the language model alone, on the codes of drawn scenes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from regiontalk.errors import DataError, ModelError, UsageError
from regiontalk.lab.codes.true_boxes import MADE_FROM, BoxesOrigin, true_box_codes
from regiontalk.lab.training.checkpoints import find_checkpoint, load_language
from regiontalk.lab.training.detector.batches import Phrase
from regiontalk.lab.training.engine import Engine
from regiontalk.lab.training.heads.language import (
    LanguageTask,
    PhrasedRegions,
    greedy_captions,
    share_right,
)
from regiontalk.lab.training.recipe import load_recipe
from regiontalk.lab.training.recipe.language import LanguageDataConfig, LanguageRecipe

RECIPE = """
kind = "language"
init_from = "{model}"
smallest_count = 1
[run]
steps = 200
batch = 24
workers = 0
evaluate_every = 200
[[data]]
path = "{data}"
codes = ["{codes}/train", "{codes}/dev"]
[optimizer]
kind = "adamw"
rate = 1e-2
[schedule]
clip_norm = 5.0
"""
CPU = torch.device("cpu")


class Nobody:
    def step(self, *_: object) -> None: ...
    def say(self, _: str) -> None: ...


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, untrained_run: Path, tiny_model: Path) -> Path:
    """The codes of drawn scenes, and a recipe that learns from them."""
    folder = tmp_path_factory.mktemp("language")
    for split in ("train", "dev"):
        origin = BoxesOrigin(tiny_model, untrained_run / "data", split)
        true_box_codes(origin, folder / split)
    text = RECIPE.format(model=tiny_model, data=untrained_run / "data", codes=folder)
    (folder / "recipe.toml").write_text(text)
    return folder


def recipe_of(desk: Path, *changes: str) -> LanguageRecipe:
    recipe = load_recipe(desk / "recipe.toml", changes)
    assert isinstance(recipe, LanguageRecipe)
    return recipe


def trained(task: LanguageTask, folder: Path) -> Engine:
    engine = Engine(task, folder, CPU, Nobody())
    engine.train()
    return engine


def test_it_learns_the_phrases_and_is_evaluated_on_dev(desk: Path, tmp_path: Path) -> None:
    task = LanguageTask.begin(recipe_of(desk))
    source = task.sources[0]
    before = share_right(task.old, task.words, source, CPU, task.recipe)
    trained(task, tmp_path)
    after = share_right(task.net, task.words, source, CPU, task.recipe)
    assert after > max(before, 50)
    logged = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    metrics = logged[-1]
    assert {"right", "right_dev"} <= set(metrics["dev"])


def test_only_the_words_learn(desk: Path, tmp_path: Path) -> None:
    task = LanguageTask.begin(recipe_of(desk, "run.steps=2"))
    trained(task, tmp_path)
    for name, weight in task.net.state_dict().items():
        same = torch.equal(weight, task.old.state_dict()[name])
        assert same == name.startswith("visual."), name


def test_a_stopped_run_is_the_run_that_never_stopped(desk: Path, tmp_path: Path) -> None:
    whole = LanguageTask.begin(recipe_of(desk, "run.steps=4"))
    trained(whole, tmp_path / "whole")
    stopped = LanguageTask.begin(recipe_of(desk, "run.steps=4"))
    Engine(stopped, tmp_path / "stopped", CPU, Nobody()).train(seconds=0)
    resumed = LanguageTask.begin(recipe_of(desk, "run.steps=4"))
    engine = Engine(resumed, tmp_path / "stopped", CPU, Nobody())
    assert engine.resume()
    assert engine.step == 1
    engine.train()
    for name, weight in whole.net.state_dict().items():
        assert torch.equal(weight, resumed.net.state_dict()[name])


def test_keep_holds_the_words_of_the_old_model(desk: Path, tmp_path: Path) -> None:
    """With `keep = 1` phrases say nothing, and captions stay."""
    task = LanguageTask.begin(
        recipe_of(desk, "data.0.keep=1", "run.steps=20", "optimizer.rate=1e-4")
    )
    trained(task, tmp_path)
    inputs = task.sources[0].inputs
    kept = greedy_captions(task.net, task.words, inputs, CPU)
    assert kept == greedy_captions(task.old, task.words, inputs, CPU)


def regions_of(inputs: np.ndarray, phrases: Sequence[Phrase], codes: str) -> PhrasedRegions:
    rows = list(range(len(phrases)))
    config = LanguageDataConfig("taught", codes=(codes,))
    return PhrasedRegions(inputs, rows, phrases, [1.0] * len(rows), config)


def test_new_words_are_learned_from_regions_at_hand(desk: Path, tmp_path: Path) -> None:
    """The interface for a program that has inputs and phrases, but no data set."""
    recipe = recipe_of(desk)
    inputs = LanguageTask.begin(recipe).sources[0].inputs[:4]
    phrases = [Phrase((0, 0, 9, 9), ("a", "schipperke"), "phrase") for _ in inputs]
    task = LanguageTask.of(recipe, [regions_of(inputs, phrases, "none")], {})
    assert "schipperke" in task.words.words
    assert (
        task.words.words[: len(task.words.words) - 1]
        == LanguageTask.of(
            recipe,
            [regions_of(inputs, [replace(one, words=("a",)) for one in phrases], "none")],
            {},
        ).words.words
    )
    trained(task, tmp_path)
    assert greedy_captions(task.net, task.words, inputs, CPU) == ["a schipperke"] * 4
    stored = load_language(find_checkpoint(tmp_path))
    assert greedy_captions(stored.net, stored.words, inputs, CPU) == ["a schipperke"] * 4


def test_everyday_words_take_the_place_of_names(desk: Path, tmp_path: Path) -> None:
    recipe = recipe_of(desk)
    source = Path(recipe.data[0].path) / "annotations.jsonl"
    records = [json.loads(line) for line in source.read_text().splitlines()]
    for record in records:
        record["regions"][0] |= {"phrase": "schipperke", "coarse": "dog", "type": "name"}
    (tmp_path / "annotations.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    changes = (f"data.0.path={tmp_path}", 'data.0.articles=["name"]')
    fine = LanguageTask.begin(recipe_of(desk, *changes))
    everyday = LanguageTask.begin(recipe_of(desk, *changes, "data.0.everyday_names=true"))
    for task, word in ((fine, "schipperke"), (everyday, "dog")):
        texts = {" ".join(phrase.words) for phrase in task.sources[0].phrases}
        assert f"a {word}" in texts
        assert len({"a dog", "a schipperke"} & texts) == 1


def test_wrong_codes_and_styles_are_named(desk: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no codes"):
        recipe_of(desk, "data.0.codes=[]")
    with pytest.raises(UsageError, match="no such style"):
        LanguageTask.begin(recipe_of(desk, 'data.0.styles={"*"="poem"}'))
    with pytest.raises(DataError, match="no train photo with a phrase and codes"):
        LanguageTask.begin(recipe_of(desk, f'data.0.codes=["{desk / "dev"}"]'))
    other = tmp_path / "train"
    other.mkdir()
    for part in (desk / "train").iterdir():
        (other / part.name).write_bytes(part.read_bytes())
    made_from = json.loads((other / MADE_FROM).read_text())
    (other / MADE_FROM).write_text(json.dumps(made_from | {"detector": "another"}))
    with pytest.raises(ModelError, match="codes of another detector"):
        LanguageTask.begin(recipe_of(desk, f'data.0.codes=["{other}"]'))
