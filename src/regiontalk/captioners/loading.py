"""Loads a captioner by its address, as `--model` takes it: code is only run if the user names it.

`my_model.py:MyModel` is a class in a file, `package.module:MyModel` one in an installed package.
What follows a second colon is given to the class as its only argument.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from regiontalk.captioners import Captioner
from regiontalk.errors import ModelError, RegionTalkError, one_line
from regiontalk.model import Model
from regiontalk.models.loading import load

ADDRESS = re.compile(r"(?P<source>.+\.py|[A-Za-z_][\w.]*):(?P<called>[A-Za-z_]\w*)(:(?P<rest>.*))?")
OURS = {"florence": "regiontalk.captioners.florence:Florence"}
"""Short names: `florence:FOLDER`."""


@dataclass(frozen=True)
class CaptionerAddress:
    """Where the class of a captioner is."""

    source: str
    """A module, or a file ending in .py."""
    called: str
    argument: str | None = None

    def __str__(self) -> str:
        rest = "" if self.argument is None else f":{self.argument}"
        return f"{self.source}:{self.called}{rest}"

    @property
    def fingerprint(self) -> str:
        """Changes with the address, and with the file that it names."""
        digest = hashlib.sha256(str(self).encode())
        if Path(self.source).is_file():
            digest.update(Path(self.source).read_bytes())
        return digest.hexdigest()


def address_of(text: str) -> CaptionerAddress | None:
    """The address that a text is; None if it is none, or the path of a file or folder."""
    short, colon, argument = text.partition(":")
    if short in OURS:
        text = f"{OURS[short]}{colon}{argument}"
    match = ADDRESS.fullmatch(text)
    if match is None or Path(text).exists():
        return None
    return CaptionerAddress(match["source"], match["called"], match["rest"])


def load_any(
    place: str | Path | CaptionerAddress | None,
    *,
    lazily: bool = False,
    words_book: str | Path | bool = True,
) -> Model:
    """Like `regiontalk.load`, for a model folder or the address of a captioner."""
    if isinstance(place, CaptionerAddress):
        return load(captioner=load_captioner(place), words_book=words_book)
    return load(place, lazily=lazily, words_book=words_book)


def load_captioner(address: CaptionerAddress) -> Captioner:
    """Imports the class and makes a captioner of it."""
    try:
        kind = getattr(_module(address.source), address.called)
        captioner = kind() if address.argument is None else kind(address.argument)
    except (RegionTalkError, MemoryError):
        raise
    except (Exception, SystemExit) as error:  # some models read the command line
        reason = one_line(f"{type(error).__name__}: {error}")
        raise ModelError(f"{address}: cannot be loaded: {reason}") from error
    _check(address, captioner)
    return captioner  # type: ignore[no-any-return]  # checked


def _module(source: str) -> ModuleType:
    if not source.endswith(".py"):
        return importlib.import_module(source)
    path = Path(source).expanduser().resolve()
    if not path.is_file():
        raise ModelError(f"{source}: no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module  # dataclasses look their own module up
    try:
        spec.loader.exec_module(module)
    finally:
        if before is not None:
            sys.modules[path.stem] = before
    return module


def _check(address: CaptionerAddress, captioner: Any) -> None:
    name = getattr(captioner, "name", None)
    if not isinstance(name, str) or not name.strip() or one_line(name) != name:
        raise ModelError(f"{address}: no captioner: it has no attribute `name` with its name")
    if not callable(getattr(captioner, "regions", None)):
        raise ModelError(f"{address}: no captioner: it has no method `regions(photo)`")
