"""Options that several verbs share, and loading the model that they name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

import click
from click.shell_completion import CompletionItem

import regiontalk
from regiontalk.captioners.loading import CaptionerAddress, address_of, load_any
from regiontalk.cli import console
from regiontalk.errors import InputError, UsageError, need
from regiontalk.images.limits import MOST_MEGAPIXELS, Limits
from regiontalk.io.files import data_folder
from regiontalk.models import loading, packaged
from regiontalk.models.providers import CPU, PROVIDERS

if TYPE_CHECKING:
    from regiontalk.model import Model

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

PLACE = click.Path(path_type=Path)


class ModelPath(click.Path):
    """A model folder or a run; `embedded` and `fast` are the package's own.

    `captioners`: also the address of another program's model (docs/another-model.md).
    """

    def __init__(self, captioners: bool = False) -> None:
        super().__init__(path_type=Path)
        self._captioners = captioners

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> Any:
        if self._captioners:
            address = address_of(value) if isinstance(value, str) else value
            if isinstance(address, CaptionerAddress):
                return address
        return super().convert(packaged.place_of(value), parameter, context)

    def shell_complete(
        self, _context: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> list[Any]:
        names = [
            name for name in packaged.own_models() if incomplete and name.startswith(incomplete)
        ]
        return [*map(CompletionItem, names), CompletionItem(incomplete, type="dir")]


MODEL = ModelPath()
ANY_MODEL = ModelPath(captioners=True)
Place = Path | CaptionerAddress
FILE = click.Path(dir_okay=False, path_type=Path)


def with_options(*options: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    """Several options as one, in the order of the help."""

    def decorate(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


class Number(click.FloatRange):
    """Click's own ranges let nan through."""

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> Any:
        number = super().convert(value, parameter, context)
        return (
            number
            if math.isfinite(number)
            else self.fail(f"{number} is not a valid number", parameter, context)
        )


def probability_option(
    name: str, help: str, default: float | None = None
) -> Callable[[Decorated], Decorated]:
    """An option that takes a number from 0 to 1."""
    return click.option(
        name, type=Number(0, 1), default=default, show_default=default is not None, help=help
    )


def completes(kind: str) -> Callable[..., list[CompletionItem]]:
    """Makes the shell complete an argument as a path: `file` or `dir`. click does so by itself for
    its own paths."""
    return lambda _context, _parameter, incomplete: [CompletionItem(incomplete, type=kind)]


quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="Show no messages and no progress bar."
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")

workers_option = click.option(
    "-j",
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="How many photos to work on at a time.",
)

model_option = click.option(
    "--model",
    type=MODEL,
    metavar="DIR|fast",
    help="A model folder, or a training run; fast: the package's fast model; default: its strong "
    "one.",
)

any_model_option = click.option(
    "--model",
    type=ANY_MODEL,
    metavar="DIR|fast|FILE.py:CLASS",
    help="A model folder, a training run, or another model (docs/another-model.md); fast: the "
    "package's fast model; default: its strong one.",
)


class WordsBook(click.Path):
    """The file of a word book; `none`: without taught words."""

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> Any:
        return False if value in (False, NO_BOOK) else super().convert(value, parameter, context)


NO_BOOK = "none"
Book = Path | bool
"""A word book's file; True: the user's own, if there is one; False: no taught words."""

words_book_option = click.option(
    "--words-book",
    type=WordsBook(dir_okay=False, path_type=Path),
    metavar="FILE|none",
    help="The word book with taught words (regiontalk teach). Default: your own; none: without.",
)


def book_state(book: Book | None) -> list[list[Any]]:
    """Changes when words are taught or forgotten."""
    if book is False:
        return []
    paths = data_folder().glob("words-*.npz") if book is None or book is True else [book]
    files = [path for path in paths if path.is_file()]
    return [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in sorted(files)]


heads_option = click.option(
    "--head",
    "heads",
    type=PLACE,
    multiple=True,
    metavar="RUN",
    help="A training run of a head, used instead of the model's own head. Can be repeated. Needs "
    "torch.",
)

AUTO = "auto"
CUDA = "cuda"

device_option = click.option(
    "--device",
    type=click.Choice([AUTO, CPU, *PROVIDERS]),
    default=AUTO,
    show_default=True,
    help="auto: a model folder runs on the CPU, a training run on the GPU if there is one. cuda "
    "runs in torch. openvino, coreml, directml: ONNX Runtime's providers; what is missing, the "
    "CPU does.",
)

LOCAL = "local"
RAY = "ray"

cluster_options = with_options(
    click.option(
        "--engine",
        type=click.Choice([LOCAL, RAY]),
        default=LOCAL,
        show_default=True,
        help="ray: use -j processes of a Ray cluster, on one machine or many (docs/scale.md).",
    ),
    click.option(
        "--address",
        metavar="HOST:PORT",
        help="The Ray cluster to use, or auto. Default: start one on this machine.",
    ),
)


def check_engine(engine: str, address: str | None) -> None:
    if engine == RAY:
        need("cluster", "--engine ray", RAY, "pyarrow")
    elif address is not None:
        raise UsageError("--address needs --engine ray", hint="--engine ray")


def check_folder(folder: Path) -> None:
    if not folder.is_dir():
        problem = "not a folder" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {problem}", hint="a folder with photos")


max_megapixels_option = click.option(
    "--max-megapixels",
    type=Number(0, MOST_MEGAPIXELS, min_open=True),
    default=Limits().megapixels,
    show_default=True,
    help="Reject photos with more megapixels.",
)


place_weight_option = click.option(
    "--place-weight",
    type=Number(min=0),
    default=0.0,
    show_default=True,
    help="How much words prefer regions with a high score: the weight of the logarithm of the "
    "score.",
)


def is_run(place: Place) -> TypeGuard[Path]:
    """Whether it is a run's folder or a checkpoint of this package."""
    return isinstance(place, Path) and loading.is_run(place)


def checkpoint_of(run: Path) -> Path:
    """The checkpoint that a run is used with."""
    need("train", "running a checkpoint", "torch", "safetensors")
    from regiontalk.lab.training.checkpoints import find_checkpoint

    return find_checkpoint(run)


def model_place(model: Place) -> Place:
    """What to record for a model or run: its folder, its checkpoint, or its address."""
    return checkpoint_of(model) if is_run(model) else model


def device_name(place: Place, device: str) -> str | None:
    """The GPU that a model or run is run on; None: the CPU."""
    if device != CUDA and not (device == AUTO and is_run(place)):
        return None
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def load_model(
    place: Place | None,
    device: str,
    megapixels: float = Limits().megapixels,
    heads: tuple[Path, ...] = (),
    lazily: bool = False,
    words_book: Book | None = False,
) -> Model:
    """The model of `regiontalk.load`. `words_book`: None is the user's own, for runs none."""
    book = True if words_book is None else words_book
    if isinstance(place, CaptionerAddress):
        if device != AUTO or heads:
            option = "head" if heads else "device"
            raise UsageError(f"--{option} is for models of this package, not for {place}")
        return replace(load_any(place, words_book=book), limits=Limits(megapixels=megapixels))
    model = regiontalk.load(
        place,
        device=device,
        heads=heads,
        lazily=lazily,
        words_book=book,
        tell=console.message,
    )
    return replace(model, limits=Limits(megapixels=megapixels))
