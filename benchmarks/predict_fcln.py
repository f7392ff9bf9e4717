"""Speed of a recipe's network in use, captions included, stage by stage; the peer is its bare backbone.

python benchmarks/predict_fcln.py recipes/fcln-paper.toml --size 720 600 --batch 1 8 --json
"""

from __future__ import annotations

import argparse
import copy
import json
from dataclasses import replace
from pathlib import Path

import torch
from regiontalk.nets.prediction import Predictor
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

from regiontalk.model_folder import PredictionConfig
from regiontalk.nets.fcln import FCLN
from regiontalk.training.engine import pick_device
from regiontalk.training.recipe import load_recipe
from train_fcln import WORDS, seconds_per_call


def fused_flops(x_shape: list[int], weight_shape: list[int], *_: object, out_shape: list[int]) -> int:
    return conv_flop_count(x_shape, weight_shape, out_shape)


FUSED = {torch.ops.aten.cudnn_convolution_relu: fused_flops}  # which torch's counter does not know


def measure(
    net: FCLN, config: PredictionConfig, images: Tensor, device: torch.device, repeats: int
) -> dict[str, float]:
    count, _, height, width = images.shape
    sizes = torch.tensor([[float(width), float(height)]] * count, device=device)
    predictor = Predictor(net, WORDS, config, graphed=device.type == "cuda")
    eager = Predictor(net, WORDS, config)
    whole = seconds_per_call(lambda: predictor(images, sizes), device, repeats)
    with torch.inference_mode():
        features, boxes, _ = (tensor.clone() for tensor in predictor.find(images, sizes))
        described = predictor.describe(images, sizes)
        chosen = predictor.proposals(images, sizes)[0].clone()
        result = {
            "ms_per_photo": whole,
            "ms_find": seconds_per_call(lambda: predictor.find(images, sizes), device, repeats),
            "ms_choose": seconds_per_call(lambda: predictor.choose(boxes), device, repeats),
            "ms_read": seconds_per_call(lambda: predictor.read(features, sizes, chosen), device, repeats),
            "ms_rank": seconds_per_call(lambda: predictor.rank(described), device, repeats),
            "ms_without_graphs": seconds_per_call(lambda: eager(images, sizes), device, max(1, repeats // 2)),
            "ms_bare_backbone": seconds_per_call(lambda: backbone_alone(net, images), device, repeats),
        }
        with FlopCounterMode(display=False, custom_mapping=FUSED) as counter:
            eager(images, sizes)
    milliseconds = {key: 1e3 * value / count for key, value in result.items()}
    flops = counter.get_total_flops() / count
    return milliseconds | {
        "time_over_bare_backbone": result["ms_per_photo"] / result["ms_bare_backbone"],
        "tflop_per_photo": flops / 1e12,
        "tflops": flops * count / whole / 1e12,
    }


def backbone_alone(net: FCLN, images: Tensor) -> Tensor:
    with torch.autocast(images.device.type, torch.bfloat16, enabled=images.device.type == "cuda"):
        return net.backbone(images)


def peak_tflops(device: torch.device) -> float:
    """What a large matrix product reaches in the same run: the arithmetic ceiling."""
    side, dtype = (8192, torch.bfloat16) if device.type == "cuda" else (1024, torch.float32)
    a = torch.randn(side, side, device=device, dtype=dtype)
    return 2 * side**3 / seconds_per_call(lambda: a @ a, device, 10) / 1e12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--size", type=int, nargs=2, default=(720, 600), metavar=("WIDTH", "HEIGHT"))
    parser.add_argument("--batch", type=int, nargs="+", default=[1])
    parser.add_argument("--proposals", type=int)
    parser.add_argument("--candidates", type=int, default=2000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    device = pick_device(options.device)
    recipe = load_recipe(options.recipe)
    config = replace(
        recipe.prediction,
        candidates=options.candidates,
        proposals=options.proposals or recipe.prediction.proposals,
    )
    torch.manual_seed(0)
    net = FCLN(recipe.net, WORDS, 1).to(device).eval()
    width, height = options.size
    result: dict[str, object] = {
        "recipe": options.recipe.name,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "size": [width, height],
        "proposals": config.proposals,
        "peak_tflops": peak_tflops(device),
    }
    for count in options.batch:
        images = torch.randint(0, 255, (count, 3, height, width), device=device).float()
        images = images.contiguous(memory_format=torch.channels_last)
        result[f"batch_{count}"] = measure(copy.deepcopy(net), config, images, device, options.repeats)
    if not options.json:
        for key, value in result.items():
            print(f"{key}: {value}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
