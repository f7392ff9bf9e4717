"""The layers of the package: which room may import which, imports inside functions included.

A test of our own and not import-linter's contracts: those look for cycles between packages as wholes, and here two
rooms may use each other's modules as long as no module needs itself (a checkpoint is read by `export`, and a model
folder is read back by `training`).
"""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
PACKAGE = "regiontalk"

# Room -> the rooms that it may import beside itself. A module belongs to the longest name that it starts with; "" are
# the modules at the root.
NUMPY_ROOMS = {"", "runtime", "data", "evaluation", "codes", "fitting"}
MAY_IMPORT = {
    "": {"runtime"},
    "runtime": {""},
    "data": {""},
    "evaluation": {"", "data"},
    "codes": {"", "runtime", "data"},
    "fitting": {"", "runtime", "data", "evaluation"},
    "nets": {"", "data"},
    "training.recipe": {"", "nets"},
    "training.checkpoints": {"", "nets", "training.recipe"},
    "runtime.torch": {"", "runtime", "nets", "training.recipe", "training.checkpoints", "export.pretrained"},
    "export.graphs": {""},
    "export.pretrained": {"", "nets", "training.recipe", "training.checkpoints", "export.graphs"},
    "export": {"", "runtime", "runtime.torch", "nets", "training.recipe", "training.checkpoints", "export.graphs"},
    "training": {
        *("", "runtime", "data", "evaluation", "codes"),
        *("nets", "runtime.torch", "export.pretrained", "training.recipe", "training.checkpoints"),
    },
    "baselines": {"", "data", "codes", "training"},
    "cli": NUMPY_ROOMS,
}
TORCH_ROOMS = {"nets", "runtime.torch", "export", "training"}
# The verbs that need torch may import everything; the others, which people with photos use, run without.
TORCH_VERBS = {"cli.train", "cli.export", "cli.predict", "cli.baseline", "cli.evaluate_alignment", "cli.data"}
# Third-party package -> the rooms that may import it.
LIBRARIES = {
    "torch": {*TORCH_ROOMS, "cli.doctor"},
    "safetensors": TORCH_ROOMS,
    "onnx": TORCH_ROOMS,
    "onnxruntime": {"runtime", "cli.doctor"},
    "click": {"cli"},
    "rich": {"cli"},
}
# What does not keep to this yet. The list may only get shorter: a line that is no longer true fails the test.
KNOWN_IMPORTS = {
    "evaluation.tables -> cli.main",
    "cli.each_photo -> runtime.torch",
    "cli.each_photo -> training.engine",
    "fitting.settings -> nets.prediction",
    "fitting.settings -> training.predictions",
    "fitting.settings -> torch",
}
KNOWN_CYCLES = {"aligner -> model", "evaluation.scoring_pool -> evaluation.language"}


def module_files() -> dict[str, Path]:
    """Module, without the package's name ("" is the package itself) -> file."""
    files = {}
    for path in (SOURCE / PACKAGE).rglob("*.py"):
        parts = path.relative_to(SOURCE / PACKAGE).with_suffix("").parts
        files[".".join(part for part in parts if part != "__init__")] = path
    return files


FILES = module_files()


def imports(path: Path) -> set[str]:
    """What a file imports, anywhere in it: our modules without the package's name, others' packages by theirs."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: write imports out"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {_module(name) for name in found}


def _module(name: str) -> str:
    first, _, rest = name.partition(".")
    if first != PACKAGE:
        return first
    while rest and rest not in FILES:  # a name in a module
        rest = rest.rpartition(".")[0]
    return rest


IMPORTS = {module: imports(path) for module, path in FILES.items()}


def room_of(module: str) -> str:
    parts = module.split(".")
    names = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((name for name in names if name in MAY_IMPORT), "")


def allowed(module: str, imported: str) -> bool:
    if imported in FILES and module in TORCH_VERBS:
        return True
    if imported in FILES:
        return room_of(imported) in {room_of(module), *MAY_IMPORT[room_of(module)]}
    rooms = LIBRARIES.get(imported)
    return rooms is None or any(module == room or module.startswith(f"{room}.") for room in rooms)


def test_every_room_keeps_to_its_imports() -> None:
    found = {f"{module} -> {name}" for module, names in IMPORTS.items() for name in names if not allowed(module, name)}
    assert found == KNOWN_IMPORTS


def test_every_package_is_a_room() -> None:
    packages = {module.split(".")[0] for module, path in FILES.items() if path.name == "__init__.py" and module}
    assert packages == {room.split(".")[0] for room in MAY_IMPORT if room}
    assert all(room in FILES for room in MAY_IMPORT)


def test_no_module_needs_itself() -> None:
    graph = {module: {name for name in names if name in FILES} - {module} for module, names in IMPORTS.items()}
    known = {tuple(line.split(" -> ")) for line in KNOWN_CYCLES}
    for module, imported in known:
        with pytest.raises(graphlib.CycleError):
            check_order(graph, leaving_out=known - {(module, imported)})
    check_order(graph, leaving_out=known)


def check_order(graph: dict[str, set[str]], leaving_out: set[tuple[str, ...]]) -> None:
    kept = {module: {name for name in names if (module, name) not in leaving_out} for module, names in graph.items()}
    graphlib.TopologicalSorter(kept).prepare()
