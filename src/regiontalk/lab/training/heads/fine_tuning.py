"""Heads that start from those of another run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from regiontalk.errors import UsageError
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.nets.alignment import AlignmentNet
from regiontalk.lab.nets.multimodal_rnn import MultimodalRNN
from regiontalk.lab.training.checkpoints import Trained, find_checkpoint
from regiontalk.lab.training.recipe.heads import AlignmentRecipe, SentencesRecipe

Net = TypeVar("Net", AlignmentNet, MultimodalRNN)


def load_head(
    recipe: AlignmentRecipe | SentencesRecipe,
    run: str,
    coded: CodedPhotos,
    load: Callable[[Path], Trained[Net, Any]],
) -> Trained[Net, Any]:
    """The net of the run that the recipe names, if it is the recipe's net and can read the codes;
    with `keep_words` only its layers that read codes learn."""
    checkpoint = find_checkpoint(Path(run))
    trained = load(checkpoint)
    if trained.recipe.net != recipe.net:
        raise UsageError(f"{checkpoint}: its [net] differs from this recipe's")
    if trained.state["code"] != coded.codes.shape[2]:
        raise UsageError(
            f"{checkpoint}: it reads codes of {trained.state['code']} numbers, not "
            f"{coded.codes.shape[2]}"
        )
    if recipe.keep_words:
        trained.net.requires_grad_(False)
        for layer in trained.net.code_layers():
            layer.requires_grad_(True)
    else:
        coded.check_detector(trained.state["detector"], checkpoint)
    return trained


def learning_parameters(net: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, weight) for name, weight in net.named_parameters() if weight.requires_grad]
