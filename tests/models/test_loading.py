"""The package's own models by name: the strong one, and the fast one, which shares all of it but
the backbone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import regiontalk
from regiontalk.cli.main import run
from regiontalk.errors import ModelError
from regiontalk.models import packaged
from regiontalk.models.folder import read_model_folder

CAT = Path(__file__).parents[2] / "examples" / "photos" / "chelsea.jpg"


@pytest.fixture(scope="module")
def fast() -> regiontalk.Model:
    return regiontalk.load("fast")


def test_the_fast_model_shares_all_that_reads_neither_photos_nor_codes() -> None:
    strong, fast = (read_model_folder(place) for place in packaged.own_models().values())
    both = {"strong": strong, "fast": fast}
    assert {name for name in strong.graphs if strong.graphs[name] != fast.graphs[name]} == {
        "propose"
    }
    assert len(fast.graphs["propose"]) < len(strong.graphs["propose"]) / 3
    assert fast.words == strong.words
    of_heads = {
        name: {**model.heads["words"].graphs, **model.heads["sentence"].graphs}
        for name, model in both.items()
    }
    own = {name for name in of_heads["fast"] if of_heads["fast"][name] != of_heads["strong"][name]}
    assert own == {"vectors", "sentence_begin"}, "what reads the codes; words are shared"
    assert strong.info.name != fast.info.name


def test_it_says_what_is_in_a_photo(fast: regiontalk.Model) -> None:
    assert "cat" in fast(str(CAT)).regions[0].caption
    assert "cat" in fast.describe(str(CAT)).sentence
    assert fast.find(str(CAT), "a cat").here
    assert not fast.find(str(CAT), "a motorcycle").here


def test_a_name_is_a_model_and_a_path_is_a_folder(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tiny_model: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(tiny_model, tmp_path / "fast")
    monkeypatch.chdir(tmp_path)
    assert run(["caption", str(CAT), "--model", "fast", "--json"]) == 0
    assert '"model": "fast-2"' in capsys.readouterr().out
    assert run(["caption", str(CAT), "--model", "./fast", "--json"]) == 0
    assert '"model": "tiny"' in capsys.readouterr().out
    assert regiontalk.load("./fast").runtime.info.name == "tiny"


def test_a_package_without_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regiontalk.models.packaged.FAST", tmp_path / "nothing")
    with pytest.raises(ModelError, match="package has no model fast"):
        regiontalk.load("fast")


def test_a_run_is_loaded_with_the_heads_of_others(
    shaken_checkpoint: Path, alignment_run: Path, untrained_run: Path
) -> None:
    run_folder = untrained_run / "run"
    assert regiontalk.load(run_folder, device="cpu").runtime.info.name == "step-00000000"
    model = regiontalk.load(shaken_checkpoint, device="cpu", heads=[alignment_run])
    assert model.align(str(CAT), "a red square").segments


def test_an_index_is_searched_with_the_model_that_made_it(
    tmp_path: Path, fast: regiontalk.Model, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(CAT, tmp_path)
    regiontalk.Index.open(tmp_path).update(fast)
    assert run(["search", "a cat", str(tmp_path)]) == 0
    assert CAT.name in capsys.readouterr().out
    assert len(regiontalk.Index.open(tmp_path).find(["a cat"])) == 1
    assert run(["index", str(tmp_path)]) == 5
    assert "--model fast is the other one" in capsys.readouterr().err
