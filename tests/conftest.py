"""Fixtures that several test modules share."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image, ImageDraw


def draw_scene(size: tuple[int, int] = (96, 64)) -> Image.Image:
    """Flat shapes in few colours, alike under no turn or mirror."""
    width, height = size
    scene = Image.new("RGB", size, (70, 130, 180))
    pencil = ImageDraw.Draw(scene)
    pencil.rectangle((0, height * 2 // 3, width, height), fill=(34, 139, 34))
    pencil.ellipse((width // 8, height // 8, width // 3, height // 2), fill=(255, 215, 0))
    pencil.rectangle((width // 2, height // 3, width * 7 // 8, height * 5 // 6), fill=(178, 34, 34))
    return scene


@pytest.fixture
def scene() -> Image.Image:
    return draw_scene()


@pytest.fixture
def make_scene() -> Callable[[tuple[int, int]], Image.Image]:
    return draw_scene


@pytest.fixture
def scene_path(tmp_path: Path) -> Path:
    path = tmp_path / "scene.png"
    draw_scene().save(path)
    return path


@pytest.fixture
def examples() -> Path:
    """The example data set of the repository."""
    return Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="session")
def untrained_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with drawn scenes (`data`) and the run of a tiny net that has learned nothing (`run`)."""
    import torch

    from regiontalk.data.drawn import write_scenes
    from regiontalk.training.engine import Engine
    from regiontalk.training.fcln import FCLNTask
    from regiontalk.training.recipe import load_recipe

    class Nobody:
        def step(self, *_: object) -> None: ...
        def say(self, _: str) -> None: ...

    folder = tmp_path_factory.mktemp("untrained")
    write_scenes(folder / "data", train=6, dev=4)
    recipe = load_recipe(Path(__file__).parents[1] / "recipes" / "tiny.toml", (f"data.0.path={folder / 'data'}",))
    Engine(FCLNTask.begin(recipe), folder / "run", torch.device("cpu"), Nobody()).save()
    return folder


@pytest.fixture
def desk_with_run(untrained_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a copy of `untrained_run`, to be changed at will."""
    shutil.copytree(untrained_run, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
