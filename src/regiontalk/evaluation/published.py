"""Results that others printed, in the words of our own metrics.json, to stand beside our runs.

`source` says how sure the figure is: "paper" was read there, "page" on a public page of the authors or of
later work, "unconfirmed" is repeated from memory and may be off.
"""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


def _dense(name: str, source: str, own: float, true_boxes: float | None = None) -> Row:
    """A row on Visual Genome: mAP in percent on the model's own boxes and on true ones."""
    row: Row = {"kind": "dense", "name": name, "source": source, "data": "Visual Genome"}
    row["dense"] = {"map": own / 100}
    if true_boxes is not None:
        row["ground_truth_boxes"] = {"map": true_boxes / 100}
    return row


def _densecap_table_1(name: str, own: float, meteor: float, true_boxes: float, true_meteor: float) -> Row:
    row = _dense(f"{name}, RPN boxes (DenseCap table 1)", "paper", own, true_boxes)
    row["dense"]["meteor"] = meteor
    row["ground_truth_boxes"]["meteor"] = true_meteor
    return row


def _ranking(name: str, source: str, data: str, to_text: list[float], to_image: list[float]) -> Row:
    keys = ("r1", "r5", "r10", "median_rank")
    return {
        "kind": "ranking",
        "name": name,
        "source": source,
        "data": data,
        "image_to_text": dict(zip(keys, to_text, strict=False)),
        "text_to_image": dict(zip(keys, to_image, strict=False)),
    }


def _sentences(kind: str, name: str, data: str, bleu: list[float], **more: float) -> Row:
    figures = {f"bleu{n}": value / 100 for n, value in enumerate(bleu, start=1)}
    figures |= {key: value / 100 for key, value in more.items()}
    source = "BLEU unconfirmed, the rest paper" if more else "unconfirmed"
    return {"kind": kind, "name": name, "source": source, "data": data} | figures


def _retrieval(name: str, recall: list[float], median: float, iou: list[float] | None = None) -> Row:
    row: Row = {"kind": "retrieval", "name": name, "source": "paper", "data": "Visual Genome"}
    row |= {f"r{cut}": 100 * value for cut, value in zip((1, 5, 10), recall, strict=True)}
    row["median_rank"] = median
    if iou:
        row |= {f"iou@{cut}": 100 * value for cut, value in zip((0.1, 0.3, 0.5), iou, strict=False)}
        row["median_iou"] = iou[3]
    return row


def _speed(name: str, milliseconds: float) -> Row:
    row: Row = {"kind": "speed", "name": name, "source": "paper", "device": "Titan X"}
    return row | {"milliseconds": milliseconds}


PUBLISHED: list[Row] = [
    _densecap_table_1("Full-image RNN", 4.27, 0.197, 14.11, 0.209),
    _densecap_table_1("Region RNN", 4.26, 0.244, 21.90, 0.272),
    _densecap_table_1("FCLN on EdgeBoxes", 3.21, 0.296, 26.84, 0.293),
    _densecap_table_1("FCLN", 5.39, 0.273, 27.03, 0.305),
    _dense("FCLN, released model, 1000 proposals", "page", 5.70),
    _dense("Joint inference and context", "unconfirmed", 9.31),
    _dense("CAG-Net", "unconfirmed", 10.51),
    _dense("GRiT", "page", 15.5, 40.0),
    _dense("FlexCap", "page", 16.2),
    _dense("ControlCap", "page", 18.2, 44.7),
    _dense("DynRefer", "own boxes unconfirmed, true boxes page", 19.1, 47.6),
    _ranking("DeFrag", "unconfirmed", "Flickr8k", [12.6, 32.9, 44.0, 14], [9.7, 29.6, 42.5, 15]),
    _ranking("DeFrag, K&FF's own", "unconfirmed", "Flickr8k", [13.8, 35.8, 48.2, 10.4], [9.5, 28.2, 40.3, 15.6]),
    _ranking("DepTree edges", "unconfirmed", "Flickr8k", [14.8, 37.9, 50.0, 9.4], [11.6, 31.4, 43.8, 13.2]),
    _ranking("BRNN (K&FF)", "unconfirmed", "Flickr8k", [16.5, 40.6, 54.2, 7.6], [11.8, 32.1, 44.7, 12.4]),
    _ranking("BRNN (K&FF)", "unconfirmed", "Flickr30k", [22.2, 48.2, 61.4, 4.8], [15.2, 37.7, 50.5, 9.2]),
    _ranking("VSE++", "unconfirmed", "Flickr30k", [52.9], [39.6]),
    _ranking("SCAN", "unconfirmed", "Flickr30k", [67.4, 90.3, 95.8], [48.6, 77.7, 85.2]),
    _sentences("captions", "K&FF", "Flickr8k", [57.9, 38.3, 24.5, 16.0], meteor=16.7, cider=31.8),
    _sentences("captions", "nearest neighbour (K&FF)", "COCO, Karpathy split", [48.0, 28.1, 16.6, 10.0]),
    _sentences("regions", "human (K&FF)", "COCO regions of K&FF", [61.5, 45.2, 30.1, 22.0]),
    _sentences("regions", "ranking baseline (K&FF)", "COCO regions of K&FF", [22.9, 10.5, 0, 0]),
    _sentences(
        "regions",
        "full-frame RNN (K&FF)",
        "COCO regions of K&FF",
        [14.2, 6.0, 2.2, 0],
        meteor=13.3,
        cider=20.3,
        rouge_l=21.0,
    ),
    _sentences(
        "regions",
        "region RNN (K&FF)",
        "COCO regions of K&FF",
        [35.2, 23.0, 16.1, 14.8],
        meteor=15.8,
        cider=61.6,
        rouge_l=35.1,
    ),
    _retrieval("Full-image RNN", [0.10, 0.30, 0.43], 13),
    _retrieval("EdgeBoxes + full-image RNN", [0.11, 0.40, 0.55], 9, [0.348, 0.156, 0.053, 0.020]),
    _retrieval("Region RNN", [0.18, 0.43, 0.59], 7, [0.460, 0.273, 0.108, 0.077]),
    _retrieval("FCLN", [0.27, 0.53, 0.67], 5, [0.560, 0.345, 0.153, 0.137]),
    _speed("FCLN, 300 proposals, 720×600", 240.0),
    _speed("FCLN, 100 proposals, 720×600", 166.0),
]
