"""A checkpoint exported in every precision, side by side: size, time of a photo, and dense mAP on
dev photos.

The peer is float32. Times are medians of turns on one photo of 640×480 pixels with 100 proposals;
mAP is that of `regiontalk evaluate dense` for what `regiontalk caption` says, with the recipe's
prediction settings. Needs `regiontalk[train,evaluate]`.

python benchmarks/precisions.py CHECKPOINT DATA --photos 300 --json
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from caption import take_turns
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset, evenly_spaced
from regiontalk.lab.evaluation.dense_ap import evaluate_dense
from regiontalk.lab.evaluation.scoring_pool import open_meteor
from regiontalk.lab.export.detector import export_model
from regiontalk.lab.training.checkpoints import find_checkpoint
from regiontalk.model import Model
from regiontalk.models.folder import PRECISIONS
from regiontalk.models.onnx_runtime import OnnxRuntime
from report import options_of
from turns import photo_bytes


def measure(
    checkpoint: Path, data: Path, options: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    models = {}
    sizes = {}
    for precision in PRECISIONS:
        export_model(checkpoint, folder / precision, precision, precision)
        models[precision] = Model(OnnxRuntime(folder / precision, options.threads))
        sizes[precision] = sum(file.stat().st_size for file in (folder / precision).iterdir()) / 1e6
    times = take_turns(models, photo_bytes(), options.repeats)
    dataset = Dataset(data, "dev")
    numbers = evenly_spaced(len(dataset), options.photos)
    truth = [dataset[number] for number in numbers]
    rows = {}
    with open_meteor(workers=os.cpu_count() or 1) as scorer:
        for precision, model in models.items():
            asked = DatasetModel(model, dataset)
            result = evaluate_dense(truth, asked.each(asked.regions, numbers), scorer)
            rows[precision] = {
                "megabytes": sizes[precision],
                "ms_per_photo": times[precision]["photo"],
                "ms_propose": times[precision]["propose"],
                "ms_recognize": times[precision]["recognize"],
                "speedup_over_float32": times["float32"]["photo"] / times[precision]["photo"],
                "dense_map": result.map,
                "dense_map_strict": result.map_strict,
                "detection_map": result.detection_map,
            }
    return {"photos": len(numbers), "threads": options.threads, "precisions": rows}


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--photos", type=int, default=200, help="dev photos for mAP, evenly spaced")
    parser.add_argument("--repeats", type=int, default=9, help="timed turns")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(find_checkpoint(options.checkpoint), options.data, options, Path(folder))
    if not options.json:
        for precision, row in result["precisions"].items():
            print(
                f"{precision:12} {row['megabytes']:6.1f} MB {row['ms_per_photo']:7.1f} ms mAP "
                f"{100 * row['dense_map']:.2f} ≥.1 {100 * row['dense_map_strict']:.2f} "
                f"boxes {100 * row['detection_map']:.2f}"
            )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
