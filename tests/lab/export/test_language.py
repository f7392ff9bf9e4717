"""A model folder with another language model: its captions change, and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from regiontalk.cli.main import run
from regiontalk.lab.codes.true_boxes import BoxesOrigin, true_box_codes
from regiontalk.lab.export.pretrained import load_pretrained
from regiontalk.lab.training.checkpoints import find_checkpoint, load_language
from regiontalk.lab.training.heads.language import greedy_captions
from regiontalk.models.folder import read_model_folder
from regiontalk.models.onnx_runtime import OnnxRuntime


@pytest.fixture(scope="module")
def language_run(
    tmp_path_factory: pytest.TempPathFactory, untrained_run: Path, speaking_model: Path
) -> Path:
    """The run of a language model that learned a new word; not to be changed."""
    folder = tmp_path_factory.mktemp("language")
    data = untrained_run / "data"
    true_box_codes(BoxesOrigin(speaking_model, data, "train"), folder / "codes")
    recipe = folder / "recipe.toml"
    recipe.write_text(
        f'kind = "language"\ninit_from = "{speaking_model}"\nsmallest_count = 1\n'
        f'data = [{{ path = "{data}", codes = ["{folder / "codes"}"] }}]\n'
        "run = { steps = 3, batch = 8, workers = 0 }\n"
        'optimizer = { kind = "adamw", rate = 1e-2 }\n'
    )
    assert run(["train", str(recipe), "-o", str(folder / "run"), "--device", "cpu", "-q"]) == 0
    return folder / "run"


def test_all_but_the_words_stays(language_run: Path, speaking_model: Path, tmp_path: Path) -> None:
    assert run(["export", str(language_run), str(tmp_path / "new"), "-q"]) == 0
    old = read_model_folder(speaking_model)
    new = read_model_folder(tmp_path / "new")
    assert {name for name in old.graphs if old.graphs[name] != new.graphs[name]} == {"step"}
    assert new.heads == old.heads
    assert new.detector == old.detector
    assert new.info.name == "new"
    assert new.info.prediction == old.info.prediction
    assert new.words.words[: len(old.words.words)] == old.words.words


def test_the_graph_says_what_the_net_says(language_run: Path, tmp_path: Path) -> None:
    assert run(["export", str(language_run), str(tmp_path / "new"), "-q"]) == 0
    trained = load_language(find_checkpoint(language_run))
    runtime = OnnxRuntime(tmp_path / "new", threads=1)
    inputs = np.random.default_rng(0).random((5, trained.net.visual.out_features), np.float32)
    h, c = trained.net.begin(torch.from_numpy(inputs))
    tokens = np.full(5, trained.words.start())
    state = (h.detach().numpy(), c.detach().numpy(), inputs)
    with torch.inference_mode():
        logprobs, *_ = trained.net.step(
            torch.from_numpy(tokens), *(torch.from_numpy(part) for part in state)
        )
    from_graph, _ = runtime.step(tokens, state)
    np.testing.assert_allclose(from_graph, logprobs, atol=1e-4)
    assert len(greedy_captions(trained.net, trained.words, inputs, torch.device("cpu"))) == 5


def test_a_share_of_the_starting_weights_is_exported(
    language_run: Path, speaking_model: Path, tmp_path: Path
) -> None:
    assert run(["export", str(language_run), str(tmp_path / "new"), "-q"]) == 0
    for checkpoint in (language_run / "checkpoints").iterdir():
        state = json.loads((checkpoint / "state.json").read_text())
        state["recipe"]["start_share"] = 0.5
        copied = tmp_path / "half-way" / checkpoint.name
        shutil.copytree(checkpoint, copied)
        (copied / "state.json").write_text(json.dumps(state))
    assert run(["export", str(copied), str(tmp_path / "half"), "-q"]) == 0
    old, new, half = (
        load_pretrained(str(place)).net.language.output.bias
        for place in (speaking_model, tmp_path / "new", tmp_path / "half")
    )
    assert not torch.equal(old, new[: len(old)])
    np.testing.assert_allclose(
        half[: len(old)].detach(), (old.detach() + new[: len(old)].detach()) / 2, atol=1e-6
    )


def test_what_cannot_be_combined_is_said(
    language_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["export", str(language_run), str(tmp_path / "new"), "--precision", "int8"]
    assert run(asked) == 2
    assert "from the model it started from" in capsys.readouterr().err
