"""The ONNX Runtime form of the network: what it loads, what it refuses, and that it is quick to
refuse."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from regiontalk.errors import ModelError, UsageError
from regiontalk.models.onnx_runtime import THREADS, OnnxRuntime


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def sign_again(folder: Path) -> None:
    names = sorted(item.name for item in folder.iterdir() if item.name != "SHA256SUMS")
    lines = (
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names
    )
    (folder / "SHA256SUMS").write_text("".join(lines))


def photo(height: int, width: int) -> np.ndarray:
    return (
        np.random.default_rng(height * width)
        .uniform(0, 255, (1, 3, height, width))
        .astype(np.float32)
    )


def test_the_stages_follow_each_other(tiny_model: Path) -> None:
    runtime = OnnxRuntime(tiny_model, threads=1)
    features, deep, boxes, logits = runtime.propose(photo(64, 96), (90, 50))
    assert features.shape[2:] == deep.shape[2:] == (4, 6)
    assert boxes.shape == (len(logits), 4)
    assert len(logits) == 4 * 6 * len(runtime.info.net["localization"]["anchors"])
    assert (boxes >= 0).all()
    assert (boxes <= [90, 50, 90, 50]).all()
    found = runtime.recognize(features, (90, 50), boxes[:5])
    assert (found.boxes_xyxy.shape, found.logits.shape, found.codes.shape) == (
        (5, 4),
        (5,),
        (5, 128),
    )
    assert (found.boxes_xyxy <= [90, 50, 90, 50]).all()
    assert runtime.pooled_features(deep, boxes[:5]).shape == (5, deep.shape[1])
    tokens = np.full(5, runtime.words.start(), dtype=np.int64)
    logprobs, state = runtime.step(tokens, found.state)
    assert logprobs.shape == (5, len(runtime.words))
    assert np.exp(logprobs).sum(axis=1) == pytest.approx(np.ones(5), abs=1e-5)
    assert [part.shape for part in state] == [part.shape for part in found.state]
    assert not np.allclose(state[0], found.state[0])


def test_damaged_bytes_never_reach_onnxruntime(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("onnxruntime was given the bytes")

    monkeypatch.setattr(onnxruntime, "InferenceSession", never)
    with pytest.raises(ModelError, match="was given the bytes"):
        OnnxRuntime(model)
    data = bytearray((model / "step.onnx").read_bytes())
    data[-1000] ^= 16
    (model / "step.onnx").write_bytes(data)
    with pytest.raises(ModelError, match="damaged"):
        OnnxRuntime(model)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            lambda model: (model / "step.onnx").write_bytes(b"\x08\x07 not a graph"),
            "cannot load it",
        ),
        (
            lambda model: shutil.copy(model / "propose.onnx", model / "step.onnx"),
            "not the graph 'step'",
        ),
    ],
)
def test_wrong_graphs_with_right_sums_are_a_models_fault(
    model: Path, damage: object, said: str
) -> None:
    assert callable(damage)
    damage(model)
    sign_again(model)
    with pytest.raises(ModelError, match=said):
        OnnxRuntime(model)


def test_graphs_and_words_must_agree(model: Path) -> None:
    words = (model / "vocabulary.json").read_text()
    assert '"red"' in words
    (model / "vocabulary.json").write_text(words.replace('"red"', '"red",\n"mauve"'))
    sign_again(model)
    with pytest.raises(ModelError, match="tokens"):
        OnnxRuntime(model)


def test_lazily_the_detector_is_opened_and_checked_when_it_is_first_run(model: Path) -> None:
    (model / "vocabulary.json").write_text(
        (model / "vocabulary.json").read_text().replace('"red"', '"red",\n"mauve"')
    )
    sign_again(model)
    runtime = OnnxRuntime(model, lazily=True)
    assert "mauve" in runtime.words.words
    with pytest.raises(ModelError, match="tokens"):
        runtime.propose(photo(64, 96), (90, 50))


def test_threads_come_from_the_argument_or_the_environment(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []
    session = onnxruntime.InferenceSession

    def spy(graph: bytes, options: onnxruntime.SessionOptions, **rest: object) -> object:
        used.append(options.intra_op_num_threads)
        return session(graph, options, **rest)

    monkeypatch.setattr(onnxruntime, "InferenceSession", spy)
    monkeypatch.delenv(THREADS, raising=False)
    OnnxRuntime(tiny_model)
    monkeypatch.setenv(THREADS, "1")
    OnnxRuntime(tiny_model)
    OnnxRuntime(tiny_model, threads=2)
    assert used == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    for wrong in ("many", "-1", "1.5"):
        monkeypatch.setenv(THREADS, wrong)
        with pytest.raises(UsageError, match="threads"):
            OnnxRuntime(tiny_model)


def test_importing_the_package_loads_neither_onnxruntime_nor_torch() -> None:
    code = (
        "import sys, regiontalk, regiontalk.model, regiontalk.models.runtime;"
        "sys.exit(bool({'onnxruntime', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_onnxruntime_tells_nobody_what_is_run(tiny_model: Path, tmp_path: Path) -> None:
    """Its telemetry would leave a number of this machine in the user's folder, and send what it
    notes."""
    code = "import sys, regiontalk; regiontalk.load(sys.argv[1])"
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "PYTHONPATH", "SYSTEMROOT")
    }
    subprocess.run(
        [sys.executable, "-c", code, str(tiny_model)],
        check=True,
        env={**kept, "HOME": str(tmp_path)},
    )
    assert list(tmp_path.iterdir()) == []


def test_a_lack_of_memory_is_not_the_models_fault(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("[ONNXRuntimeError] : 6 : std::bad_alloc")

    monkeypatch.setattr(onnxruntime, "InferenceSession", fail)
    with pytest.raises(MemoryError):
        OnnxRuntime(model)
