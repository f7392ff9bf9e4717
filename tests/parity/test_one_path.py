"""What ships is what is measured: every verb looks at a photo in the same way.

On the repository's own photos, with the model in the package where it has the heads, else with tiny
nets.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regiontalk
from regiontalk.cli.main import run
from regiontalk.inference.alignment import AlignmentHead, region_vectors
from regiontalk.inference.codes import BEST_REGIONS
from regiontalk.inference.sentences import SentenceHead, SentenceOptions
from regiontalk.lab.codes.build import Origin, compute_codes
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.merged_truth import true_boxes
from regiontalk.lab.data.records import Dataset, Record, TrueRegion
from regiontalk.lab.evaluation.alignment import AlignedPhotos
from regiontalk.lab.fitting.photos import look_at
from regiontalk.lab.training.checkpoints import find_checkpoint
from regiontalk.lab.training.heads.evaluation import open_aligned_photos, open_coded_sentences
from regiontalk.model import Model
from regiontalk.models.torch_loading import open_torch_runtime
from regiontalk.results import ImageRegions

Lines = Callable[..., list[dict[str, Any]]]

SETTINGS = {"proposals": 40, "candidates": 200, "final_nms": 0.6, "longest": 6, "score": "product"}
SENTENCE = "a smiling woman with a cup of coffee beside a cat on a wooden table"


@pytest.fixture(scope="module")
def model() -> Model:
    return regiontalk.load(threads=1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's photos as a data set of test photos, named by their paths."""
    examples, folder = Path(__file__).parents[2] / "examples", tmp_path_factory.mktemp("data")
    records = [
        json.dumps(record.to_dict() | {"image": str(examples / record.image), "split": "test"})
        + "\n"
        for record in Dataset(examples)
    ]
    (folder / "annotations.jsonl").write_text("".join(records))
    return folder


@pytest.fixture
def dataset(data: Path) -> Dataset:
    return Dataset(data)


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Lines:
    """Runs a verb; the JSON lines it prints, or writes to `out`."""

    def ask(*arguments: str | Path, out: str | None = None) -> list[dict[str, Any]]:
        output = tmp_path / (out or "nothing")
        assert run([*map(str, arguments), *(["-o", str(output)] if out else ["--json"]), "-q"]) == 0
        printed = capsys.readouterr().out
        return [json.loads(line) for line in (output.read_text() if out else printed).splitlines()]

    return ask


@pytest.fixture(scope="module")
def coded(data: Path, tmp_path_factory: pytest.TempPathFactory) -> CodedPhotos:
    """What heads learn from, and what they are measured on."""
    out = tmp_path_factory.mktemp("codes") / "codes.npz"
    return compute_codes(Origin(regiontalk.EMBEDDED, data), out, 1, lambda numbers, _: numbers)


def of_photo(coded: CodedPhotos, record: Record) -> tuple[np.ndarray, np.ndarray]:
    """The codes and boxes of a photo."""
    place = coded.places[record.image]
    count = coded.counts[place]
    return coded.codes[place, :count].astype(np.float32), coded.boxes_xyxy[place, :count].astype(
        np.float64
    )


def assert_alike(ours: ImageRegions, theirs: ImageRegions) -> None:
    assert len(ours.regions) > 1
    assert [region.caption for region in ours.regions] == [
        region.caption for region in theirs.regions
    ]
    for name in ("xyxy", "score", "logprob"):
        values = ([getattr(region, name) for region in photo.regions] for photo in (ours, theirs))
        np.testing.assert_allclose(*values, rtol=1e-3, atol=2e-3, err_msg=name)


@pytest.mark.parametrize(
    "options", [{}, {"beam": 3}, {"size": 200}, {"boxes": [[5, 5, 100, 80], [50, 60, 220, 300]]}]
)
def test_a_checkpoint_and_its_export_give_the_same_regions(
    shaken_checkpoint: Path, tiny_model: Path, examples: Path, options: dict[str, Any]
) -> None:
    models = []
    for runtime in (
        open_torch_runtime(shaken_checkpoint),
        regiontalk.load(tiny_model, threads=1).runtime,
    ):
        settings = replace(runtime.info.prediction, **SETTINGS)  # type: ignore[arg-type]
        runtime.info = replace(runtime.info, prediction=settings)
        models.append(Model(runtime))
    for photo in ("coffee.jpg", "chelsea.jpg"):
        ours, theirs = (one(examples / "photos" / photo, **options) for one in models)
        assert_alike(ours, theirs)


class TestRegions:
    """Captioned, predicted for evaluation, and seen while settings are fitted."""

    def test_predict_says_what_caption_says(self, lines: Lines, data: Path, examples: Path) -> None:
        predicted = lines("predict", regiontalk.EMBEDDED, data, out="predicted.jsonl")
        assert predicted == lines("caption", examples / "photos")
        assert len(predicted) == 8

    def test_predict_on_the_true_boxes_says_what_caption_says_of_boxes(
        self, lines: Lines, data: Path, dataset: Dataset
    ) -> None:
        predicted = lines(
            "predict", regiontalk.EMBEDDED, data, "--regions", "truth", out="truths.jsonl"
        )
        for record, found in zip(
            sorted(dataset, key=lambda one: one.image), predicted, strict=True
        ):
            boxes = ";".join(",".join(map(str, box)) for box in true_boxes(record).tolist())
            (captioned,) = lines("caption", record.image, "--boxes", boxes)
            regions = (
                {tuple(one.pop("xyxy")): one for one in photo["regions"]}
                for photo in (found, captioned)
            )
            ours, theirs = (
                {box: one | {"id": None} for box, one in photo.items()} for photo in regions
            )
            assert ours == theirs

    def test_fit_sees_what_caption_says(self, model: Model, dataset: Dataset) -> None:
        """Before there is a confidence, which is fitted last and may then choose a shorter
        caption."""
        runtime = copy.copy(model.runtime)
        settings = replace(runtime.info.prediction, confidence=None)
        runtime.info = replace(runtime.info, prediction=settings)
        runtime.names = None  # no part of `fit` on dev reads them …
        runtime.colours = None  # … or takes a colour out of a caption
        before = Model(runtime)
        for record in dataset:
            seen = look_at(DatasetModel(before, dataset), record, [settings]).regions(
                settings, runtime.words
            )
            assert seen.regions == before(dataset.read_photo(record)).regions


class TestSentences:
    """Described, predicted for evaluation, and said of the codes that the head learned from."""

    def test_predict_says_what_describe_says(
        self, lines: Lines, data: Path, examples: Path
    ) -> None:
        predicted = lines(
            "predict", regiontalk.EMBEDDED, data, "--sentences", out="sentences.jsonl"
        )
        assert predicted == lines("describe", examples / "photos")
        assert len(predicted) == 8

    @pytest.mark.parametrize("beam", [1, 7])
    def test_the_codes_say_what_describe_says(
        self, model: Model, coded: CodedPhotos, dataset: Dataset, beam: int
    ) -> None:
        head = SentenceHead(model.runtime)
        for record in dataset:
            (said,) = head.sentences(*of_photo(coded, record), SentenceOptions(beam))
            found = model.describe(dataset.read_photo(record), beam=beam)
            assert said.sentence == found.sentence
            assert said.logprob == pytest.approx(
                found.logprob, abs=0.02
            )  # codes are stored in half precision


class TestAlignments:
    def test_the_codes_say_what_align_says(
        self, model: Model, coded: CodedPhotos, dataset: Dataset
    ) -> None:
        head = AlignmentHead(model.runtime)
        sentence = head.read(SENTENCE)
        for record in dataset:
            codes, boxes = of_photo(coded, record)
            scores = coded.scores[coded.places[record.image], : len(codes)].astype(np.float64)
            photo = dataset.read_photo(record)
            seen = model.candidates(
                model.look(photo), BEST_REGIONS
            )  # for the language model's state
            vectors = region_vectors(model.runtime, codes)
            seen = replace(seen, boxes_xyxy=boxes, scores=scores, vectors=vectors)
            expected = head.segments(sentence, seen)
            found = model.align(photo, SENTENCE).segments
            assert [one.words for one in found] == [one.words for one in expected]
            for ours, theirs in zip(found, expected, strict=True):
                assert ours.xyxy == pytest.approx(theirs.xyxy, abs=1e-2)
                assert ours.score == pytest.approx(theirs.score, abs=5e-3)


class TestRuns:
    """A run on codes from a file, and the model that it was exported to, on photos."""

    LONG = "a red square and a blue circle " * 8  # two and a half windows

    def test_a_run_ranks_and_grounds_long_sentences_as_its_model_does(
        self, alignment_run: Path, aligning_model: Path, sentences_run: Path, untrained_run: Path
    ) -> None:
        dataset = Dataset(untrained_run / "data", "dev")
        phrase = TrueRegion((2, 2, 30, 30), "a blue circle", sentences=(0,))
        records = [
            replace(
                record,
                sentences=("a red square", self.LONG),
                entity_sentences=(self.LONG,),
                regions=(phrase,),
            )
            for record in dataset
        ]
        coded = CodedPhotos.load(sentences_run / "codes.npz")
        run_photos = open_aligned_photos(find_checkpoint(alignment_run), coded)
        asked = DatasetModel(regiontalk.load(aligning_model), dataset)
        model_photos = AlignedPhotos.of_model(asked)
        of_run = run_photos.score_matrix(records)
        of_model = model_photos.score_matrix(records)
        assert of_run.scores == pytest.approx(of_model.scores, abs=0.02)  # half precision of codes
        pairs = zip(run_photos.mentions(records), model_photos.mentions(records), strict=True)
        for ours, theirs in pairs:
            assert ours.fits.shape == (len(self.LONG.split()), len(ours.boxes_xyxy))
            assert ours.fits == pytest.approx(theirs.fits, abs=0.02)
            assert ours.boxes_xyxy == pytest.approx(theirs.boxes_xyxy, abs=0.02)

    @pytest.mark.parametrize("beam", [1, 4])
    def test_a_run_describes_as_its_model_does(
        self, sentences_run: Path, speaking_model: Path, untrained_run: Path, beam: int
    ) -> None:
        dataset = Dataset(untrained_run / "data", "dev")
        checkpoint = find_checkpoint(sentences_run / "run")
        sentences = open_coded_sentences(checkpoint, sentences_run / "codes.npz")
        asked = DatasetModel(regiontalk.load(speaking_model), dataset)
        for ours in sentences.photos(dataset, beam):
            theirs = asked.sentence(next(one for one in dataset if one.image == ours.path), beam)
            assert ours.sentence == theirs.sentence
            assert ours.logprob == pytest.approx(theirs.logprob, abs=0.05)
