"""What makes a net fast in use on a GPU: bfloat16, fewer kernels, recorded stages, fewer waits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regiontalk.nets.backbones import VGG16
from regiontalk.nets.fcln import FCLN
from regiontalk.nets.localization import Stage


def prepare(net: FCLN) -> None:
    """Makes a net on a GPU ready for use, in place; it can be neither trained nor saved after this."""
    to_bfloat16(net)
    if isinstance(net.backbone, VGG16):
        join_relus(net.backbone.layers)


def to_bfloat16(net: FCLN) -> None:
    """Weights of the large layers to bfloat16, channels last; anchors and normalisation stay as they are."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear | nn.LSTM | nn.Embedding):
            module.to(torch.bfloat16)
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def join_relus(layers: nn.Sequential) -> None:
    """Each convolution and the ReLU behind it become one layer; the places of the others do not move."""
    for number, (layer, following) in enumerate(itertools.pairwise(list(layers))):
        if isinstance(layer, nn.Conv2d) and isinstance(following, nn.ReLU):
            layers[number], layers[number + 1] = ConvReLU(layer), nn.Identity()


class ConvReLU(nn.Module):
    """A convolution, its bias and a ReLU in one kernel of cuDNN's, which has no gradient."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor) -> Tensor:
        conv = self.conv
        x = x.to(conv.weight.dtype)  # autocast does not know the operation
        try:
            return torch.cudnn_convolution_relu(
                x,
                conv.weight,
                conv.bias,
                conv.stride,
                conv.padding,  # type: ignore[arg-type]  # numbers, in every backbone
                conv.dilation,
                conv.groups,
            )
        except RuntimeError:  # no such kernel here, as on every CPU
            return F.relu_(conv(x))


def to_cpu(*tensors: Tensor) -> list[Tensor]:
    """All of them on the CPU, with one wait for the GPU."""
    copies = [tensor.to("cpu", non_blocking=True) for tensor in tensors]
    if tensors[0].is_cuda:
        torch.cuda.current_stream(tensors[0].device).synchronize()
    return copies


@contextmanager
def fastest_convolutions() -> Iterator[None]:
    """cuDNN tries its algorithms out on each new shape: worth it where the shape comes again."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


Recorded = tuple[torch.cuda.CUDAGraph, list[Tensor], tuple[Tensor, ...]]


class Graphed:
    """A function of tensors, recorded as a CUDA graph and replayed; each replay overwrites the outputs of the last.

    An input that is itself an output of a graph is read where it lies, and recorded for it alone. Any other is
    copied to a place of the graph's own, once per shape.
    """

    WARM_UPS = 3
    _outputs: ClassVar[WeakValueDictionary[int, Tensor]] = WeakValueDictionary()  # of all graphs, by id

    def __init__(self, function: Stage) -> None:
        self.function = function
        self._recorded: dict[tuple[int | torch.Size, ...], Recorded] = {}

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        key = tuple(id(tensor) if self._stays(tensor) else tensor.shape for tensor in inputs)
        if key not in self._recorded:
            self._recorded[key] = self._record(inputs)
        graph, places, outputs = self._recorded[key]
        for place, tensor in zip(places, inputs, strict=True):
            if place is not tensor:
                place.copy_(tensor)
        graph.replay()
        return outputs

    def _stays(self, tensor: Tensor) -> bool:
        return self._outputs.get(id(tensor)) is tensor

    def _record(self, inputs: tuple[Tensor, ...]) -> Recorded:
        places = [tensor if self._stays(tensor) else tensor.clone() for tensor in inputs]
        graph, outputs = self._capture(places)
        self._outputs.update((id(output), output) for output in outputs)
        return graph, places, outputs

    def _capture(self, places: list[Tensor]) -> tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...]]:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with fastest_convolutions():
            with torch.cuda.stream(stream):
                for _ in range(self.WARM_UPS):
                    self.function(*places)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                outputs = self.function(*places)
        return graph, outputs
