"""The programs that record runs in one go."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click
import pytest

from regiontalk.cli.main import program

ROOT = Path(__file__).parents[2]


PLACES = {
    "$weak_place_weight": "0.1",
    "$place_weight": "0.1",
    "$beta": "0.1",
    "${name: -1}": "7",
    "${name%-beam?}": "sentences-rnn",
    "$regions": "truth",
    "$1": "runs/compact",
    "$data": ".",
    "$model": ".",
    "$objects": ".",
    "$coco": ".",
    "$detector": ".",
    "$weak": "weak.npz",
    "$truths": "truths.npz",
    "$codes": "codes.npz",
    "$ranking_codes": "coco.npz",
    "$device": "auto",
}


OF_PAPERS = {
    "$longer": "--set run.steps=9000 --set run.evaluate_every=450 --resume",
    "$PLACE_WEIGHT": "0.1",
    "$BETA": "0.1",
    "$flickr": "data",
    "$name": "brnn",
    "$some": "1e-3",
}
"""The variables of recipes/papers.sh."""


def commands(script: str = "docs/record.sh", places: Mapping[str, str] = PLACES) -> list[list[str]]:
    """The `regiontalk` commands of a script."""
    text = (ROOT / script).read_text(encoding="utf-8").replace("$work/", "")
    for name, place in places.items():
        text = text.replace(name, place)
    return [
        shlex.split(line.partition(" > ")[0])[1:]
        for line in map(str.strip, text.splitlines())
        if line.startswith("regiontalk ")
    ]


@pytest.mark.parametrize(
    "words",
    [*commands(), *commands("recipes/papers.sh", OF_PAPERS)],
    ids=lambda words: words[1],
)
def test_every_verb_and_option_is_there(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for word in words:
        if word.endswith((".jsonl", ".json", ".npz", ".toml")):
            Path(word).parent.mkdir(parents=True, exist_ok=True)
            Path(word).touch()
        elif word.startswith(("runs/", "data", "models/")):
            Path(word).mkdir(parents=True, exist_ok=True)
    command: click.Command | None = program
    left = list(words)
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(program), left.pop(0))
    assert command is not None
    command.make_context(words[0], left)


def test_every_prediction_is_evaluated_and_recorded() -> None:
    made = [
        words[words.index("-o") + 1] for words in commands() if words[0] in ("predict", "baseline")
    ]
    read = [
        words[words.index("--predictions") + 1] for words in commands() if "--predictions" in words
    ]
    assert made == [one for one, _ in itertools.groupby(read)]
    measurements = [
        words for words in commands() if words[0] == "evaluate" and words[1] != "queries"
    ]
    assert all("--record" in words for words in measurements)


def test_an_unknown_part_of_the_papers_is_an_error() -> None:
    script = str(ROOT / "recipes" / "papers.sh")
    for parts, reason in ((["everything"], "no part everything"), ([], "usage")):
        done = subprocess.run(["bash", script, *parts], check=False, capture_output=True, text=True)
        assert done.returncode == 2
        assert reason in done.stderr


def test_an_unknown_part_is_an_error() -> None:
    done = subprocess.run(
        ["bash", str(ROOT / "docs" / "record.sh"), "everything"], check=False, capture_output=True
    )
    assert done.returncode == 127
    parts = re.findall(
        r"^record_(\w+)\(\)", (ROOT / "docs" / "record.sh").read_text(), re.MULTILINE
    )
    assert set(parts) == {
        *(
            "package",
            "everyday",
            "names",
            "teach",
            "fast",
            "find",
            "nearest_neighbour",
            "weak",
            "coco",
            "precisions",
        ),
        *("suppression", "speed", "scale", "table1", "table2", "benchmarks", "fcln", "affine"),
    }


def test_a_benchmark_with_several_rows_becomes_several_runs(tmp_path: Path) -> None:
    benchmark = tmp_path / "mine.py"
    benchmark.write_text('print(\'{"rows": {"int8": {"mb": 1}, "float32": {"mb": 4}}}\')')
    asked = [
        "--each",
        "rows",
        str(tmp_path / "runs" / "precision"),
        "precision",
        "photos",
        str(benchmark),
    ]
    subprocess.run([sys.executable, str(ROOT / "docs" / "record.py"), *asked], check=True)
    stored = {
        name: tmp_path / "runs" / f"precision-{name}" / "metrics.json"
        for name in ("int8", "float32")
    }
    assert [json.loads(path.read_text())["mb"] for path in stored.values()] == [1, 4]


def test_a_benchmark_becomes_a_run(tmp_path: Path) -> None:
    benchmark = tmp_path / "mine.py"
    benchmark.write_text(
        'import sys; print("warming up"); print(\'{"ms": 4.5, "json": "%s"}\' % sys.argv[1:])'
    )
    asked = [
        str(tmp_path / "runs" / "mine"),
        "speed-caption",
        "a photo",
        str(benchmark),
        "--repeats",
        "3",
    ]
    subprocess.run([sys.executable, str(ROOT / "docs" / "record.py"), *asked], check=True)
    stored = json.loads((tmp_path / "runs" / "mine" / "metrics.json").read_text())
    assert (stored["kind"], stored["data"], stored["ms"]) == ("speed-caption", "a photo", 4.5)
    assert stored["json"] == "['--repeats', '3', '--json']"
    assert re.fullmatch(r"python .*mine\.py --repeats 3 --json", stored["record"]["command"])
