"""Videos of the example photos, with the package's own model: what a phrase describes is found at its
time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from regiontalk.cli.main import run
from videos import photo, write_video

SCENES = ("coffee", "chelsea", "bear", "jockey", "soccer", "surfing", "hug", "astronaut")
SECONDS = 4
PHRASES = {
    "a cup of coffee": "coffee",
    "a cat": "chelsea",
    "a teddy bear": "bear",
    "a little girl": "bear",
    "a jockey on a horse": "jockey",
    "a brown horse": "jockey",
    "soccer players": "soccer",
    "a surfer on a wave": "surfing",
    "a surfboard": "surfing",
    "a woman hugging a dog": "hug",
}
WITHIN_SECONDS = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("film")
    scenes = [photo(name, (640, 480)) for name in SCENES]
    write_video(folder / "film.mp4", scenes, SECONDS, codec="libx264")
    assert run(["index", str(folder), "--model", "fast"]) == 0
    return folder


@pytest.mark.slow
def test_a_search_finds_the_moment(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right = []
    for phrase, scene in PHRASES.items():
        assert run(["search", phrase, str(folder), "--top", "1", "--json"]) == 0
        hit = json.loads(capsys.readouterr().out)
        begin = SECONDS * SCENES.index(scene)
        assert hit["video"] == str(folder / "film.mp4")
        if begin - WITHIN_SECONDS <= hit["time"] <= begin + SECONDS + WITHIN_SECONDS:
            right.append(phrase)
    assert len(right) >= 8, right


@pytest.mark.slow
def test_find_uses_the_index_of_a_folder_with_videos(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["find", "a cat", str(folder), "--json", "--model", "fast", "-q"]) == 0
    best = json.loads(capsys.readouterr().out.splitlines()[0])
    begin = SECONDS * SCENES.index("chelsea")
    assert best["here"]
    assert begin <= best["time"] <= begin + SECONDS


@pytest.mark.slow
def test_each_verb_takes_a_video(folder: Path, tmp_path: Path) -> None:
    film = folder / "film.mp4"

    def regiontalk(*arguments: str) -> str:
        command = [sys.executable, "-m", "regiontalk", *arguments, "--model", "fast"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    lines = regiontalk("caption", str(film), "--json").splitlines()
    assert json.loads(lines[0])["time"] == 0
    assert len(lines) == len(SCENES)
    track = tmp_path / "film.vtt"
    regiontalk("describe", str(film), "-o", str(track))
    assert track.read_text().count(" --> ") == len(SCENES)
    aligned = json.loads(regiontalk("align", f"{film}#t=5", "a cat lies there", "--json"))
    assert aligned["time"] == 5
    table = regiontalk("caption", f"{film}#t=5", "--format", "csv").splitlines()
    assert table[0].endswith(",time")
    assert table[1].endswith(",5.0")
