"""Where regions come from: the model itself, the truth, EdgeBoxes, another model, or a file."""

from __future__ import annotations

from pathlib import Path

import click

from regiontalk.errors import UsageError, need
from regiontalk.images.photo import PhotoSource, open_photo
from regiontalk.lab.data.dataset_model import FindRegions
from regiontalk.lab.data.records import Dataset, Record
from regiontalk.lab.data.region_files import ScoredBoxes, read_region_file, scaled

EDGE_BOXES = "edgeboxes"
MOST_BOXES = 300  # of a photo, as in DenseCap's table 1

edge_model_option = click.option(
    "--edge-model",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="For edgeboxes: OpenCV's structured-edge model. Default: edges are gradients of the "
    "photo.",
)


def edge_boxes(edge_model: Path | None, count: int = MOST_BOXES) -> tuple[str, FindRegions]:
    """Their name for the record of a run, and what finds them in a record's photo, in the record's
    pixels."""
    need("edgeboxes", "EdgeBoxes", "cv2")
    from regiontalk.lab.data.edge_boxes import EdgeBoxes

    finder = EdgeBoxes(count, edge_model)

    def find(record: Record, source: PhotoSource) -> ScoredBoxes:
        photo = open_photo(source)
        return scaled(finder.find(photo), record.width / photo.width, record.height / photo.height)

    return finder.name, find


def region_source(
    regions: str, dataset: Dataset, edge_model: Path | None
) -> tuple[str, FindRegions]:
    """The name of a source of regions and what finds them, for `--regions edgeboxes` or `FILE`."""
    if regions == EDGE_BOXES:
        return edge_boxes(edge_model)
    if edge_model is not None:
        raise UsageError("--edge-model is for edgeboxes")
    file = Path(regions)
    if not file.is_file():
        raise UsageError(f"--regions {regions}: no such file", hint="--help lists the other values")
    boxes = read_region_file(file, dataset)
    return file.name, lambda record, _: boxes[record.image]
