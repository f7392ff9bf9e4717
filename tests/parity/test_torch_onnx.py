"""torch and ONNX Runtime agree on every graph, on shapes that are not those of the trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from regiontalk.lab.export.detector import EXAMPLE_CELLS, trace
from regiontalk.lab.nets.fcln import FCLN, FCLNConfig
from regiontalk.lab.nets.language import LanguageConfig
from regiontalk.lab.nets.localization import LocalizationConfig
from regiontalk.lab.nets.recognition import RecognitionConfig
from regiontalk.models.folder import GRAPHS
from regiontalk.models.torch_runtime import Appear, Propose, Recognize, Step

TOKENS, STYLES = 30, 2
SMALL = FCLNConfig(
    backbone="tiny",
    channels=24,
    input_size=128,
    initialization="he",
    localization=LocalizationConfig(anchors=((32, 32), (48, 24), (90, 90)), filters=16),
    recognition=RecognitionConfig(samples_per_cell=2, hidden=32, code=40),
    language=LanguageConfig(embedding=12, hidden=20, feed="always", surroundings=True),
)
PAPER_LIKE = replace(
    SMALL,
    localization=replace(SMALL.localization, score_ways=2),
    recognition=replace(SMALL.recognition, samples_per_cell=1),
    language=replace(SMALL.language, feed="once", surroundings=False),
)
AFFINE = replace(SMALL, recognition=replace(SMALL.recognition, affine=True))
EFFICIENT = replace(SMALL, backbone="efficientnet-lite0", channels=16)
TRANSFORMER = replace(SMALL, backbone="vit-s", channels=16)
SHAPES = ((64, 160, (160, 50)), (192, 96, (70, 192)), (32, 32, (16, 16)))


class Pair:
    """A network in both forms."""

    def __init__(self, config: FCLNConfig) -> None:
        torch.manual_seed(5)
        self.net = FCLN(config, TOKENS, STYLES).eval()
        with torch.no_grad():
            for name, weight in self.net.named_parameters():
                if (
                    "transform" in name
                    or "affine" in name
                    or name in ("backbone.positions", "backbone.class_token")
                ):
                    weight.normal_(std=0.05)
        self.graphs = trace(self.net)
        self.sessions = {
            name: onnxruntime.InferenceSession(
                graph.SerializeToString(), providers=["CPUExecutionProvider"]
            )
            for name, graph in self.graphs.items()
        }

    def check(self, stage: str, module: nn.Module, *inputs: Tensor) -> Sequence[Tensor]:
        """Runs both; the answer is torch's."""
        with torch.inference_mode():
            expected = module.eval()(*inputs)
        expected = (expected,) if isinstance(expected, Tensor) else expected
        given = {name: value.numpy() for name, value in zip(GRAPHS[stage][0], inputs, strict=True)}
        found = self.sessions[stage].run(None, given)
        for name, wanted, got in zip(GRAPHS[stage][1], expected, found, strict=True):
            np.testing.assert_allclose(
                got, wanted.numpy(), rtol=1e-4, atol=2e-4, err_msg=f"{stage}: {name}"
            )
        return tuple(value.clone() for value in expected)


@pytest.fixture(
    scope="module",
    params=[
        SMALL,
        PAPER_LIKE,
        AFFINE,
        *(pytest.param(net, marks=pytest.mark.slow) for net in (EFFICIENT, TRANSFORMER)),
    ],
    ids=["small", "paper-like", "affine", "efficientnet", "transformer"],
)
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(request.param)


@pytest.mark.parametrize(("height", "width", "size"), SHAPES)
def test_all_stages_agree(pair: Pair, height: int, width: int, size: tuple[int, int]) -> None:
    assert (height // 16, width // 16) != EXAMPLE_CELLS
    generator = torch.Generator().manual_seed(height)
    image = torch.rand((1, 3, height, width), generator=generator) * 255
    sizes = torch.tensor([size], dtype=torch.float32)
    features, deep, boxes, _ = pair.check("propose", Propose(pair.net), image, sizes)
    assert len(boxes) == height // 16 * (width // 16) * 3
    for count in (1, 300):
        given = boxes[torch.arange(count) % len(boxes)]
        *_, h, c, seen = pair.check("recognize", Recognize(pair.net), features, sizes, given)
        pair.check("appear", Appear(pair.net), deep, given)
        tokens = torch.randint(0, TOKENS + STYLES, (count,), generator=generator)
        _, h, c = pair.check("step", Step(pair.net), tokens, h, c, seen)
        pair.check("step", Step(pair.net), tokens.flip(0), h, c, seen)


def test_a_photo_alone_needs_no_mask(pair: Pair) -> None:
    kinds = {node.op_type for node in pair.graphs["propose"].graph.node}
    assert ("Softmax" in kinds) == (pair.net.config.backbone == "vit-s")
    assert kinds.isdisjoint({"And", "Less", "IsNaN"})


def test_several_points_a_cell_are_sampled_by_products_of_matrices(pair: Pair) -> None:
    kinds = {node.op_type for node in pair.graphs["recognize"].graph.node}
    config = pair.net.config.recognition
    assert ("GridSample" in kinds) == (config.samples_per_cell == 1 or config.affine)


def test_graphs_keep_the_networks_names_for_weights_and_none_of_this_machines_folders(
    pair: Pair,
) -> None:
    names = {weight.name for graph in pair.graphs.values() for weight in graph.graph.initializer}
    assert {"net.recognition.first.weight", "net.language.embedding.weight"} <= names
    for graph in pair.graphs.values():
        onnx.checker.check_model(graph, full_check=True)
        assert b".py" not in graph.SerializeToString()
        assert b"pkg.torch" not in graph.SerializeToString()
