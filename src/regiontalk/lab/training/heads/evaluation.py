"""Nets and runs of heads on region codes, through the code that models use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from regiontalk.errors import UsageError
from regiontalk.inference.alignment import ALIGNMENT_HEAD
from regiontalk.inference.sentences import SENTENCE_HEAD, SentenceHead
from regiontalk.lab.codes.sentences import CodedSentences
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.alignment import AlignedPhotos
from regiontalk.lab.evaluation.captions import evaluate_captions
from regiontalk.lab.evaluation.ranking import ScoreMatrix
from regiontalk.lab.nets.alignment import AlignmentNet
from regiontalk.lab.nets.multimodal_rnn import MultimodalRNN
from regiontalk.lab.training.checkpoints import (
    CPU,
    Trained,
    best_checkpoints,
    find_checkpoint,
    load_alignment,
    load_sentence_net,
)
from regiontalk.lab.training.heads.caption_targets import CaptionTarget
from regiontalk.lab.training.heads.sentence_encoding import SentenceReader, trained_reader
from regiontalk.lab.training.recipe.heads import AlignmentRecipe, SentencesRecipe
from regiontalk.models.torch_loading import alignment_head, open_heads, sentence_head
from regiontalk.models.torch_runtime import TorchHeads

Alignment = Trained[AlignmentNet, AlignmentRecipe]


def aligned_photos(
    trained: Alignment, coded: CodedPhotos, device: torch.device = CPU, place_weight: float = 0.0
) -> AlignedPhotos:
    """An alignment net and the regions of coded photos."""
    head = alignment_head(trained, place_weight=place_weight)
    return AlignedPhotos.of_codes(TorchHeads({ALIGNMENT_HEAD: head}, device, "run"), coded)


def open_aligned_photos(run: Path, coded: CodedPhotos, place_weight: float = 0.0) -> AlignedPhotos:
    """The best checkpoint of a run, which must read words, and codes of the same detector as
    `coded`."""
    checkpoint = find_checkpoint(run)
    trained = load_alignment(checkpoint)
    coded.check_detector(trained.state["detector"], checkpoint)
    if trained.recipe.parses is not None:
        raise UsageError(f"{checkpoint}: it reads edges of dependency trees, not words")
    return aligned_photos(trained, coded, place_weight=place_weight)


def score_matrix(
    trained: Alignment,
    reader: SentenceReader,
    coded: CodedPhotos,
    records: Iterable[Record],
    device: torch.device,
) -> ScoreMatrix:
    """The scores of every photo with every sentence."""
    encode: Callable[[Sequence[str]], Sequence[NDArray[np.float32]]] | None = None
    if trained.recipe.parses is not None:
        encode = partial(read_edges, trained.net, reader)
    return aligned_photos(trained, coded, device).score_matrix(records, encode)


def score_matrices(
    run: Path, coded: CodedPhotos, records: Sequence[Record], device: torch.device = CPU
) -> Iterator[ScoreMatrix]:
    """The scores of every photo with every sentence, by each of a run's best checkpoints."""
    sentences = list(chain.from_iterable(record.sentences for record in records))
    for checkpoint in best_checkpoints(run):
        trained = load_alignment(checkpoint)
        coded.check_detector(trained.state["detector"], checkpoint)
        reader = trained_reader(trained, sentences)
        yield score_matrix(trained, reader, coded, records, device)


@torch.no_grad()
def read_edges(
    net: AlignmentNet, reader: SentenceReader, sentences: Sequence[str]
) -> list[NDArray[np.float32]]:
    """The vectors (W, h) of the edges of each sentence's dependency tree (the paper's baseline)."""
    if not sentences:
        return []
    device = next(net.parameters()).device
    edges = [reader.read(sentence) for sentence in sentences]
    tokens = reader.stack(edges).tokens.to(device)
    vectors = net.words(tokens).cpu().numpy()
    return np.split(vectors, np.cumsum([len(sentence_edges) for sentence_edges in edges])[:-1])


def coded_sentences(
    trained: Trained[MultimodalRNN, SentencesRecipe],
    coded: CodedPhotos,
    device: torch.device = CPU,
    called: str = "run",
    file: str = "codes",
    heads: Iterable[Path] = (),
) -> CodedSentences:
    """A multimodal RNN and the codes that it reads; `heads` are runs of other heads, which its
    settings may ask for."""
    every = {SENTENCE_HEAD: sentence_head(trained), **open_heads(heads)}
    for name, head in every.items():
        coded.check_detector(
            head.head.info.detector, Path(called if name == SENTENCE_HEAD else name)
        )
    return CodedSentences(SentenceHead(TorchHeads(every, device, called)), coded, file)


def open_coded_sentences(
    checkpoint: Path, codes: Path, device: torch.device = CPU, heads: Iterable[Path] = ()
) -> CodedSentences:
    """The net of a checkpoint, and a file of codes."""
    trained = load_sentence_net(checkpoint)
    coded = CodedPhotos.load(codes)
    coded.check_detector(trained.state["detector"], checkpoint)
    return coded_sentences(trained, coded, device, checkpoint.name, str(codes), heads)


def score_sentences(
    sentences: CodedSentences, targets: Sequence[CaptionTarget]
) -> dict[str, float]:
    """CIDEr and BLEU of greedy sentences against the targets' own texts."""
    texts = [sentences.head.words.decode(caption.tokens) for caption in sentences(targets, beam=1)]
    scores = evaluate_captions(zip(texts, [target.texts for target in targets], strict=True))
    return {name: scores[name] for name in ("cider", "bleu1", "bleu4")}
