"""The layers of the package: which one may import which, imports inside functions included.

A test of our own and not import-linter's contracts: those look for cycles between whole packages, and here two layers
may use each other's modules as long as no module imports itself in a circle (`export` reads a checkpoint, and
`training` reads a model folder).
"""

from __future__ import annotations

import ast
import graphlib
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
PACKAGE = "regiontalk"

# Layer -> the layers that it may import beside itself. A module belongs to the longest name that it starts with; "" are
# the modules at the root.
MAY_IMPORT = {
    "": {"runtime", "search"},
    "search": {"", "runtime"},
    "runs": {"", "data"},
    "runtime": {""},
    "data": {""},
    "evaluation": {"", "data", "search"},
    "codes": {"", "runtime", "data"},
    "fitting": {"", "data", "evaluation", "search"},
    "nets": {"", "data"},
    "training.recipe": {"", "nets"},
    "training.checkpoints": {"", "nets", "training.recipe"},
    "runtime.torch": {"", "runtime", "nets"},
    "export.graphs": {""},
    "export.pretrained": {"", "nets", "training.recipe", "training.checkpoints", "export.graphs"},
    "export": {
        *("", "nets", "runtime.torch", "training.recipe", "training.checkpoints"),
        *("export.graphs", "export.pretrained"),
    },
    "training": {
        *("", "runs", "data", "evaluation", "codes"),
        *("nets", "runtime.torch", "export.pretrained", "training.recipe", "training.checkpoints"),
    },
    "baselines": {"", "data", "codes", "training"},
    "serve": {"", "data", "search"},
    "cluster": {"", "search"},
    "__main__": {"cli"},
    "cli": {"", "runs", "data", "evaluation", "codes", "fitting", "search", "cluster", "serve"},
}
TORCH_LAYERS = {"nets", "runtime.torch", "export", "training"}
# Verbs that run checkpoints may import everything; the others, which people with photos use, run without torch.
# `cli.options` is shared by both: it imports torch once a run or CUDA is asked for.
TORCH_VERBS = {
    *("cli.train", "cli.export", "cli.predict", "cli.baseline", "cli.evaluate_model", "cli.data", "cli.options")
}
# Third-party package -> the layers that may import it.
LIBRARIES = {
    "torch": {*TORCH_LAYERS, "cli.doctor", "cli.options"},
    "safetensors": TORCH_LAYERS,
    "onnx": TORCH_LAYERS,
    "cv2": {"data.edge_boxes"},
    "onnxruntime": {"runtime", "cli.doctor"},
    "starlette": {"serve"},
    "uvicorn": {"serve"},
    "ray": {"cluster"},
    "pyarrow": {"cluster"},
    "psycopg": {"search.postgres", "search.postgres_store"},
    "pgvector": {"search.postgres"},
    "click": {"cli"},
    "rich": {"cli"},
}


def module_files() -> dict[str, Path]:
    """Module, without the package's name ("" is the package itself) -> file."""
    files = {}
    for path in (SOURCE / PACKAGE).rglob("*.py"):
        parts = path.relative_to(SOURCE / PACKAGE).with_suffix("").parts
        files[".".join(part for part in parts if part != "__init__")] = path
    return files


FILES = module_files()


def imports(path: Path) -> set[str]:
    """What a file imports, anywhere in it: our modules without the package's name, others' packages by theirs, nothing
    of the standard library."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: write imports out"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {_module(name) for name in found if name.partition(".")[0] not in sys.stdlib_module_names}  # "types" is ours


def _module(name: str) -> str:
    first, _, rest = name.partition(".")
    if first != PACKAGE:
        return first
    while rest and rest not in FILES:  # a name in a module
        rest = rest.rpartition(".")[0]
    return rest


IMPORTS = {module: imports(path) for module, path in FILES.items()}


def layer_of(module: str) -> str:
    parts = module.split(".")
    names = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((name for name in names if name in MAY_IMPORT), "")


def allowed(module: str, imported: str) -> bool:
    if imported in FILES and module in TORCH_VERBS:
        return True
    if imported in FILES:
        return layer_of(imported) in {layer_of(module), *MAY_IMPORT[layer_of(module)]}
    layers = LIBRARIES.get(imported)
    return layers is None or any(module == layer or module.startswith(f"{layer}.") for layer in layers)


def test_every_layer_keeps_to_its_imports() -> None:
    found = {f"{module} -> {name}" for module, names in IMPORTS.items() for name in names if not allowed(module, name)}
    assert not found


def test_every_package_is_a_layer() -> None:
    packages = {module.split(".")[0] for module, path in FILES.items() if path.name == "__init__.py" and module}
    assert packages <= set(MAY_IMPORT)
    assert all(layer in FILES for layer in MAY_IMPORT)


def test_no_import_is_circular() -> None:
    graph = {module: {name for name in names if name in FILES} - {module} for module, names in IMPORTS.items()}
    graphlib.TopologicalSorter(graph).prepare()
