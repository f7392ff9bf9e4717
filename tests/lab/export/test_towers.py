"""Two towers as graphs: the same vectors as in torch, for any number of photos and texts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from regiontalk.cli.main import run as main
from regiontalk.lab.export.towers import trace_towers, without_other_pieces
from regiontalk.lab.nets import vit
from regiontalk.lab.nets.alignment import Texts
from regiontalk.lab.nets.text_tower import TextTowerConfig
from regiontalk.lab.nets.two_towers import TwoTowers, TwoTowersConfig
from regiontalk.lab.training.checkpoints import TrainedTowers, find_checkpoint, load_towers
from regiontalk.lab.training.towers.batches import encode_texts
from regiontalk.language.wordpiece import WordPieces


@pytest.fixture(scope="module")
def trained(towers_run: Path) -> TrainedTowers:
    return load_towers(find_checkpoint(towers_run))


@pytest.fixture(scope="module")
def exported(towers_run: Path, towers_desk: Path) -> Path:
    out = towers_desk / "exported"
    assert main(["export", str(towers_run), str(out)]) == 0
    return out


def run(graph: Path, **inputs: torch.Tensor) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(str(graph), providers=["CPUExecutionProvider"])
    return session.run(None, {name: value.numpy() for name, value in inputs.items()})


@pytest.mark.parametrize(("photos", "boxes"), [(1, 1), (3, 5)])
def test_photos_get_the_vectors_of_torch(
    exported: Path, trained: TrainedTowers, photos: int, boxes: int
) -> None:
    images = torch.rand(photos, 3, 64, 64) * 255
    corners = torch.rand(photos, boxes, 4) * 30 + torch.tensor([0.0, 0, 30, 30])
    corners[:, 0] = torch.tensor([0.0, 0, 64, 64])
    with torch.inference_mode():
        expected = trained.net.read_photos(images, corners)
    vectors = run(exported / "photo.onnx", images=images, boxes_xyxy=corners)
    for ours, theirs in zip(vectors, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_vit_s_gets_the_vectors_of_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two of its blocks, to be quick; for one photo and for three."""
    monkeypatch.setattr(vit, "DEPTH", 2)
    monkeypatch.setattr(vit, "TAPPED_BLOCKS", (0, 1))
    text = TextTowerConfig(blocks=1, width=16, heads=2, positions=12)
    net = TwoTowers(TwoTowersConfig(input_size=64, size=16, text=text), 20).eval()
    torch.nn.init.normal_(net.photo.positions)
    graph = trace_towers(net)["photo"]
    (tmp_path / "photo.onnx").write_bytes(graph.SerializeToString())
    for count, boxes in ((1, 1), (3, 2)):
        images = torch.rand(count, 3, 64, 64) * 255
        corners = torch.tensor([0.0, 0, 64, 64]).expand(count, boxes, 4)
        with torch.inference_mode():
            expected = net.read_photos(images, corners)
        vectors = run(tmp_path / "photo.onnx", images=images, boxes_xyxy=corners)
        for ours, theirs in zip(vectors, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize("texts", [["a red ring"], ["a blue circle and a ring", "", "green"]])
def test_texts_get_the_vectors_of_torch(
    exported: Path, trained: TrainedTowers, texts: list[str]
) -> None:
    encoded = encode_texts(texts, trained.pieces, 64)
    with torch.inference_mode():
        expected = trained.net.read_padded(*encoded)
    vectors = run(exported / "text.onnx", tokens=encoded.tokens, lengths=encoded.lengths)
    for ours, theirs in zip(vectors, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_the_folder_has_what_reading_needs(exported: Path, trained: TrainedTowers) -> None:
    assert WordPieces.load(exported / "vocab.txt") == trained.pieces
    settings = json.loads((exported / "towers.json").read_text())
    assert settings["input_size"] == 64
    assert settings["scales"]["words"] == pytest.approx(float(trained.net.scale("words").detach()))


def test_eight_bits_and_fewer_pieces(
    exported: Path, towers_run: Path, named_scenes: Path, tmp_path: Path
) -> None:
    """The data set has no text but colours."""
    small = tmp_path / "small"
    command = ["export", str(towers_run), str(small), "--precision", "int8"]
    assert main([*command, "--texts-of", str(named_scenes)]) == 0
    pieces = WordPieces.load(small / "vocab.txt")
    assert "red" in pieces.pieces
    assert "ring" not in pieces.pieces
    assert (small / "text.onnx").stat().st_size < (exported / "text.onnx").stat().st_size
    whole = WordPieces.load(exported / "vocab.txt")
    vectors = []
    for folder, known in ((exported, whole), (small, pieces)):
        encoded = encode_texts(["red", "a blue"], known, 64)
        graph = folder / "text.onnx"
        vectors.append(run(graph, tokens=encoded.tokens, lengths=encoded.lengths)[0])
    cosines = (vectors[0] * vectors[1]).sum(axis=1)
    assert cosines.min() > 0.99


def test_options_of_other_models_are_refused(
    towers_run: Path, untrained_run: Path, named_scenes: Path, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    assert main(["export", str(towers_run), out, "--add", str(untrained_run)]) == 2
    assert main(["export", str(untrained_run / "run"), out, "--texts-of", str(named_scenes)]) == 2


def test_a_smaller_vocabulary_reads_its_texts_as_before(trained: TrainedTowers) -> None:
    texts = ["a red ring", "red and red"]
    small = without_other_pieces(trained, texts)
    assert set(small.pieces.pieces) == {
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "red", "ring", "and")
    }
    vectors = [
        towers.net.read_texts(Texts(*encode_texts(texts, towers.pieces, 64))).texts
        for towers in (trained, small)
    ]
    torch.testing.assert_close(*vectors)
