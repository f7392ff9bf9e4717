"""recipes/visual-genome.sh on a made-up Visual Genome in the true format: 200 drawn photos, and
recipes for very small nets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

from regiontalk.lab.data.drawn import draw_scene

REPOSITORY = Path(__file__).parents[2]
PHOTOS = 200
TEST_PHOTOS = 8
QUICK = """
base = "{base}"
run = {{ steps = 2, batch = 2, workers = 0, log_every = 1, evaluate_photos = 2, pictures = 0 }}
net = {{ input_size = 64, channels = 8 }}
augmentation = {{ flip = 0.5 }}
prediction = {{ proposals = {proposals}, final_nms = 0.9 }}
"""


def region(number: int, image: int, box: tuple[float, ...], phrase: str) -> dict[str, Any]:
    x0, y0, x1, y1 = map(round, box)
    size = {"x": x0, "y": y0, "width": x1 - x0, "height": y1 - y0}
    return {"region_id": number, "image_id": image, **size, "phrase": phrase}


def write_visual_genome(folder: Path) -> None:
    """The five downloads; a photo has 20 to 25 regions, several of the same shape."""
    folder.mkdir()
    random = np.random.default_rng(5)
    images, descriptions = [], []
    with (
        ZipFile(folder / "images.zip", "w") as first,
        ZipFile(folder / "images2.zip", "w") as second,
    ):
        for identity in range(1, PHOTOS + 1):
            scene, shapes = draw_scene(random, 96, 64 + identity % 32, 3)
            half, archive = ("VG_100K", first) if identity % 2 else ("VG_100K_2", second)
            buffer = BytesIO()
            scene.save(buffer, "JPEG")
            archive.writestr(f"{half}/{identity}.jpg", buffer.getvalue())
            url = f"https://cs.stanford.edu/people/rak248/{half}/{identity}.jpg"
            size = {"width": scene.width, "height": scene.height}
            ids = {"image_id": identity, "coco_id": None, "flickr_id": None}
            images.append({**size, "url": url, **ids})
            regions = [
                region(1000 * identity + n, identity, shape.xyxy, f"There is {shape.phrase}.")
                for n in range(20 + identity % 6)
                for shape in [shapes[n % len(shapes)]]
            ]
            descriptions.append({"regions": regions, "id": identity})
    for name, entries in (("image_data", images), ("region_descriptions", descriptions)):
        with ZipFile(folder / f"{name}.json.zip", "w") as archive:
            archive.writestr(f"{name}.json", json.dumps(entries))
    numbers = list(range(1, PHOTOS + 1))
    dev, test = numbers[:TEST_PHOTOS], numbers[TEST_PHOTOS : 2 * TEST_PHOTOS]
    splits = {"train": numbers[2 * TEST_PHOTOS :], "val": dev, "test": test}
    (folder / "densecap_splits.json").write_text(json.dumps(splits))


@pytest.mark.timeout(900)  # half a minute of work, in a dozen processes
@pytest.mark.skipif(shutil.which("bash") is None, reason="a shell script")
def test_from_the_downloads_to_table_1(tmp_path: Path) -> None:
    write_visual_genome(tmp_path / "downloads")
    tiny = (REPOSITORY / "recipes" / "tiny.toml").read_text()
    (tmp_path / "tiny.toml").write_text(tiny)
    for name, proposals in (("paper", 5), ("ours", 10)):
        recipe = QUICK.format(base="tiny.toml", proposals=proposals)
        (tmp_path / f"{name}.toml").write_text(recipe)
    here = {"PAPER": str(tmp_path / "paper.toml"), "OURS": str(tmp_path / "ours.toml")}
    here["SOURCES"] = "own"  # without the true boxes, to save a minute
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = ["bash", "recipes/visual-genome.sh", tmp_path / "downloads", tmp_path / "work"]

    def make(**more: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": path, **here, **more}
        return subprocess.run(
            command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False
        )

    stopped = make(OURS="no-such-recipe.toml")
    assert stopped.returncode == 2
    assert "no-such-recipe" in stopped.stderr
    kept = (tmp_path / "work" / "runs" / "paper" / "run.json").stat().st_mtime_ns
    done = make()
    assert done.returncode == 0, done.stderr
    assert "visual-genome: train-paper" not in done.stderr
    assert (tmp_path / "work" / "runs" / "paper" / "run.json").stat().st_mtime_ns == kept
    description = json.loads((tmp_path / "work" / "data" / "dataset.json").read_text())
    assert description["images"] == PHOTOS
    names = [line.split()[0] for line in done.stdout.splitlines()]
    systems = ("ours", "paper")
    rows = [f"{name}-own-{protocol}" for name in systems for protocol in ("densecap", "joint")]
    assert names[-len(rows) :] == rows
    for row in rows:
        run = json.loads((tmp_path / "work" / "record" / row / "metrics.json").read_text())
        assert run["protocol"] == row.rpartition("-")[2]
        assert run["images"] == TEST_PHOTOS
        (trained,) = [one for one in run["record"]["inputs"] if one["role"] == "predictions"]
        assert "recipe" in json.dumps(trained["record"])
    assert make().stderr == ""
