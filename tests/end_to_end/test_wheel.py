"""The wheel: the models are in it, it is small enough, the same bytes however it is built, and it
works where nothing is but what it needs."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import pytest

from regiontalk.models import packaged

ROOT = Path(__file__).parents[2]
LARGEST = 70_000_000
CAPTION = "from regiontalk.cli.main import main; main()"


def build(tree: Path, *targets: str) -> Path:
    """The folder of what was built; `targets`: sdist, wheel."""
    chosen = [option for target in targets for option in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", *chosen, "-d", "dist"]
    subprocess.run(command, cwd=tree, check=True, capture_output=True, timeout=120)
    return tree / "dist"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An sdist and a wheel, built from a copy of the tree."""
    tree = tmp_path_factory.mktemp("tree")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for name in ("pyproject.toml", *(path.removeprefix("/") for path in needed)):
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
            shutil.copytree(ROOT / name, tree / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, tree)
    return build(tree, "sdist", "wheel")


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


def test_the_sdist_builds_the_same_bytes_again(built: Path, wheel: Path, tmp_path: Path) -> None:
    """The wheel does not depend on where and when it is built, and the sdist holds all it needs."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    assert not (tree / "docs").exists()
    again = build(tree, "sdist", "wheel")
    for first in (sdist, wheel):
        assert (again / first.name).read_bytes() == first.read_bytes()


def needed_by(package: str) -> Iterator[Distribution]:
    """What an installation without extras brings, this package excluded."""
    waiting, seen = [package], {package}
    while waiting:
        for line in distribution(waiting.pop()).requires or ():
            name = re.match(r"[\w.-]+", line)
            if name and "extra ==" not in line and _is_installed(name[0]) and name[0] not in seen:
                seen.add(name[0])
                waiting.append(name[0])
                yield distribution(name[0])


def _is_installed(name: str) -> bool:
    """Not a requirement of another system."""
    try:
        return bool(distribution(name))
    except importlib.metadata.PackageNotFoundError:
        return False


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a fresh environment with the installed wheel and what it needs, and no extra.

    pip installs the wheel. What it needs is linked from this environment, so that no network is
    used.
    """
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    (packages,) = place.glob("lib/*/site-packages")
    for dist in needed_by("regiontalk"):
        for name in {Path(str(file)).parts[0] for file in dist.files or ()} - {"..", "__pycache__"}:
            if not (packages / name).exists():
                (packages / name).symlink_to(Path(str(dist.locate_file(name))))
    for arguments in (["install", "--no-index", "--no-deps", str(wheel)], ["check"]):
        pip = [python, "-m", "pip", *arguments]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return python


@pytest.mark.slow
def test_every_verb_works_without_extras(python: Path, examples: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    photos = tmp_path / "photos"
    photos.mkdir()
    for name in ("hug.jpg", "surfing.jpg"):
        shutil.copy(examples / "photos" / name, photos)
    command = [python, ROOT / "tests" / "installed_smoke.py", photos]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_bill_of_materials_names_what_is_installed(python: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [python, ROOT / "docs" / "sbom.py"],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        check=True,
    )
    bill: dict[str, Any] = json.loads(done.stdout)
    parts = {part["name"].lower(): part for part in bill["components"]}
    assert {"click", "numpy", "onnxruntime", "pillow", "platformdirs", "rich"} <= set(parts)
    assert "starlette" not in parts
    assert parts["numpy"]["licenses"]
    models = [part for part in parts.values() if part["type"] == "machine-learning-model"]
    assert len(models) == len(packaged.own_models())
    assert all("LicenseRef-RegionTalk-Weights" in str(model["licenses"]) for model in models)
    references = {part["bom-ref"] for part in parts.values()}
    (own,) = [one for one in bill["dependencies"] if "pkg:pypi/regiontalk@" in one["ref"]]
    assert set(own["dependsOn"]) <= references


def test_the_models_are_in_the_wheel(wheel: Path) -> None:
    models = packaged.own_models().values()
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {
        f"regiontalk/models/{model.name}/{file.name}"
        for model in models
        for file in model.iterdir()
    } <= names
    pages = {f"regiontalk/show/page.{kind}" for kind in ("html", "css", "js")}
    shared = {"regiontalk/show/shared/regions.js", "regiontalk/show/shared/base.css"}
    assert {
        *pages,
        *shared,
        "regiontalk/language/object_names.toml",
        "regiontalk/py.typed",
    } <= names
    assert wheel.stat().st_size <= LARGEST


def test_it_captions_photos_alike_every_time(wheel: Path, examples: Path, tmp_path: Path) -> None:
    """In processes of their own, from the wheel's files alone, far from the tree."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}

    def caption(*options: str) -> bytes:
        command = [
            sys.executable,
            "-c",
            CAPTION,
            "caption",
            str(examples / "photos"),
            "--json",
            *options,
        ]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=120
        )
        return done.stdout

    found = caption()
    assert found.count(b"\n") == len(list((examples / "photos").iterdir()))
    assert b'"caption": "' in found
    assert caption() == found
    assert caption("-j", "2") == found
    assert caption("--model", "fast") != found
