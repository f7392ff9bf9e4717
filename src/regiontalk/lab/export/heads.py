"""Heads of a model folder, from checkpoints of the nets that read region codes: the graphs that
`models.folder.HEADS` names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import onnx
import torch
from torch import nn

from regiontalk.boxes import PLACE_NUMBERS
from regiontalk.lab.export.graphs import serialize, to_onnx
from regiontalk.lab.nets.multimodal_rnn import NESTED_VIEWS
from regiontalk.lab.nets.sentence_encoders import WINDOW_WORDS
from regiontalk.models.folder import GRAPHS, Head
from regiontalk.models.torch_loading import open_heads
from regiontalk.models.torch_runtime import SentenceBegin, SentenceStep, Vectors, Words

EXAMPLE_ROWS = 3  # that graphs are traced with; any other number works as well
EXAMPLE_REGIONS = 4
DYNAMIC = torch.export.Dim.DYNAMIC


def load_heads(
    checkpoints: Iterable[Path], precision: str, beta: float | None = None
) -> dict[str, Head]:
    """Name -> head of each checkpoint (or run's folder), with weights stored in `precision`; `beta`
    is eq. 12's.

    Heads are not multiplied in integers: the loss of accuracy was measured for the detector only.
    """
    precision = "int8-stored" if precision == "int8" else precision
    return {
        name: replace(
            opened.head, graphs=serialize(TRACERS[name](opened.net, opened.code), precision)
        )
        for name, opened in open_heads(checkpoints, beta).items()
    }


def trace_alignment_net(net: nn.Module, code: int) -> dict[str, onnx.ModelProto]:
    """The graphs with float32 weights, for any number of regions and sentences of `WINDOW_WORDS`
    words."""
    sentence = (torch.ones(1, WINDOW_WORDS, dtype=torch.long), torch.ones(1, WINDOW_WORDS))
    return {
        "vectors": to_onnx(
            GRAPHS["vectors"],
            Vectors(net).eval(),
            (torch.zeros(EXAMPLE_ROWS, code),),
            ({0: DYNAMIC},),
        ),
        "words": to_onnx(GRAPHS["words"], Words(net).eval(), sentence, ({}, {})),
    }


def trace_sentence_net(net: nn.Module, code: int) -> dict[str, onnx.ModelProto]:
    """The graphs with float32 weights, for any number of rows and of regions."""
    begin = SentenceBegin(net).eval()
    step = SentenceStep(net).eval()
    scene = (
        torch.rand(EXAMPLE_ROWS, NESTED_VIEWS, code),
        torch.rand(EXAMPLE_ROWS, EXAMPLE_REGIONS, code),
        torch.rand(EXAMPLE_ROWS, EXAMPLE_REGIONS, PLACE_NUMBERS),
    )
    with torch.inference_mode():
        state = begin(*scene)
    rows = {0: DYNAMIC}
    rows_and_regions = {0: DYNAMIC, 1: DYNAMIC}
    of_state = (rows, rows, rows, rows_and_regions, rows_and_regions)
    return {
        "sentence_begin": to_onnx(
            GRAPHS["sentence_begin"], begin, scene, (rows, *[rows_and_regions] * 2)
        ),
        "sentence_step": to_onnx(
            GRAPHS["sentence_step"], step, (torch.arange(EXAMPLE_ROWS), *state), (rows, *of_state)
        ),
    }


TRACERS = {"words": trace_alignment_net, "sentence": trace_sentence_net}
