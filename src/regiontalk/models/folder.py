"""A model folder: graphs, words, `model.json` and `SHA256SUMS`, read completely and checked before
anything runs.

propose.onnx, recognize.onnx,            the detector's graphs (`DETECTOR`)
step.onnx, appear.onnx
vocabulary.json                          words, cleaning and styles
model.json                               `ModelInfo`
HEAD_vocabulary.json, its graphs         of each head in model.json (`HEADS`)
names.npz                                what it can call things (`name_table`); may be missing
background.npz                           what taught words must differ from; may be missing
SHA256SUMS                               of all of these, as `sha256sum` writes them

Files that two models share are stored once: SHA256SUMS may refer to a file in a folder next to this
one (`../weights/step.onnx`).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from regiontalk.errors import DataError, ModelError, UsageError, check_range
from regiontalk.io.files import LONGEST_LINE, json_file, new_folder, parse_object, read_file
from regiontalk.io.typed import to_dataclass
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.models.name_table import NameTable, read_name_table
from regiontalk.models.settings import (
    AlignmentPredictionConfig,
    HeadSettings,
    PredictionConfig,
    SentencePredictionConfig,
)
from regiontalk.models.terms import Terms

FORMAT = 2


class Graph(NamedTuple):
    """The names of a graph's inputs and outputs, in order. `runtime` has their meaning and
    shapes."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


DETECTOR = {
    "propose": Graph(("image", "size"), ("features", "deep", "boxes_xyxy", "logits")),
    "recognize": Graph(
        ("features", "size", "boxes_xyxy"), ("refined_xyxy", "logits", "codes", "h", "c", "seen")
    ),
    "step": Graph(("tokens", "h", "c", "seen"), ("logprobs", "next_h", "next_c")),
    "appear": Graph(("deep", "boxes_xyxy"), ("appearance",)),
}
HEADS = {
    "words": {
        "vectors": Graph(("codes",), ("vectors",)),
        "words": Graph(("tokens", "mask"), ("vectors",)),
    },
    "sentence": {
        "sentence_begin": Graph(
            ("views", "regions", "places"), ("h", "c", "bias", "memory", "absent")
        ),
        "sentence_step": Graph(
            ("tokens", "h", "c", "bias", "memory", "absent"),
            ("logprobs", "next_h", "next_c", "next_bias"),
        ),
    },
}
"""Heads, which read region codes: `words` aligns sentences with regions, `sentence` describes
photos."""
GRAPHS = DETECTOR | HEADS["words"] | HEADS["sentence"]
"""Every graph there is."""
PRECISIONS = ("float32", "float16", "int8-stored", "int8")
SUMS = "SHA256SUMS"
INFO = "model.json"
WORDS = "vocabulary.json"
NAMES = "names.npz"
COLOURS = "colours.npz"
BACKGROUND = "background.npz"
MAY_BE_MISSING = frozenset({NAMES, COLOURS, BACKGROUND})
RUN_FILES = (
    "run.json",
    "test-looks.jsonl",
)  # how the model was made and how often measured on test: see `lab.runs`
LARGEST_SIDE = 10_000  # in pixels, of a network's input
LARGEST_GRAPH = (1 << 31) - 1  # bytes: ONNX allows no more

# The entry that names a tensor's file, `key: "location"`. The word is looked for first, because
# that is quick; tag and length stand before it, in any encoding that protobuf allows.
_LOCATION = re.compile(rb"location")
_TAG_AND_LENGTH = re.compile(rb"(?:\x0a|\x8a\x80*\x00)(?:\x08|\x88\x80*\x00)\Z")
_LONGEST_TAG_AND_LENGTH = 20  # bytes: two numbers of protobuf
_SHARED = re.compile(r"\.\./[\w-]+/(?P<name>[^/]+)")
_AGAIN = "get the folder again, or write it again with regiontalk export"


@dataclass(frozen=True)
class ModelInfo:
    """The description of a model; `model.json`."""

    name: str
    kind: str
    """`fcln` is the only one so far."""
    precision: str
    """How the weights are stored; see `lab.export.detector`."""
    input_size: int
    """The photo's long side in pixels."""
    pad_to: int
    """Both sides of the input are multiples of this."""
    prediction: PredictionConfig
    net: dict[str, Any]
    """The network's configuration as in a recipe, so that training can start from these weights."""
    training: dict[str, Any] = field(default_factory=dict)
    """What is known of how it was trained."""
    heads: dict[str, Any] = field(default_factory=dict)
    """Name -> `HeadInfo` as a dictionary."""
    format: int = FORMAT
    terms: Terms | None = None
    """Licence and sources of the weights, if they are known."""

    def __post_init__(self) -> None:
        check_range(1, LARGEST_SIDE, input_size=self.input_size, pad_to=self.pad_to)


@dataclass(frozen=True)
class HeadInfo:
    """The description of a head."""

    detector: str
    """`detector_fingerprint` of the network whose codes it was trained on; it cannot read other
    codes."""
    settings: HeadSettings
    """How it is used, as chosen on dev."""
    net: dict[str, Any]
    """The net's configuration as in a recipe."""
    training: dict[str, Any]
    """What is known of how it was trained."""


@dataclass(frozen=True)
class AlignmentHeadInfo(HeadInfo):
    """The description of a head `words`."""

    settings: AlignmentPredictionConfig


@dataclass(frozen=True)
class SentenceHeadInfo(HeadInfo):
    """The description of a head `sentence`."""

    settings: SentencePredictionConfig


HEAD_INFOS: dict[str, type[HeadInfo]] = {"words": AlignmentHeadInfo, "sentence": SentenceHeadInfo}


@dataclass(frozen=True)
class Head:
    info: HeadInfo
    words: Vocabulary
    """The words that it knows; they may differ from those of the captions."""
    graphs: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True)
class ModelFolder:
    path: Path
    info: ModelInfo
    words: Vocabulary
    graphs: Mapping[str, bytes] = field(repr=False)
    detector: str
    """`detector_fingerprint` of the graphs."""
    heads: Mapping[str, Head] = field(default_factory=dict)
    names: NameTable | None = None
    colours: NameTable | None = None
    """Tells which colours a region has; read by `inference.colours`."""
    background: bytes | None = field(default=None, repr=False)
    """What taught words are compared with; `background.read_background` reads it when there are
    some."""


def detector_fingerprint(graphs: Mapping[str, bytes]) -> str:
    """Identifies a source of region codes: a hash of the graphs that compute them."""
    return digest_of(
        "".join(digest_of(graphs[name]) for name in ("propose", "recognize", "appear")).encode()
    )


@contextmanager
def _reading() -> Iterator[None]:
    """What cannot be read, and a wrong value, are errors of the model."""
    try:
        yield
    except DataError as error:
        raise ModelError(error.message, hint=_AGAIN) from error


@_reading()
def read_model_folder(path: Path) -> ModelFolder:
    """Everything in the folder; the returned bytes are those whose checksums were verified."""
    files = _read_checked(path)
    place = str(path / INFO)
    info = to_dataclass(ModelInfo, _in_known_format(files[INFO], place), place)
    _check_kind(info, place)
    wanted = {INFO, WORDS, *(f"{name}.onnx" for name in DETECTOR)}
    for head in info.heads:
        wanted |= {_head_words(head), *(f"{name}.onnx" for name in HEADS[head])}
    if set(files) - MAY_BE_MISSING != wanted:
        wrong = sorted((set(files) - MAY_BE_MISSING) ^ wanted)[0]
        raise ModelError(
            f"{path}: {wrong}: {'missing' if wrong in wanted else 'not part of a model'}",
            hint=_AGAIN,
        )
    for name in files:
        if name.endswith(".onnx") and _has_external_data(files[name]):
            raise ModelError(
                f"{path / name}: has weights in another file (ONNX external data)", hint=_AGAIN
            )
    graphs = {name: files[f"{name}.onnx"] for name in DETECTOR}
    detector = detector_fingerprint(graphs)
    heads: dict[str, Head] = {}
    for name in info.heads:
        described = to_dataclass(HEAD_INFOS[name], info.heads[name], f"{place}: heads.{name}")
        head_words = _read_words(path / _head_words(name), files[_head_words(name)])
        head_graphs = {graph: files[f"{graph}.onnx"] for graph in HEADS[name]}
        heads[name] = Head(described, head_words, head_graphs)
        check_head(name, described, detector, str(path))
    names = _read_table(path / NAMES, files, detector)
    colours = _read_table(path / COLOURS, files, detector)
    words = _read_words(path / WORDS, files[WORDS])
    background = files.get(BACKGROUND)
    return ModelFolder(path, info, words, graphs, detector, heads, names, colours, background)


def _has_external_data(graph: bytes) -> bool:
    places = (match.start() for match in _LOCATION.finditer(graph))
    return any(
        _TAG_AND_LENGTH.search(graph, max(0, place - _LONGEST_TAG_AND_LENGTH), place)
        for place in places
    )


def check_head(name: str, head: HeadInfo, detector: str, place: str) -> None:
    """A head can only read the codes of the detector that it was trained on; `detector` is the
    fingerprint of the one at hand."""
    if head.detector != detector:
        raise ModelError(
            f"{place}: the head {name!r} was trained on the region codes of another detector",
            hint="compute codes with this one (regiontalk data codes) and train the head on them",
        )


def _read_table(path: Path, files: Mapping[str, bytes], detector: str) -> NameTable | None:
    """The names or colours of a model; None if it has none."""
    if path.name not in files:
        return None
    table = read_name_table(files[path.name], str(path))
    if table.detector != detector:
        raise ModelError(
            f"{path}: made for the region codes of another detector",
            hint=f"regiontalk fit --only {path.stem}",
        )
    return table


def _read_words(path: Path, data: bytes) -> Vocabulary:
    return Vocabulary.from_dict(parse_object(data, str(path)), str(path))


def _head_words(name: str) -> str:
    return f"{name}_vocabulary.json"


def write_model_folder(
    path: Path,
    info: ModelInfo,
    words: Vocabulary,
    graphs: Mapping[str, bytes],
    heads: Mapping[str, Head] | None = None,
    share: Path | None = None,
    names: NameTable | None = None,
    background: bytes | None = None,
    colours: NameTable | None = None,
) -> None:
    """Writes the folder atomically. Files that the model folder `share`, next to it, has too are
    only referred to in SHA256SUMS."""
    check_free(path)
    there = {} if share is None else _sums_beside(path, share)
    heads = heads or {}
    files = {f"{name}.onnx": graph for name, graph in graphs.items()}
    described = asdict(info) | {"heads": {name: asdict(head.info) for name, head in heads.items()}}
    if not heads:
        del described["heads"]  # so that programs from before there were heads can read it
    if info.terms is None:
        del described["terms"]  # the same
    for part in ("ranking", "confidence", "find", "find_indexed"):
        if described["prediction"][part] is None:
            del described["prediction"][part]  # the same
    files[INFO] = json_file(described)
    files[WORDS] = json_file(words.to_dict())
    for name, head in heads.items():
        files |= {f"{graph}.onnx": data for graph, data in head.graphs.items()}
        files[_head_words(name)] = json_file(head.words.to_dict())
    if names is not None:
        files[NAMES] = names.to_bytes()
    if colours is not None:
        files[COLOURS] = colours.to_bytes()
    if background is not None:
        files[BACKGROUND] = background
    digests = {name: digest_of(files[name]) for name in sorted(files)}
    shared = {
        name: there[name] for name in files if name in there and there[name].digest == digests[name]
    }
    files = {name: data for name, data in files.items() if name not in shared}
    places = {name: shared[name].place if name in shared else name for name in digests}
    files[SUMS] = sums_file({places[name]: digest for name, digest in digests.items()})
    write_files(path, files)


def sums_file(digests: Mapping[str, str]) -> bytes:
    """SHA256SUMS: place of a file -> digest."""
    return "".join(f"{digest}  {place}\n" for place, digest in digests.items()).encode()


def write_files(path: Path, files: Mapping[str, bytes]) -> None:
    """Writes a new folder, whole or not at all."""
    with new_folder(path) as partial:
        for name, data in files.items():
            (partial / name).write_bytes(data)


@_reading()
def _sums_beside(path: Path, share: Path) -> dict[str, _Sum]:
    if share.resolve().parent != path.resolve().parent or not _SHARED.fullmatch(
        f"../{share.name}/x"
    ):
        raise UsageError(f"{share}: must be in the same folder as {path}")
    shared = {
        name: entry for name, entry in _read_sums(share / SUMS).items() if entry.place == name
    }
    return {name: _Sum(entry.digest, f"../{share.name}/{name}") for name, entry in shared.items()}


def check_free(path: Path) -> None:
    """A model folder is never overwritten."""
    if path.exists():
        raise UsageError(f"{path}: already exists", hint="give another name, or delete it first")


def _read_checked(path: Path) -> dict[str, bytes]:
    """The bytes of every file in SHA256SUMS; a wrong checksum, a missing or an extra file is an
    error."""
    if not any((path / name).exists() for name in (SUMS, INFO)):
        problem = "not a model folder" if path.exists() else "no such model folder"
        raise ModelError(f"{path}: {problem}", hint="regiontalk export makes one from a checkpoint")
    sums = _read_sums(path / SUMS)
    known = {SUMS, *(name for name, entry in sums.items() if entry.place == name), *RUN_FILES}
    extra = sorted(
        item.name for item in path.iterdir() if item.name not in known and item.name[0] != "."
    )
    if extra:
        raise ModelError(f"{path / extra[0]}: not named in {SUMS}", hint=_AGAIN)
    files = {name: read_file(path / entry.place, LARGEST_GRAPH) for name, entry in sums.items()}
    for name, data in files.items():
        if digest_of(data) != sums[name].digest:
            place = path / sums[name].place
            raise ModelError(
                f"{place}: damaged, or of another model (its SHA-256 is wrong)", hint=_AGAIN
            )
    if INFO not in files:
        raise ModelError(f"{path / SUMS}: does not name {INFO}", hint=_AGAIN)
    return files


class _Sum(NamedTuple):
    digest: str
    place: str
    """The file's name, or `../FOLDER/NAME`."""


def _read_sums(path: Path) -> dict[str, _Sum]:
    """File name -> its SHA-256 and its path, from lines of `digest  path`."""
    sums: dict[str, _Sum] = {}
    for number, line in enumerate(
        read_file(path, LONGEST_LINE).decode("utf-8", "replace").splitlines(), start=1
    ):
        digest, _, place = line.partition("  ")
        shared = _SHARED.fullmatch(place)
        name = shared["name"] if shared else place
        is_file_name = bool(name) and name == os.path.basename(name)  # noqa: PTH119
        if len(digest) != 64 or not is_file_name or name in sums:
            raise ModelError(f"{path}, line {number}: not a SHA-256 and a file name", hint=_AGAIN)
        sums[name] = _Sum(digest, place)
    return sums


def _in_known_format(data: bytes, place: str) -> dict[str, Any]:
    """The values of a `ModelInfo`; a newer format is told before its unknown keys are."""
    values = parse_object(data, place)
    written = values.get("format")
    if isinstance(written, int) and written > FORMAT:
        raise ModelError(
            f"{place}: format {written}, this program reads {FORMAT}",
            hint="pip install --upgrade regiontalk",
        )
    return values


def _check_kind(info: ModelInfo, place: str) -> None:
    if info.format != FORMAT or info.kind != "fcln":
        raise ModelError(
            f"{place}: a model of format {info.format} and kind {info.kind!r}, not {FORMAT} and "
            "'fcln'",
            hint="regiontalk export makes it again from its checkpoint",
        )
    for name in info.heads:
        if name not in HEADS:
            raise ModelError(
                f"{place}: unknown head {name!r}", hint="it may need a newer regiontalk"
            )


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
