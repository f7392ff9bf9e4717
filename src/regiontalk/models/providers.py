"""ONNX Runtime's providers by the name of the device: what runs a model folder's graphs."""

from __future__ import annotations

from collections.abc import Sequence

CPU = "cpu"
CPU_PROVIDER = "CPUExecutionProvider"
PROVIDERS = {
    "cuda": "CUDAExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "directml": "DmlExecutionProvider",
}
PACKAGES = {
    "cuda": "onnxruntime-gpu",
    "openvino": "onnxruntime-openvino",
    "coreml": "onnxruntime, on a Mac",
    "directml": "onnxruntime-directml, on Windows",
}
"""The distribution of ONNX Runtime that has each; it takes the place of `onnxruntime`."""


def available() -> list[str]:
    """The providers of the ONNX Runtime that is installed."""
    import onnxruntime

    return list(onnxruntime.get_available_providers())


def devices_of(providers: Sequence[str]) -> list[str]:
    """The names of the devices that these providers are for."""
    return [CPU, *(device for device, provider in PROVIDERS.items() if provider in providers)]


def why_not(device: str, providers: Sequence[str]) -> str | None:
    """One sentence if none of these providers is for the device; None if one is."""
    if device == CPU or PROVIDERS[device] in providers:
        return None
    return (
        f"ONNX Runtime has no {PROVIDERS[device]} here, so the CPU is used "
        f"(it is part of {PACKAGES[device]})"
    )


def why_not_graph(device: str, graph: str, reason: str) -> str:
    """One sentence for a graph that a provider refuses."""
    return f"{PROVIDERS[device]} cannot run the graph {graph!r}, so the CPU does ({reason})"
