"""Pretrained nets to fine-tune: the package's own, a model folder's, or that of another run.

A model folder has what is needed to run it, not to train it, so two things differ from its
checkpoint:

- Weights are rounded as they are stored (see `graphs`).
- Batch normalisation is folded into the convolutions before it. Here the convolutions get the
  folded weights, and the normalisation the folded bias and the statistics (0, 1) with which it
  changes nothing else. Statistics of a batch would then be wrong, so they stay frozen:
  `schedule.freeze_batchnorm` is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor, nn

from regiontalk.errors import ModelError, UsageError
from regiontalk.lab.export.graphs import LINEAR
from regiontalk.lab.nets.fcln import FCLN, FCLNConfig
from regiontalk.lab.nets.language import LanguageModel
from regiontalk.lab.training.checkpoints import fill_net, find_checkpoint, load_fcln
from regiontalk.lab.training.recipe import from_stored
from regiontalk.lab.training.recipe.detector import FCLNRecipe
from regiontalk.language.vocabulary import SPECIAL, Vocabulary
from regiontalk.models import packaged
from regiontalk.models.folder import INFO, ModelFolder, read_model_folder

PREFIX = "net."  # of the net's weights in the graphs


@dataclass(frozen=True)
class Pretrained:
    """A net with its vocabulary."""

    net: FCLN
    words: Vocabulary
    folded: bool
    """Whether batch normalisation is folded into convolutions."""

    def adapt(self, recipe: FCLNRecipe) -> FCLNRecipe:
        """The recipe with this net instead of its own, except `net.skip`, which only training
        uses, and a localization layer where this net has none."""
        frozen = self.folded or recipe.schedule.freeze_batchnorm
        schedule = replace(recipe.schedule, freeze_batchnorm=frozen)
        net = replace(self.net.config, skip=recipe.net.skip)
        if not net.localize:
            net = replace(net, localize=True, localization=recipe.net.localization)
        return replace(recipe, net=net, backbone_weights=None, schedule=schedule)

    def extend(self, words: Vocabulary) -> Vocabulary:
        """All words that the net knows, with their ids, followed by the new ones."""
        known = set(self.words.words)
        new = tuple(word for word in words.words if word not in known)
        return replace(words, words=self.words.words + new)

    def fill(self, net: FCLN, words: Vocabulary) -> None:
        """Copies the weights to a net that `adapt` configured; a new localization layer keeps its
        own. A new word starts as `<UNK>`, a new START token as that of the first style."""
        weights = net.state_dict() | self.net.state_dict()
        tokens = [*range(len(SPECIAL)), *self.words.encode(words.words)]
        starts = [
            self.words.start(style if style in self.words.styles else None)
            for style in words.styles
        ]
        for length in range(1, words.lengths + 1):
            starts.append(
                self.words.start_of_length(length) if self.words.lengths else self.words.start()
            )
        weights["language.embedding.weight"] = weights["language.embedding.weight"][tokens + starts]
        for name in ("language.output.weight", "language.output.bias"):
            weights[name] = weights[name][tokens]
        net.load_state_dict(weights)

    def language(self, words: Vocabulary) -> LanguageModel:
        """The language model alone, with more words."""
        net = FCLN(self.net.config, len(words), words.starts)
        self.fill(net, words)
        return net.language.eval()


def load_pretrained(place: str | Path) -> Pretrained:
    """`embedded` or `fast`, a model folder, or a run's folder or checkpoint."""
    path = packaged.place_of(place)
    if place in packaged.own_models() or (path / INFO).exists():
        return _from_model_folder(read_model_folder(path))
    if not path.is_dir():
        raise ModelError(
            f"{path}: no such model folder or run", hint="'embedded' is the package's own model"
        )
    trained = load_fcln(find_checkpoint(path))
    return Pretrained(trained.net, trained.words, folded=False)


def _from_model_folder(folder: ModelFolder) -> Pretrained:
    try:
        config = from_stored(FCLNConfig, folder.info.net, f"{folder.path / INFO}: net")
    except UsageError as error:
        raise ModelError(error.message) from error
    net = FCLN(config, len(folder.words), folder.words.starts)
    weights = {
        name: torch.from_numpy(value) for name, value in stored_weights(folder.graphs).items()
    }
    names = net.state_dict().keys()
    used = {name: value for name, value in _unfolded(net, weights).items() if name in names}
    fill_net(net, used, folder.path)
    return Pretrained(net.eval(), folder.words, folded=True)


def stored_weights(graphs: Mapping[str, bytes]) -> dict[str, NDArray[np.float32]]:
    """Every weight in the graphs by its name in the net, converted to float32; see
    `graphs.shrink`."""
    weights: dict[str, NDArray[np.float32]] = {}
    for data in graphs.values():
        graph = onnx.load_from_string(data).graph
        weights |= _named_weights(graph)
        for name, bias in _biases(graph, weights).items():
            weights.setdefault(name, bias)
    return weights


def _named_weights(graph: onnx.GraphProto) -> dict[str, NDArray[np.float32]]:
    tensors = {
        tensor.name.removeprefix(PREFIX): numpy_helper.to_array(tensor)
        for tensor in graph.initializer
        if tensor.name.startswith(PREFIX)
    }
    weights = {}
    for name, values in tensors.items():
        if name.endswith(".stored"):
            plain_name = name.removesuffix(".stored")
            weights[plain_name] = values.astype(np.float32) * tensors.get(
                f"{plain_name}.scale", np.float32(1)
            )
        elif not name.endswith(".scale"):
            weights[name] = np.array(
                values, dtype=np.float32
            )  # a copy, because onnx's arrays are read-only
    return weights


def _biases(
    graph: onnx.GraphProto, weights: Mapping[str, NDArray[np.float32]]
) -> dict[str, NDArray[np.float32]]:
    """The bias of each weight: the exporter leaves out zeros, writes equal ones once, and names
    those of folded normalisations after the weight."""
    biases = {}
    for node in graph.node:
        if node.op_type not in ("Conv", "Gemm", LINEAR):
            continue
        if (weight := node.input[1].removeprefix(PREFIX).removesuffix(".stored")) in weights:
            zeros = np.zeros(len(weights[weight]), dtype=np.float32)
            given = node.input[2].removeprefix(PREFIX) if len(node.input) > 2 else ""
            biases["bias".join(weight.rsplit("weight", 1))] = weights.get(given, zeros)
    return biases


def _unfolded(net: FCLN, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights with a batch normalisation after each convolution that had one, which adds the folded
    bias."""
    unfolded = dict(weights)
    for name, module in net.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            bias = unfolded.get(f"{name.removesuffix('norm')}conv.bias")
            if bias is None:
                continue  # `fill_net` will say what is missing
            ones = torch.ones_like(bias)
            unfolded[f"{name}.weight"] = ones * (1 + module.eps) ** 0.5
            unfolded[f"{name}.bias"] = bias
            unfolded[f"{name}.running_mean"] = torch.zeros_like(bias)
            unfolded[f"{name}.running_var"] = ones
            unfolded[f"{name}.num_batches_tracked"] = torch.tensor(0)
    return unfolded
