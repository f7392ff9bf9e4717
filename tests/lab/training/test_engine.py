"""The training loop in one process: what moves when, what is kept, and how it stops."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from regiontalk.errors import ModelError, UsageError
from regiontalk.lab.training.checkpoints import (
    latest_checkpoint,
    load_fcln,
    read_state,
    read_tensors,
)
from regiontalk.lab.training.detector.task import FCLNTask
from regiontalk.lab.training.engine import Engine, TrainingDiverged, check_same_recipe
from regiontalk.lab.training.optimizers import rate_factor
from regiontalk.lab.training.processes import Processes
from regiontalk.lab.training.recipe import to_dict

CPU = torch.device("cpu")


@dataclass
class Onlooker:
    """Notes what it is shown; may do something at a step."""

    steps: list[int] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    at_step: Callable[[int], None] = lambda step: None

    def step(self, done: int, total: int, losses: Any, photos_per_second: float) -> None:
        self.steps.append(done)
        self.at_step(done)

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def make_engine(quick_recipe, tmp_path):
    def make(*changes: str, folder: str = "run", onlooker: Onlooker | None = None) -> Engine:
        return Engine(
            FCLNTask.begin(quick_recipe(*changes)), tmp_path / folder, CPU, onlooker or Onlooker()
        )

    return make


def weights(engine: Engine) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in engine.net.state_dict().items()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return set(a) == set(b) and all(torch.equal(a[name], b[name]) for name in a)


def moved(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


def log_of(engine: Engine) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (engine.folder / "log.jsonl").read_text().splitlines()]


def checkpoint_names(engine: Engine) -> list[str]:
    return sorted(path.name for path in engine.checkpoint_folder.iterdir())


def test_a_run_from_start_to_end(make_engine):
    engine = make_engine("run.evaluate_every=3", "run.pictures=2")
    before = weights(engine)
    engine.train()
    assert engine.step == 6
    assert engine.watcher.steps == [1, 2, 3, 4, 5, 6]
    assert {name.split(".")[0] for name in moved(before, weights(engine))} == {
        *("backbone", "localization", "recognition", "language")
    }
    entries = log_of(engine)
    assert [entry["step"] for entry in entries if "caption" in entry] == [1, 2, 3, 4, 5, 6]
    assert [entry["step"] for entry in entries if "dev" in entry] == [3, 6]
    assert set(entries[0]) >= {
        "proposal_score",
        "proposal_box",
        "final_score",
        "final_box",
        "caption",
        "rate",
    }
    assert {path.name for path in (engine.folder / "pictures").iterdir()} == {
        "step-00000003.jpg",
        "step-00000006.jpg",
    }
    assert list((engine.folder / "tensorboard").iterdir())


def test_the_same_seed_is_the_same_run(make_engine):
    first, second, other = (
        make_engine(folder="a"),
        make_engine(folder="b"),
        make_engine("run.seed=9", folder="c"),
    )
    for engine in (first, second, other):
        engine.train()
    assert same(weights(first), weights(second))
    assert not same(weights(first), weights(other))


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw", "rmsprop"])
def test_stopped_and_resumed_is_as_if_never_stopped(kind, make_engine):
    """With dropout, augmentation, warm-up, running mean and workers' order in play."""
    changes = (
        f"optimizer.kind={kind}",
        f"backbone_optimizer.kind={kind}",
        *(
            "net.recognition.dropout=0.5",
            "net.language.dropout=0.3",
            "augmentation.flip=0.5",
            "augmentation.zoom=1.2",
        ),
        *("optimizer.rate=1e-3", "backbone_optimizer.rate=1e-4", "schedule.warmup=4"),
    )
    whole = make_engine(*changes, folder="whole")
    whole.train()
    part = make_engine(*changes, folder="part")
    part.train(seconds=0)  # one step, then a checkpoint
    assert part.step == 1
    part = make_engine(*changes, folder="part")
    assert part.resume()
    assert part.step == 1
    part.train()
    assert same(weights(whole), weights(part))
    assert whole.ema is not None
    assert part.ema is not None
    assert same(whole.ema.values, part.ema.values)
    last = [
        read_tensors(latest_checkpoint(e.checkpoint_folder), "optimizer") for e in (whole, part)
    ]
    assert same(*last)
    steps = [entry["step"] for entry in log_of(part) if "caption" in entry]
    assert steps == [1, 2, 3, 4, 5, 6]


def test_nothing_to_resume(make_engine):
    assert not make_engine().resume()


def test_a_finished_run_stays_finished(make_engine):
    engine = make_engine()
    engine.train()
    again = make_engine()
    assert again.resume()
    again.train()
    assert again.step == 6
    assert same(weights(engine), weights(again))


class TestRefusals:
    def test_another_recipe(self, make_engine):
        make_engine().train(seconds=0)
        with pytest.raises(UsageError, match=r"started with optimizer\.rate = 0\.002, now 0\.5"):
            make_engine("optimizer.rate=0.5").resume()
        with pytest.raises(UsageError, match=r"net\.localization\.anchors\.0\.0"):
            make_engine("net.localization.anchors=[[17,16],[28,28]]").resume()
        with pytest.raises(UsageError, match=r"run\.steps"):
            make_engine("run.steps=7").resume()

    def test_what_may_change(self, make_engine):
        make_engine().train(seconds=0)
        free = (
            "run.log_every=3",
            "run.checkpoint_every=5",
            "run.keep=1",
            "run.evaluate_every=3",
            "run.pictures=1",
        )
        assert make_engine(*free, "run.evaluate_photos=1", "run.workers=1").resume()

    def test_another_data_set_under_the_same_name(self, make_engine):
        """Same number of words, but other words: the weights would fit and mean something else."""
        make_engine().train(seconds=0)
        engine = make_engine()
        swapped = (
            engine.task.words.words[1],
            engine.task.words.words[0],
            *engine.task.words.words[2:],
        )
        object.__setattr__(engine.task.words, "words", swapped)
        with pytest.raises(UsageError, match="words of the data set"):
            engine.resume()

    def test_another_architecture(self, make_engine):
        engine = make_engine()
        engine.train(seconds=0)
        checkpoint = latest_checkpoint(engine.checkpoint_folder)
        state = read_state(checkpoint)
        state["recipe"]["net"]["language"]["hidden"] = 9
        (checkpoint / "state.json").write_text(json.dumps(state))
        other = make_engine("net.language.hidden=9")
        with pytest.raises(ModelError, match="another architecture") as caught:
            other.resume()
        assert caught.value.exit_code == 6

    def test_a_batch_that_cannot_be_shared(self, quick_recipe, tmp_path):
        task = FCLNTask.begin(quick_recipe("run.batch=3"))
        with pytest.raises(UsageError, match="cannot be shared by 2 processes"):
            Engine(task, tmp_path, CPU, Onlooker(), Processes(0, 2))
        task = FCLNTask.begin(quick_recipe("run.batch=6", "run.accumulate=2"))
        with pytest.raises(UsageError, match="in 2 parts each"):
            Engine(task, tmp_path, CPU, Onlooker(), Processes(0, 2))

    def test_recipes_compare_by_value_not_by_form(self):
        check_same_recipe(
            {"a": (1, 2), "run": {"keep": 1}}, {"a": [1, 2], "run": {"keep": 5}}, Path("x")
        )
        with pytest.raises(UsageError, match=r"a\.1 = 2, now None"):
            check_same_recipe({"a": [1, 2]}, {"a": [1]}, Path("x"))


class TestStops:
    def test_minutes(self, make_engine):
        engine = make_engine("run.checkpoint_every=100")
        engine.train(seconds=0)
        assert checkpoint_names(engine) == ["step-00000001"]

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_told_to_end_in_the_middle_of_a_step(self, number, make_engine):
        """The step is finished first, so that the checkpoint is that of a run never stopped."""
        onlooker = Onlooker()
        engine = make_engine("run.checkpoint_every=100", onlooker=onlooker)
        original = engine.optimizers["rest"].step

        def interrupted(*_: Any) -> None:
            if engine.step == 2:
                os.kill(os.getpid(), number)
            original()

        engine.optimizers["rest"].step = interrupted
        handlers = [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)]
        with pytest.raises(KeyboardInterrupt):
            engine.train()
        assert checkpoint_names(engine) == ["step-00000003"]
        assert handlers == [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)]
        resumed, whole = make_engine("run.checkpoint_every=100"), make_engine(folder="whole")
        assert resumed.resume()
        resumed.train()
        whole.train()
        assert same(weights(resumed), weights(whole))

    def test_an_error_on_the_way_is_not_hidden(self, make_engine):
        def fail(step: int) -> None:
            raise RuntimeError("the roof is on fire")

        with pytest.raises(RuntimeError, match="roof"):
            make_engine(onlooker=Onlooker(at_step=fail)).train()

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_a_loss_that_is_no_number_names_the_photos(self, value, make_engine):
        engine = make_engine()
        engine.train(seconds=0)
        before = weights(engine)
        original = engine.task.losses
        engine.task.losses = lambda batch: (
            original(batch) | {"caption": torch.tensor(value, requires_grad=True)}
        )
        batch = engine.task.batches(0, 1)[1]
        with pytest.raises(TrainingDiverged) as caught:
            engine.train()
        assert caught.value.exit_code == 1
        assert "step 1: a loss is not finite" in caught.value.message
        assert f"caption {value:g}" in caught.value.message
        assert all(name in caught.value.message for name in batch.names)
        assert same(weights(engine), before)
        assert checkpoint_names(engine) == ["step-00000001"]


class TestFrozen:
    def test_first_layers_never_move(self, make_engine):
        engine = make_engine(
            "schedule.freeze_first_layers=true", "backbone_optimizer.weight_decay=0.1"
        )
        before = weights(engine)
        engine.train()
        changed = moved(before, weights(engine))
        assert not any(name.startswith("backbone.layers.0.") for name in changed)
        assert any(name.startswith("backbone.layers.2.") for name in changed)

    def test_the_backbone_waits_for_its_epoch(self, make_engine):
        """8 photos in batches of 2: an epoch is 4 steps."""
        engine = make_engine(
            "schedule.backbone_from_epoch=1.0", "backbone_optimizer.weight_decay=0.1"
        )
        assert engine.task.backbone_from() == 4
        batches = engine.task.batches(0, 1)
        start = weights(engine)
        for step in range(6):
            before = weights(engine)
            engine.train_step([batches[step]])
            engine.step += 1
            changed = moved(before, weights(engine))
            assert any(name.startswith("backbone.") for name in changed) == (step >= 4)
            assert any(name.startswith("language.") for name in changed)
        assert moved(start, weights(engine))

    def test_batch_norm(self, make_engine, quick_recipe, tmp_path):
        lite = ("net.backbone=efficientnet-lite0", "net.input_size=32", "run.batch=2")
        for frozen in (True, False):
            changes = (*lite, f"schedule.freeze_batchnorm={str(frozen).lower()}")
            engine = make_engine(*changes, folder=str(frozen))
            before = weights(engine)
            engine.train_step([engine.task.batches(0, 1)[0]])
            tracked = {name for name in moved(before, weights(engine)) if "running_" in name}
            assert bool(tracked) != frozen

    def test_batch_norm_stands_still_while_the_backbone_waits(self, make_engine):
        changes = (
            "net.backbone=efficientnet-lite0",
            "net.input_size=32",
            "schedule.freeze_batchnorm=false",
        )
        engine = make_engine(*changes, "schedule.backbone_from_epoch=1.0")
        before = weights(engine)
        engine.train_step([engine.task.batches(0, 1)[0]])
        assert not any(name.startswith("backbone.") for name in moved(before, weights(engine)))


def test_rates_follow_the_schedule(make_engine):
    engine = make_engine(
        "schedule.warmup=3",
        "schedule.decay=cosine",
        "optimizer.rate=0.4",
        "backbone_optimizer.rate=0.2",
    )
    batches = engine.task.batches(0, 1)
    for step in range(6):
        engine.train_step([batches[step]])
        factor = rate_factor(step, 6, engine.recipe.schedule)
        rates = {
            name: {group["lr"] for group in o.param_groups} for name, o in engine.optimizers.items()
        }
        assert rates == {"backbone": {0.2 * factor}, "rest": {0.4 * factor}}
        engine.step += 1


def test_gradients_are_clipped_all_together(make_engine):
    engine = make_engine("schedule.clip_norm=1e-3")
    engine.train_step([engine.task.batches(0, 1)[0]])
    total = math.sqrt(
        sum(float(p.grad.square().sum()) for p in engine.net.parameters() if p.grad is not None)
    )
    assert total == pytest.approx(1e-3, rel=1e-3)


def test_gradients_are_clipped_one_by_one(make_engine):
    engine = make_engine("schedule.clip_value=1e-6")
    engine.train_step([engine.task.batches(0, 1)[0]])
    largest = max(float(p.grad.abs().max()) for p in engine.net.parameters() if p.grad is not None)
    assert largest == pytest.approx(1e-6)


def test_losses_are_weighted(make_engine):
    """Without any weight but that of the proposals' boxes, only what leads to them moves."""
    none = [
        f"losses.{name}=0.0" for name in ("proposal_score", "final_score", "final_box", "caption")
    ]
    engine = make_engine(
        *none, "optimizer.kind=sgd", "backbone_optimizer.kind=sgd", "optimizer.weight_decay=0.0"
    )
    before = weights(engine)
    engine.train_step([engine.task.batches(0, 1)[0]])
    changed = {
        name.rsplit(".", 1)[0]
        for name in moved(before, weights(engine))
        if not name.startswith("backbone.")
    }
    assert changed <= {"localization.conv", "localization.transforms"}
    assert "localization.transforms" in changed


def test_the_moving_average_is_what_is_evaluated_and_loaded(make_engine):
    engine = make_engine("schedule.ema=0.9")
    engine.train()
    assert engine.ema is not None
    averaged = engine.averaged_net()
    assert not averaged.training
    assert same(averaged.state_dict(), engine.ema.values)
    assert not same(averaged.state_dict(), weights(engine))
    trained = load_fcln(latest_checkpoint(engine.checkpoint_folder))
    assert same(trained.net.state_dict(), engine.ema.values)
    assert trained.words == engine.task.words
    assert trained.recipe == engine.recipe


def test_without_a_moving_average_the_weights_themselves(quick_recipe, tmp_path):
    from dataclasses import replace

    recipe = quick_recipe()
    recipe = replace(recipe, schedule=replace(recipe.schedule, ema=None))
    engine = Engine(FCLNTask.begin(recipe), tmp_path, CPU, Onlooker())
    engine.train(seconds=0)
    assert engine.ema is None
    net = load_fcln(latest_checkpoint(engine.checkpoint_folder)).net
    assert same(net.state_dict(), weights(engine))


class TestBest:
    def train(self, make_engine, values: list[float], *changes: str) -> Engine:
        engine = make_engine("run.evaluate_every=1", "run.keep=1", "run.metric=recall_50", *changes)
        results = iter(values)
        engine.task.evaluate = lambda *_: {"recall_50": next(results), "dense_map": 0.0}
        engine.train()
        return engine

    def test_the_best_checkpoint_is_kept_beside_the_newest(self, make_engine):
        engine = self.train(make_engine, [0.1, 0.5, 0.3, 0.5, 0.2, 0.1])
        assert engine.best == [{"step": 2, "value": 0.5}]
        assert checkpoint_names(engine) == ["step-00000002", "step-00000006"]
        assert read_state(latest_checkpoint(engine.checkpoint_folder))["best"] == engine.best

    def test_a_better_one_takes_its_place(self, make_engine):
        engine = self.train(make_engine, [0.1, 0.5, 0.3, 0.6, 0.2, 0.1])
        assert checkpoint_names(engine) == ["step-00000004", "step-00000006"]

    def test_no_number_is_never_best(self, make_engine):
        assert (
            self.train(make_engine, [math.nan, 0.1, math.nan, 0.0, 0.0, 0.0]).best[0]["step"] == 2
        )

    def test_it_is_remembered_when_the_run_resumes(self, make_engine):
        engine = make_engine("run.evaluate_every=1", "run.keep=1")
        engine.task.evaluate = lambda *_: {"dense_map": 0.7}
        engine.train(seconds=0)
        again = make_engine("run.evaluate_every=1", "run.keep=1")
        again.task.evaluate = lambda *_: {"dense_map": 0.2}
        assert again.resume()
        again.train()
        assert again.best[0]["step"] == 1
        assert checkpoint_names(again) == ["step-00000001", "step-00000006"]

    def test_several_are_kept_where_the_recipe_asks(self, make_engine):
        engine = self.train(make_engine, [0.1, 0.5, 0.3, 0.5, 0.2, 0.1], "run.keep_best=3")
        assert [one["step"] for one in engine.best] == [2, 4, 3]
        assert checkpoint_names(engine) == [f"step-0000000{step}" for step in (2, 3, 4, 6)]
        assert read_state(latest_checkpoint(engine.checkpoint_folder))["best"] == engine.best

    def test_of_some_metrics_the_smallest_is_the_best(self, make_engine, monkeypatch):
        monkeypatch.setattr(FCLNTask, "lower_is_better", ("recall_50",))
        assert self.train(make_engine, [0.4, 0.2, 0.3, 0.2, 0.5, 0.6]).best[0]["step"] == 2

    def test_without_dev_photos_there_is_no_best(self, make_engine):
        engine = make_engine()
        engine.task.evaluate = lambda *_: {}
        engine.train()
        assert engine.best == []


def test_so_many_checkpoints_are_kept(make_engine):
    engine = make_engine("run.checkpoint_every=1", "run.keep=2")
    engine.task.evaluate = lambda *_: {}
    engine.train()
    assert checkpoint_names(engine) == ["step-00000005", "step-00000006"]


def test_checkpoints_are_no_larger_than_foreseen(make_engine):
    engine = make_engine()
    engine.train(seconds=0)
    place = latest_checkpoint(engine.checkpoint_folder)
    size = sum(file.stat().st_size for file in place.glob("*.safetensors"))
    assert (
        0.5 * engine.checkpoint_bytes() < size < 1.1 * engine.checkpoint_bytes() + 50_000
    )  # and names


def test_bfloat16_learns_too(make_engine):
    engine = make_engine("run.precision=bfloat16")
    engine.train()
    assert all(
        value.dtype == torch.float32
        for value in weights(engine).values()
        if value.is_floating_point()
    )
    assert all(value.isfinite().all() for value in weights(engine).values())


def test_evaluating_does_not_disturb_training(make_engine):
    plain, watched = make_engine(folder="a"), make_engine("run.evaluate_every=1", folder="b")
    plain.train()
    watched.train()
    assert same(weights(plain), weights(watched))


def test_only_the_first_process_writes(quick_recipe, tmp_path):
    engine = Engine(FCLNTask.begin(quick_recipe()), tmp_path, CPU, Onlooker(), Processes(1, 2))
    engine.save()
    assert not list(tmp_path.iterdir())


def test_a_recipe_is_kept_in_plain_values(make_engine):
    engine = make_engine()
    engine.save()
    stored = read_state(latest_checkpoint(engine.checkpoint_folder))["recipe"]
    assert stored == json.loads(json.dumps(to_dict(engine.recipe)))
