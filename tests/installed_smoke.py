"""Tries every verb that a base install has: `python installed_smoke.py PHOTOS`, in a new folder.

For the built wheel in an environment of its own, with the extras that are there or without any.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import regiontalk
from regiontalk.cli.main import VERBS

REGION = {"xyxy": [0, 0, 40, 40], "phrase": "a dog"}
TRUTH = {"image": "a.jpg", "width": 100, "height": 80, "split": "test", "regions": [REGION]}
SENTENCES = {**TRUTH, "sentences": ["A dog runs ."]}
GUESS = {"xyxy": [0, 0, 40, 40], "score": 1.0, "caption": "a dog"}
GUESSES = {"path": "a.jpg", "width": 100, "height": 80, "regions": [GUESS]}
SENTENCE = {"path": "a.jpg", "sentence": "a dog runs"}


def run(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "regiontalk", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def write(name: str, value: object) -> Path:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value) + "\n")
    return path


def main(photos: Path) -> None:
    assert "site-packages" in regiontalk.__file__, f"not installed: {regiontalk.__file__}"
    for verb in VERBS:
        assert run(verb, "--help")
    photo = sorted(photos.iterdir())[0]
    captioned = run("caption", photos, "--json").splitlines()
    assert all('"caption"' in line for line in captioned)
    assert run("caption", photo) == run("caption", photo)
    assert run("caption", photo, "--model", "fast")
    run("caption", photo, "-o", "page.html")
    assert "<html" in Path("page.html").read_text()
    assert run("describe", photo)
    assert run("align", photo, "a dog on a wall")
    assert run("find", "a dog", photo, "--json")
    run("index", photos, "--index", "index")
    assert run("search", "a dog", photos, "--index", "index", "--json").count("\n") > 0
    assert "regiontalk" in run("doctor").lower()
    data = write("data/annotations.jsonl", SENTENCES).parent
    run("data", "stats", data)
    guesses, sentences = write("guesses.jsonl", GUESSES), write("sentences.jsonl", SENTENCE)
    for kind, predictions in (("dense", guesses), ("captions", sentences)):
        files = ("--truth", data, "--predictions", predictions)
        assert run("evaluate", kind, *files, "--without", "meteor")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
