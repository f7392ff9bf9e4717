"""Two towers as ONNX graphs, with the pieces of their words: `photo.onnx`, `text.onnx`,
`vocab.txt`, `towers.json` and `SHA256SUMS`. No model reads such a folder yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

from regiontalk.io.files import json_file
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.export.graphs import serialize, to_onnx
from regiontalk.lab.nets.two_towers import TwoTowers
from regiontalk.lab.training.checkpoints import TrainedTowers, load_towers
from regiontalk.language.wordpiece import CONTINUED, SPECIAL, WordPieces
from regiontalk.models.folder import SUMS, digest_of, sums_file, write_files

PHOTO = (("images", "boxes_xyxy"), ("box_vectors", "patch_vectors"))
"""Photos (N, 3, S, S) and boxes (N, B, 4), the first the whole photo -> (N, B, D), (N, P, D)."""
TEXT = (("tokens", "lengths"), ("text_vectors", "word_vectors", "word_weights"))
"""Tokens (L, T) and their numbers (L,) -> (L, D), (L, T, D), (L, T)."""
PIECES = "vocab.txt"
SETTINGS = "towers.json"
DYNAMIC = torch.export.Dim.DYNAMIC
TRACED_PHOTOS, TRACED_BOXES, TRACED_TEXTS, TRACED_TOKENS = 2, 3, 3, 7


class PhotoGraph(nn.Module):
    """The photo tower with plain tensors."""

    def __init__(self, net: TwoTowers) -> None:
        super().__init__()
        self.net = net

    def forward(self, images: Tensor, boxes_xyxy: Tensor) -> tuple[Tensor, Tensor]:
        vectors = self.net.read_photos(images, boxes_xyxy)
        return vectors.boxes, vectors.patches


class TextGraph(nn.Module):
    """The text tower with plain tensors."""

    def __init__(self, net: TwoTowers) -> None:
        super().__init__()
        self.net = net

    def forward(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.net.read_padded(tokens, lengths)


def export_towers(checkpoint: Path, out: Path, precision: str, data: Iterable[Path] = ()) -> None:
    """Writes both towers of a checkpoint into a new folder; with `data`, only the pieces of words
    that occur in the texts of these data sets are kept."""
    trained = load_towers(checkpoint)
    folders = list(data)
    if folders:
        trained = without_other_pieces(trained, texts_of(folders))
    net = trained.net
    settings = {
        "input_size": net.config.input_size,
        "size": net.config.size,
        "positions": net.config.text.positions,
        "precision": precision,
        "scales": {term: float(net.scale(term).detach()) for term in net.log_scales},
    }
    graphs = serialize(trace_towers(net), precision)
    files = {f"{name}.onnx": graph for name, graph in graphs.items()}
    files[PIECES] = "".join(f"{piece}\n" for piece in trained.pieces.pieces).encode()
    files[SETTINGS] = json_file(settings)
    files[SUMS] = sums_file({name: digest_of(data) for name, data in files.items()})
    write_files(out, files)


def trace_towers(net: TwoTowers) -> dict[str, onnx.ModelProto]:
    """The graphs with float32 weights, for any number of photos, boxes, texts and tokens."""
    side = net.config.input_size
    whole = torch.tensor([0.0, 0.0, side, side])
    photos = (
        torch.zeros(TRACED_PHOTOS, 3, side, side),
        whole.expand(TRACED_PHOTOS, TRACED_BOXES, 4),
    )
    texts = (
        torch.ones(TRACED_TEXTS, TRACED_TOKENS, dtype=torch.long),
        torch.full((TRACED_TEXTS,), TRACED_TOKENS),
    )
    rows = {0: DYNAMIC}
    rows_and_more = {0: DYNAMIC, 1: DYNAMIC}
    return {
        "photo": to_onnx(PHOTO, PhotoGraph(net).eval(), photos, (rows, rows_and_more)),
        "text": to_onnx(TEXT, TextGraph(net).eval(), texts, (rows_and_more, rows)),
    }


def texts_of(folders: Iterable[Path]) -> Iterable[str]:
    """The sentences and phrases of data sets."""
    for folder in folders:
        for record in Dataset(folder):
            yield from record.sentences
            for region in record.regions:
                yield region.phrase
                if region.coarse:
                    yield region.coarse


def without_other_pieces(trained: TrainedTowers, texts: Iterable[str]) -> TrainedTowers:
    """The towers with a smaller vocabulary: special tokens, single characters, and the pieces of
    the texts. Other words are spelled in smaller pieces."""
    known = trained.pieces
    kept = {piece for piece in known.pieces if len(piece.removeprefix(CONTINUED)) == 1}
    kept |= set(SPECIAL)
    for text in texts:
        kept |= set(known.tokens(text))
    numbers = [number for number, piece in enumerate(known.pieces) if piece in kept]
    net = TwoTowers(trained.net.config, len(numbers))
    weights = dict(trained.net.state_dict())
    weights["text.tokens.weight"] = weights["text.tokens.weight"][numbers]
    net.load_state_dict(weights)
    pieces = WordPieces(tuple(known.pieces[number] for number in numbers))
    return replace(trained, net=net.eval(), pieces=pieces)
