"""Training two towers on drawn scenes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from regiontalk.errors import ModelError, UsageError
from regiontalk.lab.training.checkpoints import find_checkpoint, load_alignment, load_towers
from regiontalk.lab.training.engine import Engine
from regiontalk.lab.training.loader import load_batches
from regiontalk.lab.training.recipe.towers import ContrastiveRecipe
from regiontalk.lab.training.towers.batches import TowersBatch
from regiontalk.lab.training.towers.task import ContrastiveTask

CPU = torch.device("cpu")


class Nobody:
    def step(self, *_: object) -> None: ...
    def say(self, _: str) -> None: ...


def begun(recipe: ContrastiveRecipe, folder: Path) -> Engine:
    return Engine(ContrastiveTask.begin(recipe), folder, CPU, Nobody())


def test_it_learns_and_keeps_the_best_weights(towers_run: Path) -> None:
    log = [json.loads(line) for line in (towers_run / "log.jsonl").read_text().splitlines()]
    losses = [line for line in log if "sentences" in line]
    for term in ("sentences", "words", "phrases"):
        assert losses[-1][term] < 0.8 * losses[0][term]
    assert "names" not in losses[0]
    metrics = [line["dev"] for line in log if "dev" in line]
    assert metrics[-1]["r1"] > 20  # chance: 6
    assert {"global_r1", "words_r1", "text_to_image_r1", "image_to_text_r1"} <= set(metrics[-1])
    trained = load_towers(find_checkpoint(towers_run))
    assert "triangle" in trained.pieces.pieces
    with pytest.raises(ModelError, match="not alignment"):
        load_alignment(find_checkpoint(towers_run))


def test_a_run_resumes_as_if_it_had_not_stopped(
    towers_recipe: Callable[..., ContrastiveRecipe], tmp_path: Path
) -> None:
    recipe = towers_recipe("run.steps=4", "run.evaluate_every=100", "run.checkpoint_every=2")
    whole = begun(recipe, tmp_path / "whole")
    for parts in load_batches_of(whole, 0):
        whole.train_step(parts)
        whole.step += 1
        if whole.step == 2:
            whole.folder = tmp_path / "stopped"
            whole.save()
            whole.folder = tmp_path / "whole"
    resumed = begun(recipe, tmp_path / "stopped")
    assert resumed.resume()
    for parts in load_batches_of(resumed, 2):
        resumed.train_step(parts)
        resumed.step += 1
    for name, value in whole.net.state_dict().items():
        assert torch.equal(value, resumed.net.state_dict()[name]), name


def load_batches_of(engine: Engine, step: int) -> list[list[TowersBatch]]:
    batches = engine.task.batches(0, 1)
    return [[batch] for batch in load_batches(batches, step, 0)]


def test_a_frozen_text_tower_stays_as_it_is(
    towers_recipe: Callable[..., ContrastiveRecipe], tmp_path: Path
) -> None:
    engine = begun(towers_recipe("run.steps=2", "text_optimizer.rate=0.0"), tmp_path)
    assert set(engine.optimizers) == {"photo", "rest"}
    before = {name: value.clone() for name, value in engine.net.state_dict().items()}
    for parts in load_batches_of(engine, 0):
        engine.train_step(parts)
    after = engine.net.state_dict()
    changed = {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert "text" not in changed
    assert {"photo", "photo_vector", "text_vector", "word_vector", "region_vector"} <= changed


def test_half_precision(towers_recipe: Callable[..., ContrastiveRecipe], tmp_path: Path) -> None:
    engine = begun(towers_recipe("run.steps=1", "run.precision=bfloat16"), tmp_path)
    whole = begun(towers_recipe("run.steps=1"), tmp_path)
    (parts,) = load_batches_of(engine, 0)
    losses = engine.train_step(parts)
    for name, loss in whole.train_step(parts).items():
        torch.testing.assert_close(losses[name], loss, rtol=0.05, atol=0.05)


def test_every_tower_has_its_own_rate(
    towers_recipe: Callable[..., ContrastiveRecipe], tmp_path: Path
) -> None:
    changes = ("text_optimizer.rate=1e-4", "text_optimizer.layer_decay=0.5")
    engine = begun(towers_recipe(*changes), tmp_path)
    rates = {group["lr"] for group in engine.optimizers["text"].param_groups}
    assert rates == {1e-4 * 0.5, 1e-4 * 0.25}
    assert {group["lr"] for group in engine.optimizers["photo"].param_groups} == {3e-3}


def test_names_are_a_term_of_their_own(
    towers_recipe: Callable[..., ContrastiveRecipe], named_scenes: Path, tmp_path: Path
) -> None:
    recipe = towers_recipe(
        f'data=[{{path="{named_scenes}",names=["object"],sentences=false}}]',
        "run.steps=40",
        "run.evaluate_every=40",
        "run.metric=named",
    )
    engine = begun(recipe, tmp_path)
    engine.train()
    log = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    (metrics,) = [line["dev"] for line in log if "dev" in line]
    assert metrics["named"] == metrics[f"named_{named_scenes.name}"] > 40  # chance: 25
    assert engine.best[0]["value"] == metrics["named"]


def test_a_data_set_without_dev_photos_for_the_metric_is_not_evaluated(
    towers_recipe: Callable[..., ContrastiveRecipe], named_scenes: Path, tmp_path: Path
) -> None:
    """The first data set has no sentences to rank."""
    recipe = towers_recipe(f'data=[{{path="{named_scenes}",names=["object"]}}]', "run.steps=1")
    engine = begun(recipe, tmp_path)
    engine.train()
    assert engine.best == []


def test_a_batch_without_pairs_of_a_term_has_gradients_all_the_same(
    towers_recipe: Callable[..., ContrastiveRecipe], towers_desk: Path, named_scenes: Path
) -> None:
    data = (
        f'data=[{{path="{towers_desk / "data"}",phrases=["*"]}},'
        f'{{path="{named_scenes}",share=0.0,sentences=false,names=["object"]}}]'
    )
    task = ContrastiveTask.begin(towers_recipe(data))
    batch = task.batches(0, 1)[0]
    assert isinstance(batch, TowersBatch)
    assert batch.pairs.names is None
    losses = task.losses(batch)
    assert losses["names"] == 0
    torch.stack(list(losses.values())).sum().backward()
    assert task.net.log_scales["names"].grad is not None


def test_wrong_recipes_are_refused(
    towers_recipe: Callable[..., ContrastiveRecipe], towers_desk: Path
) -> None:
    for change, complaint in {
        "run.longest=100": "positions",
        "run.metric=named": "needs data.names",
        "augmentation.zoom_by_batch=false": "zoom_by_batch",
        f'data=[{{path="{towers_desk}/data",sentences=false}}]': "nothing to learn",
        f'data=[{{path="{towers_desk}/data",phrases=["x"],names=["x"]}}]': "in both",
    }.items():
        with pytest.raises(UsageError, match=complaint):
            towers_recipe(change)
    with pytest.raises(UsageError, match="no such data set"):
        ContrastiveTask.begin(towers_recipe('data=[{path="not-there"}]'))
