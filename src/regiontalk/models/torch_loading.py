"""Runs, checkpoints and model folders as a runtime in torch."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch

from regiontalk.errors import ModelError, UsageError
from regiontalk.lab.nets.alignment import AlignmentNet
from regiontalk.lab.nets.multimodal_rnn import MultimodalRNN
from regiontalk.lab.nets.sentence_encoders import WINDOW_WORDS
from regiontalk.lab.training.checkpoints import (
    Trained,
    find_checkpoint,
    load_alignment,
    load_fcln,
    load_sentence_net,
    read_state,
)
from regiontalk.lab.training.recipe import to_dict
from regiontalk.lab.training.recipe.heads import AlignmentRecipe, SentencesRecipe
from regiontalk.models.folder import (
    INFO,
    AlignmentHeadInfo,
    Head,
    SentenceHeadInfo,
    check_head,
    read_model_folder,
)
from regiontalk.models.settings import AlignmentPredictionConfig
from regiontalk.models.torch_runtime import TorchHead, TorchRuntime, model_info

DEFAULT_BETAS = {"cosine": 0.05, "sum": 1.0, "fragments": 1.0}
"""Eq. 12's β where none was chosen: of the order of the differences between one word's fits to two
regions."""


def open_torch_runtime(
    place: Path, device: str | torch.device = "cpu", heads: Iterable[Path] = ()
) -> TorchRuntime:
    """`place` is a run's folder (its best checkpoint), a checkpoint, or a model folder; `heads` are
    runs or checkpoints of heads, which go before those of a model folder."""
    opened = open_heads(heads)
    if (place / INFO).exists():
        from regiontalk.lab.export.pretrained import (
            load_pretrained,
        )  # which needs onnx, and a checkpoint does not

        folder = read_model_folder(place)
        for name, torch_head in opened.items():
            check_head(name, torch_head.head.info, folder.detector, str(place))
        pretrained = load_pretrained(place)
        return TorchRuntime(
            pretrained.net.to(device), pretrained.words, folder.info, opened, folder
        )
    checkpoint = find_checkpoint(place)
    trained = load_fcln(checkpoint, torch.device(device))
    code = trained.recipe.net.recognition.code + trained.net.backbone.deep_channels
    for name, torch_head in opened.items():
        if (
            torch_head.code != code
        ):  # all that a checkpoint can tell: fingerprints are those of exported graphs
            raise ModelError(
                f"{checkpoint}: the head {name!r} reads codes of size {torch_head.code}, not {code}"
            )
    training = {"step": trained.state["step"]}
    info = model_info(trained.net, trained.recipe.prediction, checkpoint.name, "float32", training)
    return TorchRuntime(trained.net, trained.words, info, opened)


def open_heads(places: Iterable[Path], beta: float | None = None) -> dict[str, TorchHead]:
    """Name -> head of each run or checkpoint; `beta` is eq. 12's."""
    heads_by_name: dict[str, TorchHead] = {}
    for place in places:
        name, head = _open_head(find_checkpoint(place), beta)
        if name in heads_by_name:
            raise UsageError(f"{place}: a second head {name!r}")
        heads_by_name[name] = head
    return heads_by_name


def _open_head(checkpoint: Path, beta: float | None) -> tuple[str, TorchHead]:
    kind = read_state(checkpoint)["kind"]
    if kind == "alignment":
        alignment = load_alignment(checkpoint)
        if alignment.recipe.net.words == "edges":
            raise ModelError(f"{checkpoint}: cannot be a head, because it needs dependency trees")
        return "words", alignment_head(alignment, beta)
    if kind == "sentences":
        return "sentence", sentence_head(load_sentence_net(checkpoint))
    raise ModelError(f"{checkpoint}: a checkpoint of kind {kind!r} is not a head")


def alignment_head(
    trained: Trained[AlignmentNet, AlignmentRecipe],
    beta: float | None = None,
    place_weight: float = 0.0,
) -> TorchHead:
    """An alignment net as the head `words`; without `beta`, eq. 12's is `DEFAULT_BETAS`."""
    score = trained.recipe.net.score
    settings = AlignmentPredictionConfig(
        beta=DEFAULT_BETAS[score] if beta is None else beta,
        longest=WINDOW_WORDS,
        score=score,
        place_weight=place_weight,
    )
    state = trained.state
    info = AlignmentHeadInfo(
        state["detector"], settings, to_dict(trained.recipe.net), {"step": state["step"]}
    )
    return TorchHead(Head(info, trained.words, {}), trained.net, state["code"])


def sentence_head(trained: Trained[MultimodalRNN, SentencesRecipe]) -> TorchHead:
    """A multimodal RNN as the head `sentence`."""
    state = trained.state
    settings = trained.recipe.prediction
    info = SentenceHeadInfo(
        state["detector"], settings, to_dict(trained.recipe.net), {"step": state["step"]}
    )
    return TorchHead(Head(info, trained.words, {}), trained.net, state["code"])
