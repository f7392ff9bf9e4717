"""A run, a checkpoint or a model folder as a runtime in torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import regiontalk
from regiontalk.errors import ModelError
from regiontalk.lab.training.checkpoints import save_checkpoint
from regiontalk.lab.training.detector.task import FCLNTask
from regiontalk.lab.training.recipe.detector import FCLNRecipe
from regiontalk.model import Model
from regiontalk.models.torch_loading import open_torch_runtime
from regiontalk.models.torch_runtime import TorchRuntime
from regiontalk.results import Alignment, Description


def test_a_run_is_its_best_checkpoint(untrained_run: Path, tmp_path: Path) -> None:
    assert open_torch_runtime(untrained_run / "run").info.name == "step-00000000"
    with pytest.raises(ModelError, match="no checkpoint here"):
        open_torch_runtime(tmp_path)


def assert_say_alike(ours: Description, theirs: Description) -> None:
    assert ours.sentence == theirs.sentence
    assert ours.logprob == pytest.approx(theirs.logprob, abs=1e-3)


def assert_align_alike(ours: Alignment, theirs: Alignment) -> None:
    assert [segment.words for segment in ours.segments] == [
        segment.words for segment in theirs.segments
    ]
    for one, other in zip(ours.segments, theirs.segments, strict=True):
        assert one.xyxy == pytest.approx(other.xyxy, abs=0.01)
        assert one.score == pytest.approx(other.score, abs=1e-3)


def test_a_model_folder_keeps_its_name_settings_and_heads(
    speaking_model: Path, aligning_model: Path, scene: Image.Image
) -> None:
    runtime, exported = open_torch_runtime(speaking_model), regiontalk.load(speaking_model)
    assert runtime.info == exported.runtime.info
    assert_say_alike(Model(runtime).describe(scene), exported.describe(scene))
    ours, theirs = Model(open_torch_runtime(aligning_model)), regiontalk.load(aligning_model)
    assert_align_alike(ours.align(scene, "a red square"), theirs.align(scene, "a red square"))


@pytest.fixture(params=["checkpoint", "folder"])
def with_heads(
    request: pytest.FixtureRequest, sentences_run: Path, alignment_run: Path
) -> TorchRuntime:
    """A detector's checkpoint, or the model folder exported from it, with two heads' runs beside
    it."""
    place = request.getfixturevalue(
        "shaken_checkpoint" if request.param == "checkpoint" else "tiny_model"
    )
    return open_torch_runtime(place, heads=[sentences_run / "run", alignment_run])


def test_heads_of_runs_say_what_their_exports_say(
    with_heads: TorchRuntime, speaking_model: Path, aligning_model: Path, examples: Path
) -> None:
    ours, speaking, aligning = (
        Model(with_heads),
        regiontalk.load(speaking_model),
        regiontalk.load(aligning_model),
    )
    for photo in ("coffee.jpg", "chelsea.jpg"):
        path = examples / "photos" / photo
        for beam in (1, 4):
            assert_say_alike(ours.describe(path, beam=beam), speaking.describe(path, beam=beam))
        for sentence in (
            "a red square",
            "two circles and " * 10,
        ):  # the second is longer than one window
            assert_align_alike(ours.align(path, sentence), aligning.align(path, sentence))


def test_graphs_of_heads_give_what_they_give_in_onnxruntime(
    with_heads: TorchRuntime, speaking_model: Path, aligning_model: Path
) -> None:
    """Every head's graphs, for two numbers of rows and regions."""
    random = np.random.default_rng(0)
    for rows, regions in ((1, 20), (5, 3)):
        shown = [
            random.normal(size=(rows, count, 192)).astype(np.float32) for count in (3, regions)
        ]
        places = random.uniform(size=(rows, regions, 5)).astype(np.float32)
        codes = random.normal(size=(regions, 192)).astype(np.float32)
        tokens, mask = np.arange(24)[None] % 9, (np.arange(24)[None] < rows + 3).astype(np.float32)
        answers = []
        for spoken, aligned in (
            (with_heads, with_heads),
            (regiontalk.load(speaking_model).runtime, regiontalk.load(aligning_model).runtime),
        ):
            assert spoken.code_size() == 192
            state = spoken.run("sentence_begin", *shown, places)
            stepped = spoken.run("sentence_step", np.arange(rows), *state)
            words = aligned.run("words", tokens, mask)[0][: rows + 3]
            answers.append([*state, *stepped, words, *aligned.run("vectors", codes)])
        for ours, theirs in zip(*answers, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_a_head_of_another_detector_is_refused(
    sentences_run: Path, quick_recipe: Callable[[], FCLNRecipe], tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match="another detector"):
        open_torch_runtime(regiontalk.EMBEDDED, heads=[sentences_run / "run"])
    task = FCLNTask.begin(quick_recipe())
    save_checkpoint(tmp_path, 1, {"model": task.net.state_dict()}, task.description())
    with pytest.raises(ModelError, match="the head 'sentence' reads codes of size 192, not 24"):
        open_torch_runtime(tmp_path, heads=[sentences_run / "run"])
