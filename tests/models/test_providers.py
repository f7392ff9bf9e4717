"""Devices by the name of ONNX Runtime's providers: what is missing is told, and the CPU does it.

No machine of the tests has another provider than the CPU's. Lists of providers, and a session that
refuses one, stand in for them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import regiontalk
from regiontalk.errors import UsageError
from regiontalk.models import providers
from regiontalk.models.onnx_runtime import OnnxRuntime

CPU_ALONE = ["AzureExecutionProvider", "CPUExecutionProvider"]
OPENVINO = ["OpenVINOExecutionProvider", "CPUExecutionProvider"]


def test_devices_of_what_is_installed() -> None:
    assert providers.devices_of(CPU_ALONE) == ["cpu"]
    assert providers.devices_of(["DmlExecutionProvider", *OPENVINO]) == [
        "cpu",
        "openvino",
        "directml",
    ]
    assert "cpu" in providers.devices_of(providers.available())


@pytest.mark.parametrize("device", providers.PROVIDERS)
def test_a_missing_provider_is_one_sentence(device: str) -> None:
    sentence = providers.why_not(device, CPU_ALONE)
    assert sentence is not None
    assert providers.PROVIDERS[device] in sentence
    assert "so the CPU is used" in sentence
    assert providers.why_not(device, [providers.PROVIDERS[device]]) is None
    assert providers.why_not("cpu", CPU_ALONE) is None


def test_without_the_provider_the_cpu_answers(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: CPU_ALONE)
    told: list[str] = []
    runtime = OnnxRuntime(tiny_model, 1, device="openvino", tell=told.append)
    assert len(told) == 1
    assert "no OpenVINOExecutionProvider here" in told[0]
    assert runtime.run("step", *_first_step(runtime))[0].shape[1] == len(runtime.words)


def _first_step(runtime: OnnxRuntime) -> list[Any]:
    inputs = runtime.open("step").get_inputs()
    return [
        np.zeros([1, *port.shape[1:]], np.int64 if "int64" in port.type else np.float32)
        for port in inputs
    ]


def test_a_graph_that_the_provider_refuses_runs_on_the_cpu(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_session, asked = onnxruntime.InferenceSession, []

    def session(graph: bytes, options: Any, providers: list[str]) -> Any:
        asked.append(providers)
        if len(providers) > 1 and len(asked) == 2:  # the second graph
            raise RuntimeError("EP exception: " + "x" * 1000)
        return open_session(graph, options, providers=["CPUExecutionProvider"])

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: OPENVINO)
    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    told: list[str] = []
    OnnxRuntime(tiny_model, 1, device="openvino", tell=told.append)
    cpu = ["CPUExecutionProvider"]
    assert asked == [OPENVINO, OPENVINO, cpu, OPENVINO, cpu]  # the last to compare answers
    (sentence,) = told
    assert "cannot run the graph 'recognize', so the CPU does (EP exception" in sentence
    assert len(sentence) < 250


def test_a_provider_that_answers_nonsense_is_not_used(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime's OpenVINO provider 1.24 gave no boxes at all."""
    open_session = onnxruntime.InferenceSession

    class Empty:
        def __init__(self, session: Any) -> None:
            self._session = session

        def __getattr__(self, name: str) -> Any:
            return getattr(self._session, name)

        def run(self, *arguments: Any) -> list[Any]:
            return [part[:0] for part in self._session.run(*arguments)]

    def session(graph: bytes, options: Any, providers: list[str]) -> Any:
        opened = open_session(graph, options, providers=["CPUExecutionProvider"])
        return Empty(opened) if len(providers) > 1 else opened

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: OPENVINO)
    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    told: list[str] = []
    runtime = OnnxRuntime(tiny_model, 1, device="openvino", tell=told.append)
    assert len(told) == 1
    assert "cannot run the graph 'propose', so the CPU does" in told[0]
    image = np.zeros((1, 3, 64, 64), np.float32)
    assert len(runtime.propose(image, (64, 64)).logits)


def test_a_device_that_nobody_knows() -> None:
    with pytest.raises(UsageError, match="no device 'tpu'"):
        regiontalk.load(device="tpu")
