"""A student: a teacher's network with a faster backbone, which learns to give the teacher's maps.

Knowledge distillation (Hinton et al. 2015), with maps as hints (Romero et al. 2015). All layers
after the backbone are the teacher's and stay as they are. So a student has only the backbone to
learn, and whatever reads a teacher's codes can read the student's.

Shapes: N photos, C channels, h × w cells, B regions, D the size of a code, W words, V tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain

import torch
from torch import Tensor
from torch.nn import functional as F

from regiontalk.errors import UsageError
from regiontalk.lab.nets.fcln import FCLN, Output, Regions
from regiontalk.lab.nets.layers import cells_inside
from regiontalk.lab.training.recipe.detector import FCLNRecipe
from regiontalk.language.vocabulary import LENGTH_STYLE, Vocabulary

QUIET_CHANNEL = (
    0.1  # of the mean variance: channels that vary less carry little information and count less
)


@dataclass
class Teacher:
    net: FCLN
    words: Vocabulary

    @classmethod
    def load(cls, place: str, recipe: FCLNRecipe) -> Teacher:
        """The model that the recipe names; an error where it does not know how the recipe's phrases
        start."""
        from regiontalk.lab.export.pretrained import (
            load_pretrained,
        )  # needs onnx, as few parts of training do

        pretrained = load_pretrained(place)
        words = pretrained.words
        unknown = set(chain.from_iterable(data.styles.values() for data in recipe.data)) - {
            *words.styles,
            LENGTH_STYLE,
        }
        if unknown or (recipe.vocabulary.lengths and not words.lengths):
            raise UsageError(
                f"{place}: the teacher does not know {sorted(unknown) or 'lengths of captions'}"
            )
        return cls(pretrained.net.eval().requires_grad_(False), words)

    def student(self, recipe: FCLNRecipe) -> tuple[FCLNRecipe, FCLN]:
        """The teacher's net with the recipe's backbone, and the recipe with that net."""
        wanted = recipe.net
        backbone = self.net.backbone
        config = replace(
            self.net.config,
            backbone=wanted.backbone,
            skip=wanted.skip,
            deep_channels=backbone.deep_channels,
        )
        net = FCLN(config, len(self.words), self.words.starts)
        if (net.backbone.channels, net.backbone.deep_channels) != (
            backbone.channels,
            backbone.deep_channels,
        ):
            raise UsageError(
                f"{wanted.backbone} cannot be a student: its maps are not as wide as its teacher's"
            )
        kept = {
            name: value
            for name, value in self.net.state_dict().items()
            if not name.startswith("backbone.")
        }
        net.load_state_dict(net.state_dict() | kept)
        freeze_all_but_backbone(net)
        return replace(recipe, net=config), net

    @torch.no_grad()
    def answer(self, images: Tensor, sizes: Tensor, regions: Regions) -> Output[Regions]:
        """What the teacher makes of the regions and captions that the student learns from."""
        output: Output[Regions] = self.net.to(images.device)(images, sizes, lambda _: regions)
        return output


def freeze_all_but_backbone(net: FCLN) -> None:
    for name, part in net.named_children():
        if name != "backbone":
            part.requires_grad_(False).eval()
    # it has no dropout of its own, and cuDNN gives no gradients in evaluation mode
    net.language.lstm.train()


def imitation_losses(
    student: Output[Regions], teacher: Output[Regions], sizes: Tensor
) -> dict[str, Tensor]:
    """How far the student is from its teacher: in the maps, in units of their variance; in the
    codes, in units of their squares; in the probabilities of words, in nats a word."""
    inside = cells_inside(sizes, *teacher.features.shape[2:])
    maps = map_difference(student.features, teacher.features, inside) + map_difference(
        student.deep, teacher.deep, inside
    )
    teacher_codes = teacher.recognized.codes
    difference = (student.recognized.codes - teacher_codes).float()
    codes = difference.square().mean() / teacher_codes.float().square().mean()
    teacher_logprobs = F.log_softmax(teacher.word_logits.float(), dim=1)
    student_logprobs = F.log_softmax(student.word_logits.float(), dim=1)
    words = F.kl_div(student_logprobs, teacher_logprobs, reduction="batchmean", log_target=True)
    return {"teacher_maps": maps / 2, "teacher_codes": codes, "teacher_words": words}


def map_difference(student: Tensor, teacher: Tensor, inside: Tensor) -> Tensor:
    """The mean over channels of the squared difference of maps (N, C, h, w), in units of the
    teacher's variance."""
    of_student, of_teacher = (
        features.permute(0, 2, 3, 1)[inside].float() for features in (student, teacher)
    )  # (cells, C)
    variance = of_teacher.var(dim=0, correction=0)
    return (
        (of_student - of_teacher).square().mean(dim=0)
        / (variance + QUIET_CHANNEL * variance.mean())
    ).mean()
