"""Every kind of net has a task with a recipe of that kind."""

from __future__ import annotations

import pytest

from regiontalk.training.kinds import KINDS, task_class


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_for_every_kind(kind: str) -> None:
    task = task_class(kind)
    assert task.recipe_class.__dataclass_fields__["kind"].default == kind
    assert callable(task.begin)
