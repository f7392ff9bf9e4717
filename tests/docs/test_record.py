"""The programs that record runs in one go."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from regiontalk.cli.main import program

ROOT = Path(__file__).parents[2]


def commands() -> list[list[str]]:
    """The `regiontalk` commands of docs/record.sh."""
    text = (ROOT / "docs" / "record.sh").read_text(encoding="utf-8")
    text = text.replace("$data", ".").replace("$model", ".").replace("$work/", "")
    return [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("regiontalk ")]


@pytest.mark.parametrize("words", [words for words in commands() if words[0] == "evaluate"], ids=lambda words: words[1])
def test_every_verb_and_option_is_there(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for word in words:
        if word.endswith(".jsonl"):
            Path(word).touch()
    command: click.Command | None = program
    left = list(words)
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(program), left.pop(0))
    assert command is not None
    command.make_context(words[0], left)


def test_every_prediction_is_evaluated_and_recorded() -> None:
    made = [words[words.index("-o") + 1] for words in commands() if words[0] == "predict"]
    read = [words[words.index("--predictions") + 1] for words in commands() if "--predictions" in words]
    assert made == read
    assert all("--record" in words for words in commands() if words[0] == "evaluate")


def test_a_benchmark_becomes_a_run(tmp_path: Path) -> None:
    benchmark = tmp_path / "mine.py"
    benchmark.write_text('import sys; print("warming up"); print(\'{"ms": 4.5, "json": "%s"}\' % sys.argv[1:])')
    asked = [str(tmp_path / "runs" / "mine"), "speed-caption", "a photo", str(benchmark), "--repeats", "3"]
    subprocess.run([sys.executable, str(ROOT / "docs" / "record.py"), *asked], check=True)
    stored = json.loads((tmp_path / "runs" / "mine" / "metrics.json").read_text())
    assert (stored["kind"], stored["data"], stored["ms"]) == ("speed-caption", "a photo", 4.5)
    assert stored["json"] == "['--repeats', '3', '--json']"
    assert re.fullmatch(r"python .*mine\.py --repeats 3 --json", stored["record"]["command"])
