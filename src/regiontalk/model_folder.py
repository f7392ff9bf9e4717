"""A model folder: graphs, words, `model.json` and `SHA256SUMS`, read whole and checked before anything runs.

propose.onnx recognize.onnx step.onnx    the network's stages (see `runtime`)
vocabulary.json                          words, cleaning and styles
model.json                               `ModelInfo`
SHA256SUMS                               of all of these, as `sha256sum` writes them
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from regiontalk.errors import ModelError, UsageError
from regiontalk.vocabulary import Vocabulary

FORMAT = 1
GRAPHS = ("propose", "recognize", "step")
SCORES = ("final", "product")
PRECISIONS = ("float32", "float16", "int8-stored", "int8")
SUMS, INFO, WORDS = "SHA256SUMS", "model.json", "vocabulary.json"

_AGAIN = "get the folder again, or write it again with regiontalk export"
_Plain = TypeVar("_Plain")


@dataclass(frozen=True)
class PredictionConfig:
    """How regions are chosen in use; to be chosen on dev. The defaults are the paper's and the release's."""

    proposals: int = 300
    candidates: int = 6000
    """So many of the best proposals go into suppression."""
    proposal_nms: float = 0.7
    final_nms: float = 0.3
    longest: int = 15
    """Words in a caption, at most."""
    score: str = "final"
    """`final`: the recognition network's score. `product`: times the proposal's."""
    caption_weight: float = 0.0
    """The score is multiplied with exp(this · mean log-probability of the caption's words)."""


@dataclass(frozen=True)
class ModelInfo:
    """What a model says of itself; `model.json`."""

    name: str
    kind: str
    """`fcln` is the only one so far."""
    precision: str
    """How the weights are stored; see `training.export`."""
    input_size: int
    """The photo's long side in pixels."""
    pad_to: int
    """Both sides of the input are multiples of this."""
    prediction: PredictionConfig
    net: dict[str, Any]
    """The network's configuration as in a recipe, for training to go on from these weights."""
    training: dict[str, Any] = field(default_factory=dict)
    """What is known of how it was trained."""
    format: int = FORMAT


@dataclass(frozen=True)
class ModelFolder:
    path: Path
    info: ModelInfo
    words: Vocabulary
    graphs: Mapping[str, bytes] = field(repr=False)


def read_model_folder(path: Path) -> ModelFolder:
    """Everything in the folder, its sums checked on the very bytes that are returned."""
    files = _read_checked(path)
    info = _read_info(path / INFO, files[INFO])
    wanted = {INFO, WORDS, *(f"{name}.onnx" for name in GRAPHS)}
    if set(files) != wanted:
        wrong = sorted(set(files) ^ wanted)[0]
        raise ModelError(f"{path}: {wrong}: {'missing' if wrong in wanted else 'not part of a model'}", hint=_AGAIN)
    try:
        words = Vocabulary.from_dict(json.loads(files[WORDS]))
    except ValueError as error:
        raise ModelError(f"{path / WORDS}: not a vocabulary: {error}") from error
    return ModelFolder(path, info, words, {name: files[f"{name}.onnx"] for name in GRAPHS})


def write_model_folder(path: Path, info: ModelInfo, words: Vocabulary, graphs: Mapping[str, bytes]) -> None:
    """Writes the folder beside its place and renames it into it, so that nobody meets half of one."""
    check_free(path)
    files = {f"{name}.onnx": graph for name, graph in graphs.items()}
    files[INFO] = _encode(asdict(info))
    files[WORDS] = _encode(words.to_dict())
    files[SUMS] = "".join(f"{_digest(files[name])}  {name}\n" for name in sorted(files)).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            partial.chmod(0o755)  # mkdtemp makes it the owner's alone
            for name, data in files.items():
                _write(partial / name, data)
            partial.rename(path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise ModelError(f"{path}: the model could not be written: {error.strerror or error}") from error


def check_free(path: Path) -> None:
    """A model folder is never written over."""
    if path.exists():
        raise UsageError(f"{path}: is there already", hint="give another name, or delete it first")


def _read_checked(path: Path) -> dict[str, bytes]:
    """The bytes of every file that SHA256SUMS names; a wrong sum, a missing or an extra file is an error."""
    if not path.is_dir():
        raise ModelError(f"{path}: no such model folder", hint="regiontalk export makes one from a checkpoint")
    sums = _read_sums(path / SUMS)
    extra = sorted(
        item.name for item in path.iterdir() if item.name not in sums and item.name != SUMS and item.name[0] != "."
    )
    if extra:
        raise ModelError(f"{path / extra[0]}: not named in {SUMS}", hint=_AGAIN)
    files = {name: _read(path / name) for name in sums}
    for name, data in files.items():
        if _digest(data) != sums[name]:
            raise ModelError(f"{path / name}: damaged, or of another model (its SHA-256 is wrong)", hint=_AGAIN)
    if INFO not in files:
        raise ModelError(f"{path / SUMS}: does not name {INFO}", hint=_AGAIN)
    return files


def _read_sums(path: Path) -> dict[str, str]:
    """File name -> SHA-256, from lines of `digest  name`."""
    sums: dict[str, str] = {}
    for number, line in enumerate(_read(path).decode("utf-8", "replace").splitlines(), start=1):
        digest, _, name = line.partition("  ")
        if len(digest) != 64 or not name or name != os.path.basename(name) or name in sums:  # noqa: PTH119
            raise ModelError(f"{path}, line {number}: not a SHA-256 and a file name", hint=_AGAIN)
        sums[name] = digest
    return sums


def _read_info(path: Path, data: bytes) -> ModelInfo:
    try:
        values = json.loads(data)
    except ValueError as error:
        raise ModelError(f"{path}: not JSON: {error}", hint=_AGAIN) from error
    if not isinstance(values, dict):
        raise ModelError(f"{path}: not a JSON object", hint=_AGAIN)
    written = values.get("format")
    if isinstance(written, int) and written > FORMAT:
        raise ModelError(
            f"{path}: format {written}, this program reads {FORMAT}", hint="pip install --upgrade regiontalk"
        )
    settings = values.get("prediction")
    if isinstance(settings, dict):
        values["prediction"] = _strictly(PredictionConfig, settings, f"{path}: prediction")
    info = _strictly(ModelInfo, values, str(path))
    if info.format != FORMAT or info.kind != "fcln":
        raise ModelError(f"{path}: a model of format {info.format} and kind {info.kind!r}, not {FORMAT} and 'fcln'")
    if info.prediction.score not in SCORES or min(info.input_size, info.pad_to, info.prediction.longest) < 1:
        raise ModelError(f"{path}: impossible settings", hint=_AGAIN)
    return info


def _strictly(kind: type[_Plain], values: Mapping[str, Any], place: str) -> _Plain:
    """A dataclass of plain fields from JSON: every key known and there, every value of its type."""
    types = {"int": int, "float": float, "str": str, "PredictionConfig": PredictionConfig}
    names = {item.name: item for item in fields(kind)}  # type: ignore[arg-type]
    for key in values:
        if key not in names:
            raise ModelError(f"{place}: unknown key {key!r}", hint="it may need a newer regiontalk")
    for name, item in names.items():
        if name not in values:
            raise ModelError(f"{place}: {name!r} is missing", hint=_AGAIN)
        wanted = types.get(str(item.type), dict)
        if type(values[name]) is not wanted:
            raise ModelError(f"{place}: {name} is {values[name]!r}, not of type {wanted.__name__}", hint=_AGAIN)
    return kind(**values)


def _encode(value: object) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}", hint=_AGAIN) from error


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
