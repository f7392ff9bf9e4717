"""Heads in model folders: added, stored small, and refused where they do not belong."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from regiontalk.aligner import region_vectors, word_vectors
from regiontalk.errors import ModelError, UsageError
from regiontalk.export import detector
from regiontalk.export.detector import add_heads, export_model
from regiontalk.export.heads import head_name, load_heads
from regiontalk.model_folder import read_model_folder, write_model_folder
from regiontalk.runtime.onnx import OnnxRuntime


def test_a_copy_with_a_head_is_the_model_and_the_head(tiny_model: Path, aligning_model: Path) -> None:
    plain, added = read_model_folder(tiny_model), read_model_folder(aligning_model)
    assert added.graphs == plain.graphs
    assert added.words == plain.words
    assert set(added.heads) == {"words"}
    assert added.info.name == "aligning"


@pytest.fixture
def traced(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exporting again would give the same graphs, only later."""
    graphs = read_model_folder(tiny_model).graphs
    monkeypatch.setattr(detector, "trace", lambda _: {name: onnx.load_from_string(graphs[name]) for name in graphs})


@pytest.mark.usefixtures("traced")
def test_a_checkpoint_is_exported_with_its_head(
    shaken_checkpoint: Path, aligning_model: Path, alignment_run: Path, tmp_path: Path
) -> None:
    heads = load_heads([alignment_run], "float32")
    export_model(shaken_checkpoint, tmp_path / "model", "aligning", heads=heads)
    assert read_model_folder(tmp_path / "model").heads == read_model_folder(aligning_model).heads


def test_a_head_keeps_its_words_when_it_is_stored_small(
    tiny_model: Path, alignment_run: Path, aligning_model: Path, tmp_path: Path
) -> None:
    whole = OnnxRuntime(aligning_model, threads=1)
    codes = np.random.default_rng(0).normal(size=(4, 192)).astype(np.float32)
    assert load_heads([alignment_run], "int8") == load_heads([alignment_run], "int8-stored")
    for precision in ("float16", "int8-stored"):
        add_heads(tiny_model, tmp_path / precision, "small", load_heads([alignment_run], precision))
        small = OnnxRuntime(tmp_path / precision, threads=1)
        for found, expected in (
            (region_vectors(small, codes), region_vectors(whole, codes)),
            (word_vectors(small, [2, 3, 4]), word_vectors(whole, [2, 3, 4])),
        ):
            assert np.abs(found - expected).max() < 0.1 * np.abs(expected).max()


@pytest.mark.usefixtures("traced")
def test_a_head_of_another_detector_is_refused(
    alignment_run: Path, shaken_checkpoint: Path, tiny_model: Path, tmp_path: Path
) -> None:
    heads = load_heads([alignment_run], "float32")
    model = read_model_folder(tiny_model)
    write_model_folder(tmp_path / "other", model.info, model.words, {**model.graphs, "recognize": b"other"})
    with pytest.raises(ModelError, match="another detector") as caught:
        add_heads(tmp_path / "other", tmp_path / "model", "other", heads)
    assert caught.value.exit_code == 6
    stray = {"words": replace(heads["words"], info=replace(heads["words"].info, detector="0" * 64))}
    with pytest.raises(ModelError, match="another detector"):
        export_model(shaken_checkpoint, tmp_path / "model", "other", heads=stray)
    assert not (tmp_path / "model").exists()


def test_two_heads_of_one_kind(alignment_run: Path) -> None:
    with pytest.raises(UsageError, match="a second head 'words'"):
        load_heads([alignment_run, alignment_run], "float32")


def test_what_is_no_head(shaken_checkpoint: Path) -> None:
    with pytest.raises(ModelError, match="kind 'fcln' is no head"):
        head_name(shaken_checkpoint)


def test_a_head_is_replaced_by_a_newer_one(aligning_model: Path, alignment_run: Path, tmp_path: Path) -> None:
    add_heads(aligning_model, tmp_path / "again", "again", load_heads([alignment_run], "float16"))
    found = read_model_folder(tmp_path / "again").heads["words"].graphs
    assert found != read_model_folder(aligning_model).heads["words"].graphs


def test_a_damaged_head_is_found(aligning_model: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(aligning_model, tmp_path / "model"))
    data = bytearray((model / "words.onnx").read_bytes())
    data[-100] ^= 1
    (model / "words.onnx").write_bytes(data)
    with pytest.raises(ModelError, match=r"words\.onnx: damaged"):
        read_model_folder(model)
