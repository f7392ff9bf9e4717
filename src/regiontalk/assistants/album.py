"""What assistants may do with photos: only with those in given folders, and without changing
anything."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from regiontalk.errors import IndexProblem, InputError, UsageError
from regiontalk.images.moments import file_of, in_file
from regiontalk.images.paths import SUFFIXES, find_photos
from regiontalk.images.photo import encode
from regiontalk.model import Model
from regiontalk.results import Hit, Picture
from regiontalk.search.index import Index

MAX_TEXT = 1000  # characters of a phrase or sentence
MAX_HITS = 50
MAX_LISTED = 200
SHOWN_SIDE = 1024  # pixels of the long side of a picture that is shown

Drawing = Literal["captions", "phrase", "sentence"]


@dataclass(frozen=True)
class Album:
    """Folders of photos, and the model that looks at them. One task runs at a time."""

    folders: tuple[Path, ...]
    load: Callable[[], Model]
    """The model is loaded when it is first needed."""
    _models: list[Model] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @classmethod
    def of(cls, folders: Sequence[Path], load: Callable[[], Model]) -> Album:
        return cls(tuple(folder.expanduser().resolve() for folder in folders), load)

    @property
    def model(self) -> Model:
        with self._lock:
            if not self._models:
                self._models.append(self.load())
            return self._models[0]

    def path(self, text: str) -> Path:
        """The photo that a path names, absolute or relative to one of the folders. What is outside
        of them, also behind links, does not exist for assistants."""
        for folder in self.folders:
            try:
                file = (folder / Path(file_of(text))).resolve()
                if file.is_relative_to(folder) and file.is_file():
                    return Path(in_file(text, str(file)))
            except (OSError, ValueError):  # too long, or with NUL
                continue
        folders = ", ".join(str(folder) for folder in self.folders)
        raise InputError(f"{text[:200]!r}: no such photo in {folders}", hint="list_photos")

    def list_photos(self, containing: str = "", skip: int = 0) -> dict[str, Any]:
        if skip < 0:
            raise UsageError("skip must be 0 or more")
        paths = []
        for folder in self.folders:
            photos = find_photos([str(folder)], suffixes=SUFFIXES, inside=folder)
            paths += [path for path in photos.paths if containing.lower() in path.lower()]
        return {"count": len(paths), "photos": paths[skip : skip + MAX_LISTED]}

    def search(self, phrase: str, top: int = 10) -> dict[str, Any]:
        """The best photos of all folders that have an index."""
        _check_text(phrase)
        if not 1 <= top <= MAX_HITS:
            raise UsageError(f"top must be between 1 and {MAX_HITS}")
        hits: list[Hit] = []
        notes: list[str] = []
        problems: list[IndexProblem] = []
        with self._lock:
            for folder in self.folders:
                index, below = Index.around(folder, model=self.model)
                try:
                    answer = index.search(phrase, top=top, folder=below)
                except IndexProblem as problem:
                    problems.append(problem)
                    continue
                finally:
                    index.close()
                hits += answer
                notes += answer.notes
        if len(problems) == len(self.folders):
            raise problems[0]
        notes += [problem.message for problem in problems]
        hits.sort(key=lambda hit: (-hit.likely, -hit.score, hit.path))
        return {"hits": [hit.to_dict() for hit in hits[:top]], "notes": list(dict.fromkeys(notes))}

    def caption(self, path: str) -> dict[str, Any]:
        """The regions that are shown by default."""
        with self._lock:
            regions = self.model(str(self.path(path)))
        answer = regions.to_dict()
        answer["regions"] = [region for region in answer["regions"] if region["shown"]]
        return answer

    def describe(self, path: str) -> dict[str, Any]:
        with self._lock:
            return self.model.describe(str(self.path(path))).to_dict()

    def find(self, path: str, phrase: str) -> dict[str, Any]:
        _check_text(phrase)
        with self._lock:
            return self.model.find(str(self.path(path)), phrase).to_dict()

    def align(self, path: str, sentence: str) -> dict[str, Any]:
        _check_text(sentence)
        with self._lock:
            return self.model.align(str(self.path(path)), sentence).to_dict()

    def show(self, path: str, draw: Drawing = "captions", text: str = "") -> bytes:
        """A JPEG of the photo with boxes: of its captions, of where a phrase is, or of the words
        of a sentence."""
        with self._lock:
            picture = self._picture(str(self.path(path)), draw, text).draw()
        picture.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
        return encode(picture, "JPEG", quality=85)

    def _picture(self, path: str, draw: Drawing, text: str) -> Picture:
        if draw == "captions":
            return self.model(path)
        _check_text(text)
        return self.model.find(path, text) if draw == "phrase" else self.model.align(path, text)


def _check_text(text: str) -> None:
    if len(text) > MAX_TEXT:
        raise UsageError(f"a text of {len(text)} characters; the limit is {MAX_TEXT}")
