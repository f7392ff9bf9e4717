"""Going on from a model: the same network comes back out of its folder, learns new words, and
learns quicker."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from regiontalk.cli.main import run
from regiontalk.errors import ModelError
from regiontalk.lab.data.drawn import write_scenes
from regiontalk.lab.export import detector
from regiontalk.lab.export.graphs import serialize
from regiontalk.lab.export.pretrained import load_pretrained
from regiontalk.lab.nets.fcln import FCLN, FCLNConfig
from regiontalk.lab.nets.language import LanguageConfig
from regiontalk.lab.nets.localization import LocalizationConfig
from regiontalk.lab.nets.recognition import RecognitionConfig
from regiontalk.lab.training.checkpoints import read_state, read_tensors, save_checkpoint
from regiontalk.lab.training.detector.task import FCLNTask
from regiontalk.lab.training.engine import Engine
from regiontalk.lab.training.recipe import load_recipe, to_dict
from regiontalk.language.vocabulary import UNKNOWN, Vocabulary
from regiontalk.models.folder import ModelInfo, read_model_folder, write_model_folder
from regiontalk.models.onnx_runtime import OnnxRuntime
from regiontalk.models.settings import PredictionConfig
from regiontalk.models.torch_runtime import Propose, Recognize, Step

RECIPES = Path(__file__).parents[3] / "recipes"


def assert_same_outputs(net: FCLN, runtime: OnnxRuntime, side: int, tolerance: float) -> None:
    """The stages of a torch net against those of a model folder, each on the same inputs."""
    generator = np.random.default_rng(2)
    image = generator.uniform(0, 255, (1, 3, side, side)).astype(np.float32)
    size = np.array([[side, side]], dtype=np.float32)
    with torch.inference_mode():
        proposed = runtime.propose(image, (side, side))
        own = Propose(net)(torch.from_numpy(image), torch.from_numpy(size))
        np.testing.assert_allclose(own[1], proposed.deep, atol=tolerance * proposed.deep.std())
        np.testing.assert_allclose(own[3], proposed.logits, atol=tolerance * proposed.logits.std())
        boxes = proposed.boxes_xyxy[:20]
        recognized = runtime.recognize(proposed.features, (side, side), boxes)
        inputs = map(torch.from_numpy, (proposed.features, size, boxes))
        _, _, codes, *_ = Recognize(net)(*inputs)
        np.testing.assert_allclose(codes, recognized.codes, atol=tolerance * recognized.codes.std())
        tokens = np.arange(len(boxes)) % len(runtime.words)
        logprobs, _ = runtime.step(tokens, recognized.state)
        own_logprobs, _, _ = Step(net)(*map(torch.from_numpy, (tokens, *recognized.state)))
        np.testing.assert_allclose(own_logprobs, logprobs, atol=tolerance * logprobs.std())


@pytest.mark.parametrize(
    ("precision", "tolerance"), [("float32", 1e-4), ("float16", 1e-4), ("int8-stored", 1e-4)]
)
def test_a_net_comes_back_out_of_its_folder(
    shaken_checkpoint: Path,
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    precision: str,
    tolerance: float,
) -> None:
    """As exact as the arithmetic: what the folder rounded is rounded for both."""
    graphs = read_model_folder(tiny_model).graphs
    monkeypatch.setattr(
        detector, "trace", lambda _: {name: onnx.load_from_string(graphs[name]) for name in graphs}
    )
    detector.export_model(shaken_checkpoint, tmp_path / "model", "model", precision)
    pretrained = load_pretrained(str(tmp_path / "model"))
    assert_same_outputs(pretrained.net, OnnxRuntime(tmp_path / "model", threads=1), 96, tolerance)


def test_so_does_one_that_multiplies_integers(
    shaken_checkpoint: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its graphs round the inputs of its layers as well, so weights are compared, not outputs."""
    graphs = read_model_folder(tiny_model).graphs
    monkeypatch.setattr(
        detector, "trace", lambda _: {name: onnx.load_from_string(graphs[name]) for name in graphs}
    )
    detector.export_model(shaken_checkpoint, tmp_path / "model", "model", "int8")
    whole, pretrained = (
        load_pretrained(str(tiny_model)).net,
        load_pretrained(str(tmp_path / "model")).net,
    )
    for name, weight in whole.state_dict().items():
        assert (pretrained.state_dict()[name] - weight).abs().max() <= 0.01 * weight.abs().max(), (
            name
        )


@pytest.mark.parametrize(
    "backbone", ["efficientnet-lite0", pytest.param("vit-s", marks=pytest.mark.slow)]
)
def test_folded_batch_normalisation_comes_back_as_a_bias(tmp_path: Path, backbone: str) -> None:
    config = FCLNConfig(
        backbone=backbone,
        channels=16,
        input_size=64,
        initialization="he",
        localization=LocalizationConfig(anchors=((20.0, 20.0), (40.0, 40.0)), filters=16),
        recognition=RecognitionConfig(cells=3, hidden=32, code=24),
        language=LanguageConfig(embedding=16, hidden=16),
    )
    torch.manual_seed(1)
    words = Vocabulary(("a", "dog"))
    net = FCLN(config, len(words), 1).eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):  # as if it had been trained
            nn.init.uniform_(module.weight, 0.5, 1.5)
            for values in (module.bias, module.running_mean):
                nn.init.normal_(values, std=0.3)  # type: ignore[arg-type]
            nn.init.uniform_(module.running_var, 0.5, 2.0)  # type: ignore[arg-type]
    for name, weight in net.named_parameters():
        if name in ("backbone.positions", "backbone.class_token"):
            nn.init.normal_(weight, std=0.1)
        elif name.startswith("backbone.") and weight.dim() == 1:
            nn.init.normal_(weight, 1.0, std=0.1)  # equal ones would be stored once
    info = ModelInfo("lite", "fcln", "float16", 64, 32, PredictionConfig(), to_dict(config))
    write_model_folder(tmp_path / "lite", info, words, serialize(detector.trace(net), "float16"))
    pretrained = load_pretrained(str(tmp_path / "lite"))
    assert pretrained.folded
    assert_same_outputs(pretrained.net, OnnxRuntime(tmp_path / "lite", threads=1), 64, 1e-3)


def test_equal_weights_are_not_lost(untrained_run: Path, tmp_path: Path) -> None:
    """The exporter leaves out biases that are zero, as in a new net, and writes equal ones once."""
    checkpoint = next((untrained_run / "run" / "checkpoints").iterdir())
    state = {
        key: value for key, value in read_state(checkpoint).items() if key not in ("format", "step")
    }
    weights = read_tensors(checkpoint, "model")
    weights["language.lstm.bias_hh_l0"] = weights["language.lstm.bias_ih_l0"].clone()
    saved = save_checkpoint(tmp_path / "checkpoints", 1, {"model": weights}, state)
    detector.export_model(saved, tmp_path / "new", "new")
    found = load_pretrained(str(tmp_path / "new")).net.state_dict()
    for name, weight in weights.items():
        assert torch.equal(found[name], weight), name


def test_known_words_keep_their_weights_and_new_ones_start_as_unknown(tiny_model: Path) -> None:
    pretrained = load_pretrained(str(tiny_model))
    known = pretrained.words
    mine = Vocabulary(("zebra", known.words[3], "quagga"), styles=("sketch", *known.styles))
    words = pretrained.extend(mine)
    assert words.words == (*known.words, "zebra", "quagga")
    assert words.styles == mine.styles
    net = FCLN(pretrained.net.config, len(words), len(words.styles))
    pretrained.fill(net, words)
    old, new = pretrained.net.language, net.language
    number, zebra = known.encode([known.words[3]])[0], words.encode(["zebra"])[0]
    for before, after in (
        (old.embedding.weight, new.embedding.weight),
        (old.output.weight, new.output.weight),
    ):
        assert torch.equal(after[number], before[number])
        assert torch.equal(after[zebra], before[UNKNOWN])
    for style, place in (("sketch", known.start()), (known.styles[0], known.start())):
        assert torch.equal(new.embedding.weight[words.start(style)], old.embedding.weight[place])


def test_start_tokens_of_lengths_start_as_the_first_style_and_are_kept_afterwards(
    tiny_model: Path,
) -> None:
    pretrained = load_pretrained(str(tiny_model))
    words = replace(pretrained.words, lengths=3)
    net = FCLN(pretrained.net.config, len(words), words.starts)
    pretrained.fill(net, words)
    first = pretrained.net.language.embedding.weight[pretrained.words.start()]
    assert torch.equal(net.language.embedding.weight[words.start_of_length(1)], first)
    nn.init.normal_(net.language.embedding.weight)
    more = replace(words, lengths=5)
    longer = FCLN(net.config, len(more), more.starts)
    replace(pretrained, net=net, words=words).fill(longer, more)
    old, new = net.language.embedding.weight, longer.language.embedding.weight
    for length, same_as in ((1, 1), (3, 3), (5, 3)):
        assert torch.equal(new[more.start_of_length(length)], old[words.start_of_length(same_as)])


def test_the_recipe_says_how_often_blocks_are_skipped(tiny_model: Path) -> None:
    pretrained = load_pretrained(str(tiny_model))
    recipe = load_recipe(RECIPES / "compact-sentences.toml")
    assert recipe.net.skip > 0
    assert pretrained.adapt(recipe).net == replace(pretrained.net.config, skip=recipe.net.skip)


def test_a_folder_of_another_net_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    model = read_model_folder(tiny_model)
    for change, said in (
        ({"channels": 32}, "another architecture"),
        ({"colour": "red"}, "unknown key 'colour'"),
    ):
        info = ModelInfo(**{**vars(model.info), "net": {**model.info.net, **change}})
        folder = tmp_path / next(iter(change))
        write_model_folder(folder, info, model.words, model.graphs)
        with pytest.raises(ModelError, match=said):
            load_pretrained(str(folder))
    with pytest.raises(ModelError, match="no such model folder or run"):
        load_pretrained(str(tmp_path / "nowhere"))


def losses_of(folder: Path) -> list[float]:
    """The sum of the losses at every step."""
    entries = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    names = ("proposal_score", "proposal_box", "final_score", "final_box", "caption")
    return [sum(entry[name] for name in names) for entry in entries if "caption" in entry]


@pytest.fixture
def train(quick_changes: tuple[str, ...]) -> Callable[..., int]:
    """`regiontalk train` of a very small net."""

    def call(out: Path, *arguments: str) -> int:
        sets = [word for change in quick_changes for word in ("--set", change)]
        return run(
            [
                "train",
                str(RECIPES / "tiny.toml"),
                "-o",
                str(out),
                "-q",
                "--device",
                "cpu",
                *sets,
                *arguments,
            ]
        )

    return call


def test_fine_tuning_starts_ahead_of_a_new_net(train: Callable[..., int], tmp_path: Path) -> None:
    assert (
        train(tmp_path / "long", "--set", "run.steps=150", "--set", "run.checkpoint_every=150") == 0
    )
    assert (
        run(
            [
                "export",
                str(tmp_path / "long"),
                str(tmp_path / "model"),
                "--precision",
                "int8-stored",
                "-q",
            ]
        )
        == 0
    )
    write_scenes(tmp_path / "others", train=8, dev=2, long_side=64, seed=9)
    others = [
        "--set",
        f"data.0.path={tmp_path / 'others'}",
        "--set",
        "run.steps=10",
        "--set",
        "net.channels=16",
    ]
    assert train(tmp_path / "new", *others) == 0
    assert train(tmp_path / "tuned", *others, "--from", str(tmp_path / "model")) == 0
    new, tuned = losses_of(tmp_path / "new"), losses_of(tmp_path / "tuned")
    assert len(new) == len(tuned) == 10
    assert max(tuned) < min(new)
    *_, checkpoint = sorted((tmp_path / "tuned" / "checkpoints").iterdir())
    recipe: dict[str, Any] = json.loads((checkpoint / "state.json").read_text())["recipe"]
    assert (recipe["init_from"], recipe["net"]["channels"]) == (str(tmp_path / "model"), 8)


def test_resuming_needs_the_same_model_to_start_from(
    train: Callable[..., int], tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = ["--from", str(tiny_model)]
    assert train(tmp_path / "run", "--set", "run.steps=2", *start) == 0
    assert train(tmp_path / "run", "--set", "run.steps=2", "--resume", *start) == 0
    assert train(tmp_path / "run", "--set", "run.steps=2", "--resume") == 2
    assert "started with init_from" in capsys.readouterr().err


def test_embedded_is_the_model_in_the_package(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tiny_model, tmp_path / "weights")
    monkeypatch.setattr("regiontalk.models.packaged.EMBEDDED", tmp_path / "weights")
    assert load_pretrained("embedded").words == read_model_folder(tiny_model).words
    monkeypatch.setattr("regiontalk.models.packaged.EMBEDDED", tmp_path / "nothing")
    with pytest.raises(ModelError, match="no such model folder"):
        load_pretrained("embedded")


@pytest.mark.parametrize("second", ["fcln-mosaics", "fcln-balanced"])
def test_recognition_and_language_learn_before_localization(
    second: str, scenes: Path, quick_changes: tuple[str, ...], tmp_path: Path
) -> None:
    """recipes/fcln-captions.toml and the recipes that go on from it, with a very small net: what
    was learned on true boxes is kept, and the localization layer is new."""

    class Nobody:
        def step(self, *_: object) -> None: ...
        def say(self, _: str) -> None: ...

    small = (
        f'data=[{{path="{scenes}"}}]',
        *(change for change in quick_changes if not change.startswith("data")),
        *("net.backbone=tiny", "net.language.dropout=0.3", "vocabulary.smallest_count=1"),
        *("run.precision=float32", "run.workers=0", "run.steps=2", "schedule.warmup=1"),
        "schedule.freeze_first_layers=false",
    )
    first = load_recipe(RECIPES / "fcln-captions.toml", (*small, 'backbone_weights=""'))
    first = replace(first, backbone_weights=None)
    Engine(FCLNTask.begin(first), tmp_path / "run", torch.device("cpu"), Nobody()).train()
    pretrained = load_pretrained(str(tmp_path / "run"))
    taught = pretrained.net.state_dict()
    recipe = load_recipe(RECIPES / f"{second}.toml", (*small, f"init_from={tmp_path / 'run'}"))
    task = FCLNTask.begin(recipe)
    assert task.recipe.net.localize
    assert task.recipe.net.localization == recipe.net.localization
    weights = task.net.state_dict()
    assert {name.split(".")[0] for name in set(weights) - set(taught)} == {"localization"}
    assert all(torch.equal(weights[name], taught[name]) for name in taught)
    Engine(task, tmp_path / "whole", torch.device("cpu"), Nobody()).train()
    trained = load_pretrained(str(tmp_path / "whole")).net
    assert trained.config.localize
    assert not torch.equal(
        trained.state_dict()["language.output.bias"], taught["language.output.bias"]
    )
