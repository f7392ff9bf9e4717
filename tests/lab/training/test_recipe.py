"""Recipes: strict reading, changes from the command line, and the round trip through a checkpoint's
JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from regiontalk.errors import UsageError
from regiontalk.lab.training.detector.evaluation import evaluate_net
from regiontalk.lab.training.recipe import KINDS, from_stored, load_recipe, to_dict
from regiontalk.lab.training.recipe.detector import FCLNRunConfig

RECIPES = Path(__file__).parents[3] / "recipes"
SMALLEST = '[run]\nsteps = 5\n[[data]]\npath = "somewhere"\n'


@pytest.fixture
def recipe_file(tmp_path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(SMALLEST)
    return path


def refused(path: Path, *changes: str) -> str:
    with pytest.raises(UsageError) as caught:
        load_recipe(path, changes)
    assert caught.value.exit_code == 2
    assert "\n" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_recipes_of_the_repository_load_and_come_back_from_json(path):
    recipe = load_recipe(path)
    stored = json.loads(json.dumps(to_dict(recipe)))
    assert from_stored(KINDS[recipe.kind], stored, "checkpoint") == recipe


def test_defaults_are_the_papers(recipe_file):
    recipe = load_recipe(recipe_file)
    assert recipe.net == load_recipe(RECIPES / "fcln-paper.toml").net
    assert (recipe.sampler.regions, recipe.sampler.positive_iou, recipe.sampler.negative_iou) == (
        256,
        0.7,
        0.3,
    )
    assert recipe.losses == load_recipe(RECIPES / "fcln-paper.toml").losses
    assert recipe.backbone_optimizer.kind == "sgd"
    assert recipe.backbone_optimizer.momentum == 0.9
    assert (recipe.optimizer.kind, recipe.optimizer.rate, recipe.optimizer.betas) == (
        "adam",
        1e-6,
        (0.9, 0.99),
    )


def test_paper_recipe_follows_section_3():
    recipe = load_recipe(RECIPES / "fcln-paper.toml")
    losses = recipe.losses
    assert (losses.proposal_score, losses.proposal_box, losses.final_score, losses.final_box) == (
        0.1,
    ) * 4
    assert losses.caption == 1.0
    assert recipe.schedule.backbone_from_epoch == 1.0
    assert recipe.schedule.freeze_first_layers
    assert (recipe.run.batch, recipe.net.input_size, recipe.prediction.proposals) == (1, 720, 300)
    assert recipe.sampler.box_gradients
    assert recipe.anchor_sampler is None
    departures = ("clip", "drop_crossing", "balance", "add_ground_truth", "inference_proposals")
    assert not any(getattr(recipe.sampler, name) for name in departures)


def test_release_recipe_has_the_released_settings():
    recipe = load_recipe(RECIPES / "fcln-release.toml")
    assert recipe.net.localization.score_ways == 2
    assert recipe.net.initialization == "released"
    assert recipe.sampler.drop_crossing
    assert (recipe.losses.proposal_box, recipe.losses.transform_decay) == (0.05, 5e-5)
    assert recipe.losses.separate_means
    assert recipe.losses.largest_target == 10
    assert recipe.losses.sum_over_time
    assert recipe.optimizer.betas == (0.9, 0.999)
    assert recipe.optimizer.rate == 1e-5
    assert recipe.prediction.proposals == 1000


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("colour = 1\n" + SMALLEST, "'colour'"),
        (SMALLEST + "[net.localization]\nfilter = 3\n", "'filter'"),
        ('[[data]]\npath = "x"\n', "'run'"),
        ('[run]\nbatch = 2\n[[data]]\npath = "x"\n', "'steps'"),
        ("[run]\nsteps = 5\n[[data]]\nshare = 1.0\n", "'path'"),
        ('[run]\nsteps = "many"\n[[data]]\npath = "x"\n', "'many'"),
        ('[run]\nsteps = 2.5\n[[data]]\npath = "x"\n', "2.5"),
        ('[run]\nsteps = true\n[[data]]\npath = "x"\n', "True"),
        (
            SMALLEST + "[net.localization]\nanchors = [[1, 2, 3]]\n",
            "anchors[0]: [1, 2, 3] is not a list of 2 values",
        ),
        (SMALLEST + "[sampler]\nclip = 1\n", "bool"),
        (SMALLEST + "[anchor_sampler]\nadd_ground_truth = true\n", "'add_ground_truth'"),
        (SMALLEST + "[data.styles]\nobject = 3\n", "object"),
        (SMALLEST + '[optimizer]\nbetas = "x"\n', "not a list"),
        ("run = 3\n", "run: 3 is not of type dict"),
        ("data = []\n[run]\nsteps = 1\n", "the recipe has no [[data]]"),
        ("[run\n", "not TOML"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(text, named, recipe_file):
    recipe_file.write_text(text)
    message = refused(recipe_file)
    assert message.startswith(f"{recipe_file}: ")
    assert named in message


@pytest.mark.parametrize(
    "change",
    [
        "net.backbone=resnet",
        "net.initialization=zeros",
        "net.language.feed=twice",
        "net.localization.score_ways=3",
        "vocabulary.cleaning=none",
        "optimizer.kind=lion",
        "backbone_optimizer.kind=lion",
        "schedule.decay=linear",
        "run.precision=float16",
        "run.metric=cider",
        "kind=horoscope",
    ],
)
def test_a_bad_choice_lists_the_good_ones(change, recipe_file):
    message = refused(recipe_file, change)
    key, value = change.split("=")
    assert key in message
    assert value in message
    assert "it must be" in message


def test_a_bad_prediction_setting_lists_the_good_ones(recipe_file):
    assert "prediction: score is 'sum'; it must be final or product" in refused(
        recipe_file, "prediction.score=sum"
    )


@pytest.mark.parametrize(
    "key",
    [
        *(
            "run.steps",
            "run.batch",
            "run.keep",
            "run.keep_best",
            "run.log_every",
            "run.checkpoint_every",
            "run.evaluate_every",
        ),
        *("run.evaluate_photos", "sampler.regions", "augmentation.zoom"),
    ],
)
def test_numbers_that_cannot_be_zero(key, recipe_file):
    assert f"{key.replace('.', ': ')} is 0" in refused(recipe_file, f"{key}=0")


def test_files_that_are_not_there_or_not_text(tmp_path):
    assert "No such file" in refused(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'[run]\nname = "caf\xe9"\n')
    assert "not TOML" in refused(tmp_path / "latin.toml")
    assert refused(tmp_path)


def test_changes_take_toml_values_and_bare_text(recipe_file):
    changes = (
        "run.steps=7",
        "run.metric=recall_50",
        "net.localization.anchors=[[1, 2], [3.5, 4]]",
        "data.0.path=/a b/c=d",
        "data.0.styles.object=names",
        "schedule.ema=0.9",
        "sampler.clip=true",
        "optimizer.betas=[0.5, 0.6]",
    )
    recipe = load_recipe(recipe_file, changes)
    assert (recipe.run.steps, recipe.run.metric) == (7, "recall_50")
    assert recipe.net.localization.anchors == ((1.0, 2.0), (3.5, 4.0))
    assert recipe.data[0].path == "/a b/c=d"
    assert recipe.data[0].styles == {"object": "names"}
    assert (recipe.schedule.ema, recipe.sampler.clip, recipe.optimizer.betas) == (
        0.9,
        True,
        (0.5, 0.6),
    )


@pytest.mark.parametrize(
    "change",
    [
        "run.steps",
        "data.1.path=x",
        "data.first.path=x",
        "run.steps.deep=1",
        "data.0.path.deep=1",
        "data.9=1",
    ],
)
def test_changes_that_lead_nowhere(change, recipe_file):
    assert change in refused(recipe_file, change)


def test_a_change_is_checked_like_the_file(recipe_file):
    assert "'stepps'" in refused(recipe_file, "run.stepps=3")
    assert "not of type int" in refused(recipe_file, "run.steps=many")


def test_the_metrics_to_choose_by_are_those_that_are_reported(quick_recipe, scenes):
    from regiontalk.lab.data.records import Dataset
    from regiontalk.lab.training.detector.task import FCLNTask

    recipe = quick_recipe()
    task = FCLNTask.begin(recipe)
    net = task.net.eval()
    metrics, _ = evaluate_net(
        net, task.words, recipe.prediction, Dataset(scenes, "dev"), 1, pytest.fail
    )
    assert tuple(metrics) == get_args(get_type_hints(FCLNRunConfig)["metric"])


def test_the_style_length_needs_lengths_and_another_style(recipe_file):
    by_length = 'data=[{path="x", styles={derived="length", "*"="phrase"}}]'
    assert "needs vocabulary.lengths" in refused(recipe_file, by_length)
    assert load_recipe(recipe_file, (by_length, "vocabulary.lengths=10")).vocabulary.lengths == 10
    alone = 'data=[{path="x", styles={derived="length"}}]'
    assert "no style but 'length'" in refused(recipe_file, alone, "vocabulary.lengths=10")
    assert "it must be 0 or more" in refused(recipe_file, "vocabulary.lengths=-1")


def test_a_recipe_replaces_keys_of_its_base(tmp_path):
    (tmp_path / "first.toml").write_text(
        'run = { steps = 5, batch = 2 }\ndata = [{ path = "a" }, { path = "b" }]\n'
    )
    (tmp_path / "second.toml").write_text(
        'base = "first.toml"\nrun = { steps = 7 }\ndata = [{ path = "c" }]\n'
    )
    recipe = load_recipe(tmp_path / "second.toml", ("run.batch=3",))
    assert (recipe.run.steps, recipe.run.batch) == (7, 3)
    assert [data.path for data in recipe.data] == ["c"], "a list is replaced as a whole"
    (tmp_path / "first.toml").write_text('base = "second.toml"\n')
    with pytest.raises(UsageError, match="base"):
        load_recipe(tmp_path / "second.toml")


def test_mosaics_and_sentences_of_whole_photos_exclude_each_other(recipe_file):
    sentences = ("sentences.per_photo=2", "sampler.inference_proposals=8")
    assert "whole photos" in refused(recipe_file, *sentences, "augmentation.mosaic=0.5")
    assert "mosaic" in refused(recipe_file, "augmentation.mosaic=1.5")
    assert load_recipe(recipe_file, ("augmentation.mosaic=1.0",)).augmentation.mosaic == 1
