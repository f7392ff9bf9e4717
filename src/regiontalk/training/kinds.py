"""The kinds of nets that a recipe may ask for, and the task that trains each."""

from __future__ import annotations

from typing import Any

KINDS = ("fcln", "alignment", "sentences")


def task_class(kind: str) -> Any:
    """A class with `recipe_class` and `begin(recipe)`, whose instances are `engine.Task`s; imported when asked for."""
    if kind == "fcln":
        from regiontalk.training.detector.task import FCLNTask

        return FCLNTask
    if kind == "alignment":
        from regiontalk.training.heads.alignment import AlignmentTask

        return AlignmentTask
    if kind == "sentences":
        from regiontalk.training.heads.sentences import SentencesTask

        return SentencesTask
    raise AssertionError(kind)
