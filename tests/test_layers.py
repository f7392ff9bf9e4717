"""The layers of the package: a module imports its own layer and those below it, imports inside
functions included.

A test of our own and not import-linter's contracts: those look for cycles between whole packages,
and here two rooms of a layer may use each other's modules as long as no module imports itself in a
circle (`lab.export` reads a checkpoint, and `lab.training` reads a model folder).
"""

from __future__ import annotations

import ast
import graphlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
TESTS = Path(__file__).parent
PACKAGE = "regiontalk"

# From the ground up. A module belongs to the longest name that it starts with; "" is the package's
# own `__init__`.
LAYERS = (
    ("errors", "boxes", "io", "language"),
    ("images", "results", "show"),  # a result draws itself
    ("models",),
    ("inference",),
    ("", "model", "captioners", "search"),
    ("lab",),
    ("serve", "assistants"),
    ("cli", "__main__"),
)
# What loads a model needs what it loads: `load` the class that it returns, the torch runtime the
# nets that it runs.
UPWARDS = {
    "models.loading": ("model", "captioners", "inference.teaching", "lab.training"),
    "models.torch_runtime": ("lab.nets",),
    "models.torch_loading": ("lab.nets", "lab.training", "lab.export"),
}
# Rooms that need torch, and the verbs that may import them; all other verbs run without torch.
# `models.loading` and `cli.options` are shared by both: they import torch once a run or CUDA is
# asked for.
TORCH = ("lab.nets", "lab.training", "lab.export", "models.torch_runtime", "models.torch_loading")
WITH_TORCH = (
    "models.loading",
    *(*TORCH, "lab.baselines", "cli.train", "cli.export", "cli.predict", "cli.baseline"),
    *("cli.evaluate.model", "cli.data.inputs", "cli.options", "cli.teach"),
)
# Third-party package -> the rooms and modules that may import it.
LIBRARIES = {
    "torch": (*TORCH, "cli.doctor", "cli.options", "captioners.florence"),
    "transformers": ("captioners.florence",),
    "safetensors": TORCH,
    "onnx": TORCH,
    "cv2": ("lab.data.edge_boxes",),
    "onnxruntime": ("models", "cli.doctor"),
    "starlette": ("serve",),
    "uvicorn": ("serve",),
    "mcp": ("assistants",),
    "av": ("images.video",),
    "ray": ("lab.cluster",),
    "pyarrow": ("lab.cluster",),
    "psycopg": ("search.postgres",),
    "pgvector": ("search.postgres",),
    "click": ("cli",),
    "rich": ("cli",),
}
# Tests that are about more than one module.
ELSEWHERE = ("attacks", "docs", "end_to_end", "gradients", "parity")
ABOUT_MORE = ("test_layers", "test_readme", "test_model_codes", "test_data_sets_page", "test_data")


def module_files() -> dict[str, Path]:
    """Module, without the package's name ("" is the package itself) -> file."""
    files = {}
    for path in (SOURCE / PACKAGE).rglob("*.py"):
        parts = path.relative_to(SOURCE / PACKAGE).with_suffix("").parts
        files[".".join(part for part in parts if part != "__init__")] = path
    return files


FILES = module_files()


def imports(path: Path) -> set[str]:
    """What a file imports, anywhere in it: our modules without the package's name, others' packages
    by theirs, nothing of the standard library."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: write imports out"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {
        _module(name) for name in names if name.partition(".")[0] not in sys.stdlib_module_names
    }


def _module(name: str) -> str:
    first, _, rest = name.partition(".")
    if first != PACKAGE:
        return first
    while rest and rest not in FILES:  # a name in a module
        rest = rest.rpartition(".")[0]
    return rest


IMPORTS = {module: imports(path) for module, path in FILES.items()}
OURS = [(module, name) for module, names in IMPORTS.items() for name in names if name in FILES]


def is_in(module: str, rooms: tuple[str, ...]) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


def layer_of(module: str) -> int:
    names = {name: height for height, layer in enumerate(LAYERS) for name in layer}
    while module not in names:
        assert module, "every room is in a layer"
        module = module.rpartition(".")[0]
    return names[module]


def test_imports_go_down() -> None:
    upwards = {
        f"{module} -> {name}"
        for module, name in OURS
        if layer_of(name) > layer_of(module) and not is_in(name, UPWARDS.get(module, ()))
    }
    assert not upwards


def test_every_room_is_in_a_layer() -> None:
    rooms = {module.split(".")[0] for module in FILES}
    assert rooms == {name.split(".")[0] for layer in LAYERS for name in layer}
    assert all(
        name in FILES
        for name in (*(name for layer in LAYERS for name in layer), *UPWARDS, *WITH_TORCH)
    )


def test_people_with_photos_need_no_torch() -> None:
    assert not {
        f"{module} -> {name}"
        for module, name in OURS
        if is_in(name, TORCH) and not is_in(module, WITH_TORCH)
    }


def test_people_with_photos_need_no_lab(examples: Path, tmp_path: Path) -> None:
    """In a process of its own; this one has imported the lab."""
    shutil.copy(examples / "photos" / "coffee.jpg", tmp_path)
    photo = str(tmp_path / "coffee.jpg")
    verbs = [
        ["caption", photo, "-o", str(tmp_path / "page.html")],
        *(["describe", photo], ["align", photo, "a cup"], ["find", "a cup", photo]),
        *(["index", str(tmp_path)], ["search", "a cup", str(tmp_path)], ["doctor"]),
    ]
    code = (
        "import json, sys; from regiontalk.cli.main import run\n"
        "codes = [run(verb) for verb in json.loads(sys.argv[1])]\n"
        "print(codes, [name for name in sys.modules if name.startswith('regiontalk.lab')])"
    )
    command = [sys.executable, "-c", code, json.dumps(verbs)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1] == f"{[0] * len(verbs)} []"


def test_every_library_has_its_rooms() -> None:
    strays = {
        f"{module} -> {name}"
        for module, names in IMPORTS.items()
        for name in names
        if name in LIBRARIES and not is_in(module, LIBRARIES[name])
    }
    assert not strays


def test_inference_is_numpy_without_files() -> None:
    imported = {
        name for module, names in IMPORTS.items() if is_in(module, ("inference",)) for name in names
    }
    assert imported - set(FILES) == {"numpy"}
    assert not imported & {"io.files", "images.photo"}


def test_no_import_is_circular() -> None:
    graph = {
        module: {name for name in names if name in FILES} - {module}
        for module, names in IMPORTS.items()
    }
    graphlib.TopologicalSorter(graph).prepare()


def test_the_tests_mirror_the_modules() -> None:
    """The test of `lab/data/records.py` is `tests/lab/data/test_records.py`."""
    for path in TESTS.rglob("test_*.py"):
        room = path.parent.relative_to(TESTS).parts
        if (
            (room and room[0] in ELSEWHERE)
            or path.stem in ABOUT_MORE
            or path.stem.endswith("_in_chromium")
        ):
            continue
        assert ".".join((*room, path.stem.removeprefix("test_"))) in FILES, path
