"""`regiontalk tune`: every setting tried, best first."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from regiontalk.cli import console
from regiontalk.cli.main import run
from regiontalk.errors import MissingExtra
from regiontalk.evaluation import language


@pytest.fixture(autouse=True)
def few_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    from regiontalk.fitting import settings

    monkeypatch.setattr(settings, "FINAL_NMS", (0.3, 0.5))
    monkeypatch.setattr(settings, "PROPOSALS", (5, 60))
    monkeypatch.setattr(settings, "CAPTION_WEIGHTS", (0.0, 1.0))


@pytest.fixture
def quick_language(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words in common in METEOR's place, which needs no tables."""
    monkeypatch.setattr(language, "open_meteor", lambda **_: nullcontext(language.UnigramF1()))


@pytest.mark.usefixtures("desk_with_run", "quick_language")
def test_every_setting_is_tried_and_the_best_stands_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "run", "data", "--json", "-q"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["model"], found["split"], found["images"]) == ("step-00000000", "dev", 4)
    settings = found["settings"]
    tried = {tuple(row[key] for key in ("score", "final_nms", "proposals", "caption_weight")) for row in settings}
    assert len(tried) == len(settings) == 16
    maps = [row["map"] for row in settings]
    assert maps == sorted(maps, reverse=True)
    assert maps[0] > maps[-1], "more proposals find more"


@pytest.mark.usefixtures("desk_with_run", "quick_language")
def test_the_table_has_the_top_ten_and_the_options_for_predict(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "run", "data", "--photos", "2", "-q"]) == 0
    out = capsys.readouterr().out
    assert "2 dev photos" in out
    assert sum("│ final" in line or "│ product" in line for line in out.splitlines()) == 10
    best = out.splitlines()[-1]
    assert best.startswith("best: --score ")
    options = best.removeprefix("best: ").split()
    assert run(["predict", "run", "data", "--split", "dev", "-o", "out.jsonl", "-q", *options]) == 0


@pytest.mark.usefixtures("desk_with_run")
def test_the_judge_is_meteor(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        with language.open_meteor():
            pass
    except MissingExtra as error:
        pytest.skip(f"METEOR's tables are not installed: {error}")
    assert run(["tune", "run", "data", "--json", "-q", "--photos", "1"]) == 0
    assert len(json.loads(capsys.readouterr().out)["settings"]) == 16


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["none", "data"], 6, "none: no checkpoint here"),
        (["run", "none"], 4, "none: no data set here"),
        (["run", "data", "--split", "test"], 2, "'test' is not one of"),
    ],
)
@pytest.mark.usefixtures("desk_with_run", "quick_language")
def test_a_failure_is_one_line_and_an_exit_code(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert run(["tune", *arguments, "-q"]) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_without_torch_the_extra_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(console.importlib.util, "find_spec", lambda name: None)
    assert run(["tune", str(tmp_path), str(tmp_path)]) == 7
    assert "pip install 'regiontalk[train]'" in capsys.readouterr().err
