"""Training the captions of a model on many examples, with drawn scenes and a tiny model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regiontalk
from regiontalk.cli.main import run
from regiontalk.errors import InputError, ModelError
from regiontalk.inference.teaching import ToTeach
from regiontalk.lab.codes.true_boxes import BoxesOrigin, true_box_codes
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.training import many_examples
from regiontalk.lab.training.many_examples import look_at, train
from regiontalk.lab.training.recipe.shared import OptimizerConfig
from regiontalk.model import Model
from regiontalk.models.background import Background, NamedRegions, Space
from regiontalk.models.folder import read_model_folder, write_model_folder
from regiontalk.models.runtime import Floats

Named = Callable[[str, Floats], Path]


def untracked(photos: Iterator[Any], _: int) -> Iterator[Any]:
    return photos


class Nobody:
    def step(self, *_: object) -> None: ...
    def say(self, _: str) -> None: ...


@pytest.fixture
def named_model(tmp_path: Path, tiny_model: Path, untrained_run: Path) -> Path:
    """`tiny_model` with regions of drawn scenes, by what the model itself says of them."""
    origin = BoxesOrigin(tiny_model, untrained_run / "data", "train")
    inputs = true_box_codes(origin, tmp_path / "codes").inputs.astype(np.float32)
    inputs = np.tile(inputs, (10, 1))[:40]
    space = Space(np.zeros(4, np.float32), np.eye(4, dtype=np.float32), np.eye(4, dtype=np.float32))
    space = replace(space, places=np.tile(space.places, (5, 1)))
    background = Background(space, None, NamedRegions(inputs, ("a shape",) * len(inputs)))
    old = read_model_folder(tiny_model)
    write_model_folder(
        tmp_path / "named",
        old.info,
        old.words,
        old.graphs,
        old.heads,
        names=old.names,
        background=background.to_bytes(),
    )
    return tmp_path / "named"


@pytest.fixture
def examples(untrained_run: Path) -> list[ToTeach]:
    """The true boxes of drawn scenes, all as one new word."""
    dataset = Dataset(untrained_run / "data", "train")
    wanted = []
    for record in dataset:
        photo = dataset.read_photo(record)
        wanted += [ToTeach("schipperke", photo, region.xyxy) for region in record.regions]
    return (wanted * 20)[: many_examples.MIN_EXAMPLES]


def load(folder: Path) -> Model:
    return regiontalk.load(folder, threads=1, words_book=False)


def test_captions_learn_the_word_and_all_else_stays(
    named_model: Path, examples: list[ToTeach], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_examples, "MAX_LOSS", 100.0)  # random weights know nothing to keep
    monkeypatch.setattr(many_examples, "OPTIMIZER", OptimizerConfig(kind="adamw", rate=1e-2))
    seen = look_at(load(named_model), examples, untracked)
    report = train(seen, named_model, tmp_path / "new", Nobody())
    assert (report.examples, report.new_words) == (len(examples), 1)
    assert report.right_before < 50
    assert report.right_after > 50
    first = report.changes[0]
    assert (first.phrase, first.after) == ("a schipperke", "a schipperke")
    model = load(tmp_path / "new")
    (region,) = model(examples[0].photo, boxes=[examples[0].box_xyxy]).regions
    assert region.caption == "a schipperke"
    old = read_model_folder(named_model)
    new = read_model_folder(tmp_path / "new")
    assert (new.detector, new.info.name, new.background) == (old.detector, "new", old.background)
    assert new.words.words == (*old.words.words, "schipperke")
    assert {path.name for path in tmp_path.iterdir()} == {"codes", "named", "new"}


def test_a_model_that_forgets_is_not_written(
    named_model: Path, examples: list[ToTeach], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_examples, "MAX_LOSS", -101.0)
    monkeypatch.setattr(many_examples, "RUN", replace(many_examples.RUN, steps=1))
    seen = look_at(load(named_model), examples, untracked)
    with pytest.raises(InputError, match="not used, nothing was written"):
        train(seen, named_model, tmp_path / "new", Nobody())
    assert {path.name for path in tmp_path.iterdir()} == {"codes", "named"}


def test_other_regions_keep_what_the_model_says(named_model: Path, examples: list[ToTeach]) -> None:
    model = load(named_model)
    seen = look_at(model, examples, untracked)
    assert len(seen.others) == len(seen.captions)
    assert len(seen.inputs) == len(seen.examples) == len(examples)


def test_what_cannot_be_learned_is_told(
    named_model: Path, examples: list[ToTeach], tmp_path: Path
) -> None:
    model = load(named_model)
    (tmp_path / "broken.jpg").write_bytes(b"no photo")
    bad = [ToTeach("犬", examples[0].photo), ToTeach("mug", tmp_path / "broken.jpg")]
    seen = look_at(model, [*examples, *bad], untracked)
    assert len(seen.skipped) == 2
    assert "'犬'" in seen.skipped[0]
    assert "broken.jpg" in seen.skipped[1]
    with pytest.raises(InputError, match="training needs 20"):
        look_at(model, [*examples[:3], *bad], untracked)


def test_a_model_without_named_regions_cannot_be_checked(
    tiny_model: Path, examples: list[ToTeach]
) -> None:
    with pytest.raises(ModelError, match="no named regions"):
        look_at(load(tiny_model), examples, untracked)


def test_the_verb_trains_on_a_data_set_and_writes_what_changed(
    named_model: Path,
    untrained_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(many_examples, "MAX_LOSS", 100.0)
    monkeypatch.setattr(many_examples, "MIN_EXAMPLES", 5)
    monkeypatch.setattr(many_examples, "RUN", replace(many_examples.RUN, steps=1))
    data, new, page = untrained_run / "data", tmp_path / "new", tmp_path / "changes.html"
    command = ["teach", "--train", "--from", data, "-o", new, "--page", page, "--json"]
    assert run([*map(str, command), "--model", str(named_model), "-q"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["examples"] == len(report["changes"]) >= many_examples.MIN_EXAMPLES
    assert "(before: " in page.read_text()
    assert load(new).runtime.info.name == "new"
