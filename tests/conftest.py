"""Fixtures that several test modules share."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from PIL import Image, ImageDraw

from chromium import CHROMIUM, Browser
from postgres_server import Server
from regiontalk.images.limits import Limits
from regiontalk.images.photo import Photo
from regiontalk.results import AltText, ImageRegions, Region, Shown, Tag, Tags

# Read by torch when it is imported, also in the processes that tests start: tiny nets only lose by
# more threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Words that whoever runs the tests has taught must not change what the models say.
os.environ["REGIONTALK_DATA"] = tempfile.mkdtemp(prefix="regiontalk-tests-")

# How long an example takes says more about the machine than about the program.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


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


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server with pgvector, for all tests of a session."""
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def examples() -> Path:
    """The example data set of the repository."""
    return Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="session")
def untrained_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with drawn scenes (`data`) and the run of a tiny net that has learned nothing
    (`run`)."""
    import torch

    from regiontalk.lab.data.drawn import write_scenes
    from regiontalk.lab.training.detector.task import FCLNTask
    from regiontalk.lab.training.engine import Engine
    from regiontalk.lab.training.recipe import load_recipe

    class Nobody:
        def step(self, *_: object) -> None: ...
        def say(self, _: str) -> None: ...

    folder = tmp_path_factory.mktemp("untrained")
    write_scenes(folder / "data", train=6, dev=4)
    recipe = load_recipe(
        Path(__file__).parents[1] / "recipes" / "tiny.toml", (f"data.0.path={folder / 'data'}",)
    )
    Engine(FCLNTask.begin(recipe), folder / "run", torch.device("cpu"), Nobody()).save()
    return folder


@pytest.fixture
def desk_with_run(untrained_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a copy of `untrained_run`, to be changed at will."""
    shutil.copytree(untrained_run, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def shaken_checkpoint(untrained_run: Path) -> Path:
    """The checkpoint of `untrained_run` with weights at random, so that boxes, scores and words
    differ."""
    import torch

    from regiontalk.lab.training.checkpoints import latest_checkpoint, load_fcln, save_checkpoint

    checkpoint = latest_checkpoint(untrained_run / "run" / "checkpoints")
    assert checkpoint is not None
    trained = load_fcln(checkpoint)
    net = trained.net
    generator = torch.Generator().manual_seed(3)
    for name, weight in net.state_dict().items():
        if not name.startswith("backbone."):
            weight.add_(
                torch.randn(weight.shape, generator=generator)
                * (0.02 if "transform" in name else 0.2)
            )
    state = {
        key: value for key, value in trained.state.items() if key not in ("format", "step", "best")
    }
    return save_checkpoint(untrained_run / "shaken", 7, {"model": net.state_dict()}, state)


@pytest.fixture(scope="session")
def tiny_model(shaken_checkpoint: Path) -> Path:
    """`shaken_checkpoint` exported as a model folder; not to be changed."""
    from regiontalk.lab.export.detector import export_model

    folder = shaken_checkpoint.parent / "tiny"
    export_model(shaken_checkpoint, folder, "tiny")
    return folder


TAGS = (Tag("schipperke", ("animal", "dog")), Tag("grass"))


@dataclass
class StandIn:
    """Opens a photo as the model does, then finds the same in each: the left half, a third of it,
    and `more` regions, of which only the first is likely."""

    limits: Limits = field(default_factory=Limits)
    more: int = 0
    asked: list[dict[str, Any]] = field(default_factory=list)

    def check(self, *_: object) -> None:
        """It can be asked for everything."""

    def __call__(self, photo: str, **options: Any) -> ImageRegions:
        opened = Photo(photo, self.limits)
        width, height = opened.size
        self.asked.append({"photo": photo, **options})
        parts = [(2, 1), (3, 3), (4, 4), (5, 5)][: 2 + self.more]
        boxes = options.get("boxes", [(0, 0, width / x, height / y) for x, y in parts])
        found = [
            Region(
                (float(x0), float(y0), float(x1), float(y1)),
                0.9 - 0.25 * number,
                f"thing {number}",
                -1.5,
            )
            for number, (x0, y0, x1, y1) in enumerate(boxes)
        ]
        path = photo if isinstance(photo, str) else ""
        return ImageRegions(
            path, width, height, "stand-in", tuple(found[: options.get("top")]), photo=opened
        )

    def alt_text(self, photo: str, **options: Any) -> AltText:
        found = self(photo, **options)
        said = " and ".join(region.caption for region in found.regions)
        shown = Shown(options.get("threshold", Shown.threshold))
        return AltText(
            found.path,
            found.width,
            found.height,
            found.model,
            said,
            tuple(shown.choose(found.regions)),
            tags=TAGS,
            photo=found.photo,
        )

    def tags(self, photo: str, **options: Any) -> Tags:
        found = self(photo, **options)
        return Tags(found.path, found.width, found.height, found.model, TAGS, photo=found.photo)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """What `regiontalk.load` gives, whatever it is asked for."""
    model = StandIn()
    monkeypatch.setattr("regiontalk.load", lambda folder, **_: model)
    return model


RECIPES = Path(__file__).parents[1] / "recipes"
# What makes recipes/tiny.toml a matter of milliseconds a step, and of a few steps.
QUICK = (
    *(
        "run.steps=6",
        "run.batch=2",
        "run.log_every=1",
        "run.checkpoint_every=2",
        "run.evaluate_every=100",
    ),
    *("run.evaluate_photos=2", "run.pictures=0", "net.input_size=64", "net.channels=8"),
    *(
        "net.localization.anchors=[[16,16],[28,28]]",
        "net.localization.filters=8",
        "net.recognition.cells=3",
    ),
    *(
        "net.recognition.hidden=16",
        "net.recognition.code=16",
        "net.language.embedding=8",
        "net.language.hidden=8",
    ),
    *("sampler.regions=16", "prediction.proposals=10"),
)


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight drawn scenes to train on and four to look at, of different shapes; not to be
    changed."""
    from regiontalk.lab.data.drawn import write_scenes

    folder = tmp_path_factory.mktemp("scenes") / "drawn"
    write_scenes(folder, train=8, dev=4, long_side=64)
    return folder


@pytest.fixture(scope="session")
def quick_changes(scenes: Path) -> tuple[str, ...]:
    """`--set` changes of recipes/tiny.toml for a very small net on `scenes`."""
    return (f"data.0.path={scenes}", *QUICK)


@pytest.fixture(scope="session")
def quick_recipe(quick_changes: tuple[str, ...]) -> Callable[..., Any]:
    """The recipe of `quick_changes`, with more changes as arguments."""
    from regiontalk.lab.training.recipe import load_recipe

    def load(*more: str) -> Any:
        return load_recipe(RECIPES / "tiny.toml", (*quick_changes, *more))

    return load


@pytest.fixture(scope="session")
def sentences_run(
    tmp_path_factory: pytest.TempPathFactory, untrained_run: Path, tiny_model: Path
) -> Path:
    """A folder with the codes (`codes.npz`, `truths.npz`) that `tiny_model` gives of the scenes of
    `untrained_run`, and the `run` of a small multimodal RNN that has learned a little from them;
    not to be changed."""
    import torch

    from regiontalk.lab.codes.build import Origin, compute_codes
    from regiontalk.lab.training.engine import Engine
    from regiontalk.lab.training.heads.sentences import SentencesTask
    from regiontalk.lab.training.recipe import load_recipe

    class Nobody:
        def step(self, *_: object) -> None: ...
        def say(self, _: str) -> None: ...

    folder = tmp_path_factory.mktemp("sentences")
    for name, on_truths in (("codes", False), ("truths", True)):
        out = folder / f"{name}.npz"
        origin = Origin(tiny_model, untrained_run / "data", surroundings=True, on_truths=on_truths)
        compute_codes(origin, out, 1, lambda numbers, _: numbers)
    recipe = folder / "recipe.toml"
    recipe.write_text(
        'kind = "sentences"\n'
        f'data = {{ path = "{untrained_run / "data"}", codes = "{folder / "codes.npz"}" }}\n'
        'run = { steps = 10, batch = 6, metric = "cider" }\n'
        'net = { cell = "lstm", embedding = 16, hidden = 24, attention = 16, heads = 2, dropout = 0.0 }\n'
        "vocabulary = { smallest_count = 1 }\n"
        'optimizer = { kind = "adamw", rate = 1e-2 }\n'
    )
    Engine(
        SentencesTask.begin(load_recipe(recipe)), folder / "run", torch.device("cpu"), Nobody()
    ).train()
    return folder


@pytest.fixture(scope="session")
def speaking_model(sentences_run: Path, tiny_model: Path) -> Path:
    """`tiny_model` with the head of `sentences_run`; not to be changed."""
    from regiontalk.lab.export.detector import add_heads
    from regiontalk.lab.export.heads import load_heads

    folder = sentences_run / "speaking"
    add_heads(tiny_model, folder, "speaking", load_heads([sentences_run / "run"], "float32"))
    return folder


@pytest.fixture(scope="session")
def alignment_recipe(
    tmp_path_factory: pytest.TempPathFactory, untrained_run: Path, sentences_run: Path
) -> Path:
    """A recipe of a small alignment net on the scenes and codes of `sentences_run`."""
    path = tmp_path_factory.mktemp("alignment") / "align.toml"
    path.write_text(
        'kind = "alignment"\n'
        f'data = [{{ path = "{untrained_run / "data"}", codes = "{sentences_run / "codes.npz"}" }}]\n'
        'run = { steps = 40, batch = 6, workers = 0, metric = "recall_sum", log_every = 20, evaluate_every = 20 }\n'
        'net = { words = "brnn", size = 16, hidden = 12, embedding = 8, train_embedding = true, dropout = 0.0 }\n'
        "vocabulary = { smallest_count = 1 }\n"
        'optimizer = { kind = "adamw", rate = 1e-2 }\n'
        "schedule = { clip_value = 5.0 }\n"
    )
    return path


@pytest.fixture(scope="session")
def alignment_run(alignment_recipe: Path) -> Path:
    """The finished run of `alignment_recipe`; not to be changed."""
    import torch

    from regiontalk.lab.training.engine import Engine
    from regiontalk.lab.training.heads.alignment import AlignmentTask
    from regiontalk.lab.training.recipe import load_recipe

    class Nobody:
        def step(self, *_: object) -> None: ...
        def say(self, _: str) -> None: ...

    folder = alignment_recipe.parent / "run"
    task = AlignmentTask.begin(load_recipe(alignment_recipe, ("run.keep_best=2",)))
    Engine(task, folder, torch.device("cpu"), Nobody()).train()
    return folder


@pytest.fixture(scope="session")
def aligning_model(alignment_run: Path, tiny_model: Path) -> Path:
    """`tiny_model` with the head of `alignment_run`; not to be changed."""
    from regiontalk.lab.export.detector import add_heads
    from regiontalk.lab.export.heads import load_heads

    folder = alignment_run.parent / "aligning"
    add_heads(tiny_model, folder, "aligning", load_heads([alignment_run], "float32"))
    return folder


TOWERS_RECIPE = """
kind = "contrastive"
pieces = "{folder}/vocab.txt"
[run]
steps = 60
batch = 12
workers = 0
log_every = 1
evaluate_every = 30
evaluate_photos = 16
[[data]]
path = "{folder}/data"
phrases = ["*"]
[net]
backbone = "tiny"
input_size = 64
size = 32
[net.text]
blocks = 1
width = 32
heads = 2
positions = 64
[augmentation]
flip = 0.5
resolution = [40, 128]
zoom_by_batch = true
[backbone_optimizer]
kind = "adamw"
rate = 3e-3
[text_optimizer]
kind = "adamw"
rate = 3e-3
[optimizer]
kind = "adamw"
rate = 3e-3
[schedule]
warmup = 10
decay = "cosine"
clip_norm = 5.0
ema = 0.95
"""


@pytest.fixture(scope="session")
def towers_desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with drawn scenes, the WordPiece vocabulary of their sentences, and a `recipe.toml`
    of two small towers; not to be changed."""
    from regiontalk.lab.data.drawn import COLOURS, SHAPES, write_scenes

    folder = tmp_path_factory.mktemp("towers")
    write_scenes(folder / "data", train=48, dev=16, long_side=64, shapes=2)
    pieces = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "and", *COLOURS, *SHAPES)
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    (folder / "recipe.toml").write_text(TOWERS_RECIPE.format(folder=folder), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def towers_recipe(towers_desk: Path) -> Callable[..., Any]:
    """The recipe of `towers_desk`, with changes as arguments."""
    from regiontalk.lab.training.recipe import load_recipe

    return lambda *changes: load_recipe(towers_desk / "recipe.toml", changes)


@pytest.fixture(scope="session")
def towers_run(towers_recipe: Callable[..., Any], towers_desk: Path) -> Path:
    """The finished run of `towers_recipe`; not to be changed."""
    import torch

    from regiontalk.lab.training.engine import Engine
    from regiontalk.lab.training.towers.task import ContrastiveTask

    class Nobody:
        def step(self, *_: object) -> None: ...
        def say(self, _: str) -> None: ...

    folder = towers_desk / "run"
    task = ContrastiveTask.begin(towers_recipe())
    Engine(task, folder, torch.device("cpu"), Nobody()).train()
    return folder


@pytest.fixture(scope="session")
def named_scenes(towers_desk: Path) -> Path:
    """The scenes of `towers_desk`, whose shapes are called by their colours, without sentences."""
    from regiontalk.lab.data.records import Dataset, TrueRegion

    folder = towers_desk / "named"
    folder.mkdir()
    lines = []
    for record in Dataset(towers_desk / "data"):
        colours = tuple(
            TrueRegion(region.xyxy, region.phrase.split()[1], "object") for region in record.regions
        )
        named = replace(record, regions=colours, sentences=())
        lines.append(json.dumps(named.to_dict()) + "\n")
    (folder / "annotations.jsonl").write_text("".join(lines), encoding="utf-8")
    for shard in (towers_desk / "data").glob("*.tar"):
        shutil.copy(shard, folder)
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    try:
        yield browser
        browser.close()
    finally:
        browser.process.kill()
        browser.process.wait()
