"""How good a network is on dev photos while it trains: dense AP by words in common, recall,
pictures."""

from __future__ import annotations

from pathlib import Path

from regiontalk import boxes as geometry
from regiontalk.errors import DataError, RegionTalkError
from regiontalk.images.photo import Photo
from regiontalk.io.files import replacing
from regiontalk.lab.data.dataset_model import DatasetModel, in_record
from regiontalk.lab.data.records import Dataset, Record, evenly_spaced
from regiontalk.lab.evaluation.dense_ap import evaluate_dense
from regiontalk.lab.evaluation.language import UnigramF1
from regiontalk.lab.evaluation.matching import boxes_of
from regiontalk.lab.evaluation.proposals import proposal_recall
from regiontalk.lab.nets.fcln import FCLN
from regiontalk.lab.training.task import Skip
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.model import Model
from regiontalk.models.settings import PredictionConfig
from regiontalk.models.torch_runtime import TorchRuntime, model_info
from regiontalk.results import ImageRegions
from regiontalk.show import drawing

DRAWN_REGIONS = 6
PICTURE_SIDE = 448


def evaluate_net(
    net: FCLN,
    words: Vocabulary,
    settings: PredictionConfig,
    dataset: Dataset,
    photos: int,
    skip: Skip,
) -> tuple[dict[str, float], list[ImageRegions]]:
    """Metrics on some photos of a data set, and what was found in them, by the path of `caption`.
    Of a net that finds no regions itself: captions of the true boxes alone.

    Language is scored by words in common (unigram F1), which needs no tables; these numbers steer
    training and are not METEOR figures.
    """
    runtime = TorchRuntime(net, words, model_info(net, settings, "checkpoint", "float32", {}))
    dataset_model = DatasetModel(Model(runtime), dataset)
    truth = []
    seen = []
    captions = []
    for record in (dataset[number] for number in evenly_spaced(len(dataset), photos)):
        try:
            captions.append(dataset_model.true_regions(record))
        except RegionTalkError as error:
            skip(error.message)
            continue
        truth.append(record)
        if net.config.localize:
            seen.append(_look(dataset_model, record))
    if not truth:
        raise DataError(f"{dataset.folder}: none of its dev photos can be read")
    on_truths = evaluate_dense(truth, captions, UnigramF1())
    metrics = {"true_boxes_map": on_truths.map, "true_boxes_map_strict": on_truths.map_strict}
    if not net.config.localize:
        return metrics, captions
    regions_of_photos = [regions for regions, _ in seen]
    result = evaluate_dense(truth, regions_of_photos, UnigramF1())
    recall = proposal_recall(
        [boxes_of(record.regions) for record in truth],
        [proposals for _, proposals in seen],
        (0.5, 0.7),
        (settings.proposals,),
    )[str(settings.proposals)]
    dense = {"dense_map": result.map, "detection_map": result.detection_map}
    recalls = {"recall_50": recall["0.5"], "recall_70": recall["0.7"]}
    return dense | metrics | recalls, regions_of_photos


def _look(dataset_model: DatasetModel, record: Record) -> tuple[ImageRegions, geometry.Floats]:
    """A photo's regions, and the proposals that were recognised, both in the record's pixels."""
    look = dataset_model.look(record)
    width, height = look.frame.photo_size
    proposals = look.frame.to_photo(look.recognized.proposals_xyxy)
    regions = ImageRegions(
        "",
        width,
        height,
        dataset_model.model.runtime.info.name,
        tuple(dataset_model.model.regions(look)),
    )
    return in_record(regions, record), geometry.scale(
        proposals, record.width / width, record.height / height
    )


def draw_samples(photos: list[ImageRegions], dataset: Dataset, count: int, path: Path) -> None:
    """A sheet of the first photos with their best regions."""
    records = {record.image: record for record in dataset}
    pictures = []
    for photo in photos[:count]:
        picture = Photo(dataset.read_photo(records[photo.path])).preview(PICTURE_SIDE).image
        best = photo.regions[:DRAWN_REGIONS]
        scale = picture.width / photo.width
        boxes = geometry.scale(boxes_of(best), scale, scale)
        pictures.append(drawing.draw_regions(picture, boxes, [region.caption for region in best]))
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet = drawing.contact_sheet(pictures, [photo.path for photo in photos[:count]], columns=2)
    with replacing(path) as partial:
        sheet.save(partial)
