"""The model of docs/another-model.md does what the page says, with the verbs of the page."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

import regiontalk
from regiontalk.cli.main import run

ROOT = Path(__file__).parents[2]


def block(name: str) -> str:
    """The code below the comment with this name."""
    page = (ROOT / "docs" / "another-model.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- {re.escape(name)} -->\n```\w+\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the page's model, two photos, and drawn scenes as a data set."""
    from regiontalk.lab.data.drawn import write_scenes

    (tmp_path / "colours.py").write_text(block("colours.py"))
    (tmp_path / "photos").mkdir()
    for name in ("coffee.jpg", "hug.jpg"):
        shutil.copy(ROOT / "examples" / "photos" / name, tmp_path / "photos")
    write_scenes(tmp_path / "data", train=1, dev=2)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_model_is_short() -> None:
    assert len([line for line in block("colours.py").splitlines() if line.strip()]) <= 40


def test_every_verb_works(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in block("verbs").splitlines():
        assert run(shlex.split(line)[1:]) == 0, line
    said = capsys.readouterr().out
    assert "\ta red thing\t10,20,200,300\t" in said
    assert said.splitlines()[-1].startswith(("photos/coffee.jpg", "photos/hug.jpg"))
    predicted = [json.loads(line) for line in (desk / "predictions.jsonl").read_text().splitlines()]
    assert {one["model"] for one in predicted} == {"colours-1"}
    record = json.loads((desk / "predictions.run.json").read_text())
    assert record["inputs"][0]["path"] == "colours.py:Colours"


def test_nonsense_is_a_fault_of_the_model(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = """
class Nonsense:
    name = "nonsense"

    def regions(self, photo):
        return [((0, 0, *photo.size), "a thing", float("nan"))]
"""
    (desk / "nonsense.py").write_text(code)
    for command in ("caption photos", "index photos", "predict {} data --split dev -o out.jsonl"):
        verb, _, rest = command.partition(" ")
        model = [] if "{}" in rest else ["--model", "nonsense.py:Nonsense"]
        rest = rest.format("nonsense.py:Nonsense")
        assert run([verb, *rest.split(), *model]) == 6, command
        message = capsys.readouterr().err.splitlines()[-1]
        assert "region 0: the score is nan" in message


def test_an_object_in_python(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(desk)
    from colours import Colours  # type: ignore[import-not-found]

    model = regiontalk.load(captioner=Colours(), words_book=False)
    captions = [region.caption for region in model(desk / "photos" / "hug.jpg").regions]
    assert len(captions) >= 3
    assert all(re.fullmatch(r"a \w+ thing", caption) for caption in captions)
