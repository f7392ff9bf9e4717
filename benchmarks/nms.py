"""Suppression of DenseCap's proposals (17,820 boxes of a 720×540 photo, down to 300) by
`boxes.nms`.

The peer is ONNX Runtime's NonMaxSuppression, a graph of that one node, on the same boxes in the
same run and on one thread, as numpy uses. Needs `regiontalk[train]` for the package onnx.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper

from regiontalk import boxes
from report import options_of

WIDTH, HEIGHT, STRIDE = 720, 540, 16
# DenseCap's anchors, width × height
ANCHORS = [
    *((45, 90), (90, 45), (64, 64)),
    *((90, 180), (180, 90), (128, 128)),
    *((181, 362), (362, 181), (256, 256)),
    *((362, 724), (724, 362), (512, 512)),
]
OBJECTS = 20
LIMIT = 300
Floats = NDArray[np.float32]


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--threshold", type=float, default=0.7, help="IoU above which a box goes")
    parser.add_argument("--repeats", type=int, default=30, help="timed calls of each")
    options = parser.parse_args()
    result = compare(options.threshold, options.repeats)
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:>24}  {value}")


def compare(threshold: float, repeats: int) -> dict[str, object]:
    boxes_xyxy, scores = proposals()
    peer = onnxruntime_nms(boxes_xyxy, scores, threshold)
    ours = boxes.nms(boxes_xyxy, scores, threshold, LIMIT)
    ours_ms, peer_ms = median_ms(
        [lambda: boxes.nms(boxes_xyxy, scores, threshold, LIMIT), peer], repeats
    )
    return {
        "boxes": len(boxes_xyxy),
        "kept": len(ours),
        "threshold": threshold,
        "numpy_ms": round(ours_ms, 3),
        "onnxruntime_ms": round(peer_ms, 3),
        "ratio_to_onnxruntime": round(ours_ms / peer_ms, 3),
        "same_boxes": ours.tolist() == peer().tolist(),
    }


def proposals() -> tuple[Floats, Floats]:
    """Anchors moved a little, as a trained network moves them, scored by their overlap with some
    objects."""
    dice = np.random.default_rng(0)
    x, y = np.meshgrid(np.arange(WIDTH // STRIDE) + 0.5, np.arange(HEIGHT // STRIDE) + 0.5)
    centres = np.stack([x.ravel(), y.ravel()], axis=1) * STRIDE
    sizes = np.tile(np.array(ANCHORS, dtype=float), (len(centres), 1))
    moved = np.repeat(centres, len(ANCHORS), axis=0) + dice.normal(0, 0.1, sizes.shape) * sizes
    stretched = sizes * np.exp(dice.normal(0, 0.2, sizes.shape))
    found = boxes.clip(
        boxes.cxcywh_to_xyxy(np.concatenate([moved, stretched], axis=1)), WIDTH, HEIGHT
    )
    places = dice.random((OBJECTS, 2)) * (WIDTH, HEIGHT)
    objects = np.concatenate([places, dice.uniform(60, 360, (OBJECTS, 2))], axis=1)
    truth = boxes.clip(boxes.cxcywh_to_xyxy(objects), WIDTH, HEIGHT)
    scores = boxes.iou(found, truth).max(axis=1) + 0.05 * dice.random(len(found))
    return found.astype(np.float32), scores.astype(np.float32)


def onnxruntime_nms(
    boxes_xyxy: Floats, scores: Floats, threshold: float
) -> Callable[[], NDArray[np.int64]]:
    """A call of the one-node graph that returns the kept indices."""
    inputs = [
        helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [1, None, 4]),
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 1, None]),
    ]
    outputs = [helper.make_tensor_value_info("kept", TensorProto.INT64, [None, 3])]
    constants = [
        helper.make_tensor("limit", TensorProto.INT64, [1], [LIMIT]),
        helper.make_tensor("threshold", TensorProto.FLOAT, [1], [threshold]),
    ]
    node = helper.make_node(
        "NonMaxSuppression", ["boxes", "scores", "limit", "threshold"], ["kept"]
    )
    graph = helper.make_graph([node], "nms", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
    )
    feeds = {"boxes": boxes_xyxy[None], "scores": scores[None, None]}
    return lambda: session.run(None, feeds)[0][:, 2]


def median_ms(calls: list[Callable[[], object]], repeats: int) -> list[float]:
    """Of each call, taken in turn, so that a busy machine slows both alike."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, mine in zip(calls, times, strict=True):
            started = time.perf_counter()
            call()
            mine.append(1000 * (time.perf_counter() - started))
    return [statistics.median(mine) for mine in times]


if __name__ == "__main__":
    main()
