"""Recipes: TOML files read into frozen dataclasses; an unknown key or a wrong type is an error.

A recipe's `kind` says which net it trains: an `FCLNRecipe` (`detector`), an `AlignmentRecipe`,
`SentencesRecipe` or `JointRecipe` (`heads`), a `LanguageRecipe`, or a `ContrastiveRecipe`
(`towers`). What is not in a TOML file has the default there, and
the defaults are the papers'.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from regiontalk.errors import UsageError
from regiontalk.io.files import read_toml
from regiontalk.io.typed import to_dataclass
from regiontalk.lab.training.recipe.detector import FCLNRecipe
from regiontalk.lab.training.recipe.heads import AlignmentRecipe, JointRecipe, SentencesRecipe
from regiontalk.lab.training.recipe.language import LanguageRecipe
from regiontalk.lab.training.recipe.shared import Recipe
from regiontalk.lab.training.recipe.towers import ContrastiveRecipe

Config = TypeVar("Config")

KINDS: dict[str, type[Recipe]] = {
    "fcln": FCLNRecipe,
    "alignment": AlignmentRecipe,
    "sentences": SentencesRecipe,
    "joint": JointRecipe,
    "language": LanguageRecipe,
    "contrastive": ContrastiveRecipe,
}


def load_recipe(path: Path, changes: tuple[str, ...] = ()) -> Any:
    """The `Recipe` in a file, of the kind that it says (default `fcln`).

    `changes` are `key.key=value` with TOML values (text without quotes is taken as a string).
    """
    data = _read_with_base(path)
    for change in changes:
        _apply(data, change)
    kind = data.get("kind", "fcln")
    if kind not in KINDS:
        raise UsageError(f"{path}: kind: {kind!r}; it must be one of {', '.join(KINDS)}")
    return to_dataclass(KINDS[kind], data, str(path), UsageError)


def _read_with_base(path: Path, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """A recipe's values over those of its `base`, a recipe beside it."""
    settings = read_toml(path, UsageError)
    base = settings.pop("base", None)
    if base is None:
        return settings
    if not isinstance(base, str) or path in above:
        raise UsageError(f"{path}: base: {base!r} is not a recipe that this one can build on")
    return _over(_read_with_base(path.parent / base, (*above, path)), settings)


def _over(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`values` with `changes`, table by table; a list is replaced as a whole."""
    changed = dict(values)
    for key, value in changes.items():
        old = values.get(key)
        changed[key] = (
            _over(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return changed


def _apply(data: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    if not equals:
        raise UsageError(f"--set {change}: write key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *parents, last = key.strip().split(".")
    place: Any = data
    try:
        for parent in parents:
            place = place[int(parent)] if isinstance(place, list) else place.setdefault(parent, {})
        place[int(last) if isinstance(place, list) else last] = value
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise UsageError(f"--set {change}: the recipe has no such key") from error


def from_stored(kind: type[Config], data: dict[str, Any], place: str) -> Config:
    """A configuration as `to_dict` and JSON left it; keys that came later have their defaults."""
    return to_dataclass(kind, data, place, UsageError)


def to_dict(config: Any) -> dict[str, Any]:
    """The recipe as plain values, for the run's folder and for checkpoints."""
    return dataclasses.asdict(config)


def flatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted key -> value, `{"run.steps": 400}`, of what `to_dict` gave, whether it has been
    through JSON or not."""
    return dict(_flat(values, ""))


def _flat(tree: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(tree, Mapping | list | tuple):
        yield prefix.removesuffix("."), tree
        return
    for key, value in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
        yield from _flat(value, f"{prefix}{key}.")
