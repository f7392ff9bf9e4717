"""A student: all but the backbone is the teacher's, stays so, and the backbone comes to give the
teacher's maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regiontalk.errors import UsageError
from regiontalk.lab.nets.fcln import Output, Recognized
from regiontalk.lab.nets.layers import cells_inside
from regiontalk.lab.training.detector.task import FCLNTask
from regiontalk.lab.training.detector.teacher import imitation_losses, map_difference
from regiontalk.lab.training.engine import Engine

IMITATION = {"teacher_maps", "teacher_codes", "teacher_words"}


class Nobody:
    def step(self, *_: object) -> None: ...
    def say(self, _: str) -> None: ...


@pytest.fixture
def student(quick_recipe: Callable[..., Any], tiny_model: Path) -> FCLNTask:
    others = (
        f"losses.{name}=0"
        for name in ("caption", "final_score", "final_box", "proposal_score", "proposal_box")
    )
    rate = ("backbone_optimizer.kind=adamw", "backbone_optimizer.rate=3e-3", "schedule.warmup=0")
    return FCLNTask.begin(quick_recipe(f"teacher={tiny_model}", *others, *rate))


def test_only_the_backbone_is_new_and_only_it_learns(student: FCLNTask, tmp_path: Path) -> None:
    assert student.teacher is not None
    teachers = student.teacher.net.state_dict()
    before = {name: value.clone() for name, value in student.net.state_dict().items()}
    assert any(
        not torch.equal(before[name], teachers[name])
        for name in before
        if name.startswith("backbone.")
    )
    engine = Engine(student, tmp_path, torch.device("cpu"), Nobody())
    for number in range(2):
        engine.train_step([student.batches(0, 1)[number]])
    for name, value in student.net.state_dict().items():
        if name.startswith("backbone."):
            assert not torch.equal(value, before[name]), name
        else:
            assert torch.equal(value, teachers[name]), name


def test_it_comes_to_give_the_teachers_answers(student: FCLNTask, tmp_path: Path) -> None:
    batch = student.batches(0, 1)[0]
    engine = Engine(student, tmp_path, torch.device("cpu"), Nobody())
    first = engine.train_step([batch])
    assert set(first) > IMITATION
    for _ in range(30):
        last = engine.train_step([batch])
    for name in IMITATION:
        assert last[name] < 0.6 * first[name], name


def test_a_student_like_its_teacher_has_nothing_to_learn_from_it(student: FCLNTask) -> None:
    assert student.teacher is not None
    student.net.load_state_dict(student.teacher.net.state_dict())
    student.prepare_step(0)
    losses = student.losses(student.batches(0, 1)[0])
    for name in IMITATION:
        assert losses[name].item() == pytest.approx(0, abs=1e-6)


def test_the_difference_of_maps_is_in_units_of_the_teachers_variance() -> None:
    torch.manual_seed(0)
    teacher = torch.randn(4, 6, 20, 20)
    inside = torch.ones(4, 20, 20, dtype=torch.bool)
    mean = teacher.mean(dim=(0, 2, 3), keepdim=True).expand_as(teacher)
    assert map_difference(mean, teacher, inside) == pytest.approx(1 / 1.1, abs=0.01)
    assert map_difference(mean * 100, teacher * 100, inside) == pytest.approx(1 / 1.1, abs=0.01)


def test_padding_does_not_count() -> None:
    inside = cells_inside(torch.tensor([[33.0, 16.0], [64.0, 32.0]]), 2, 4)
    assert inside.tolist() == [[[True, True, True, False], [False] * 4], [[True] * 4] * 2]
    student, teacher = torch.rand(2, 3, 2, 4), torch.rand(2, 3, 2, 4)
    changed = torch.where(inside[:, None], student, 1e3)
    assert map_difference(student, teacher, inside) == map_difference(changed, teacher, inside)


def test_words_are_compared_as_probabilities() -> None:
    maps, codes = torch.rand(1, 2, 1, 1), torch.rand(1, 3, 4)
    nothing = torch.zeros(1, 1)
    recognized = Recognized(nothing, nothing, nothing, codes, nothing)
    teacher = Output(maps, maps, None, None, recognized, torch.tensor([[0.0, 0.0]]))
    student = replace(teacher, word_logits=torch.tensor([[5.0, 5.0 + math.log(3.0)]]))
    losses = imitation_losses(student, teacher, torch.tensor([[16.0, 16.0]]))
    half_log = 0.5 * torch.log(torch.tensor([0.5 / 0.25, 0.5 / 0.75])).sum()
    assert losses["teacher_words"] == pytest.approx(half_log.item())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (("net.backbone=vgg16",), "as wide"),
        (('data.0.styles={"*"="unheard"}',), "does not know"),
        (("vocabulary.lengths=3",), "does not know"),
        (("init_from=embedded",), "cannot be used with"),
    ],
)
def test_what_no_student_can_be(
    quick_recipe: Callable[..., Any], tiny_model: Path, changes: tuple[str, ...], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        FCLNTask.begin(quick_recipe(f"teacher={tiny_model}", *changes))
