"""`regiontalk tune`: which prediction settings suit a checkpoint, tried on dev photos."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regiontalk.cli import console
from regiontalk.cli.predict import NetOptions, net_options, open_predictor, open_split

if TYPE_CHECKING:
    from regiontalk.evaluation.dense_ap import DenseResult
    from regiontalk.model_folder import PredictionConfig

SHOWN = 10
TRIED = ("score", "final_nms", "proposals", "caption_weight")


@click.command()
@net_options
@click.option("--split", type=click.Choice(["dev", "train"]), default="dev", show_default=True)
@click.option("--photos", type=click.IntRange(min=1), help="Only so many, evenly spread over the split.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object with every setting.")
def command(
    *,
    checkpoint: Path,
    data: Path,
    split: str,
    photos: int | None,
    device: str,
    batch: int,
    workers: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Try prediction settings of CHECKPOINT on dev photos of DATA, best dense mAP first.

    The net runs once; score rule, suppression, number of proposals and caption weight are then tried in every
    combination. The metric is that of `regiontalk evaluate dense`, with METEOR. Test photos cannot be asked
    for: settings chosen on them would flatter the figures.
    """
    console.need("train", "running a checkpoint", "torch", "safetensors")
    from regiontalk.data.records import evenly_spaced
    from regiontalk.evaluation.language import open_meteor
    from regiontalk.fitting.settings import PROPOSALS, settings, tune

    dataset = open_split(data, split)
    with open_meteor(workers=os.cpu_count() or 1, notify=partial(console.message, quiet=quiet)) as scorer:
        options = NetOptions(checkpoint, device, batch, workers)
        predictor, name = open_predictor(options, {"proposals": max(PROPOSALS)}, quiet)
        numbers = evenly_spaced(len(dataset), len(dataset) if photos is None else photos)
        found = predictor.described(dataset, numbers)
        described = list(console.track(found, f"Predicting {data}", len(numbers), quiet))
        configs = list(settings(predictor.config))
        tried = console.track(configs, "Comparing settings", len(configs), quiet)
        results = tune(described, predictor.words, tried, scorer)
    rows = [_row(config, result) for config, result in results]
    if as_json:
        console.print_json({"model": name, "split": split, "images": len(numbers), "settings": rows})
    else:
        _print_best(rows, f"{name}, {len(numbers)} {split} photos")


def _row(config: PredictionConfig, result: DenseResult) -> dict[str, Any]:
    settings = {name: getattr(config, name) for name in TRIED}
    return settings | {"map": result.map, "map_strict": result.map_strict, "detection_map": result.detection_map}


def _print_best(rows: list[dict[str, Any]], title: str) -> None:
    columns = ["score", "final NMS", "proposals", "caption weight", "mAP", "METEOR ≥ 0.1", "boxes alone"]
    cells = [
        [*(row[name] for name in TRIED), *(f"{100 * row[name]:.2f}" for name in ("map", "map_strict", "detection_map"))]
        for row in rows[:SHOWN]
    ]
    console.print_table(title, columns, cells)
    best = rows[0]
    click.echo("best: " + " ".join(f"--{name.replace('_', '-')} {best[name]}" for name in TRIED))
