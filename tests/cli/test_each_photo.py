"""Photos one after another, whatever is asked of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import regiontalk
from regiontalk.cli.each_photo import put_all
from regiontalk.cli.main import run
from regiontalk.errors import InputError, RegionTalkError


def test_failures_are_counted_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    kept: list[str] = []
    mixed: list[str | RegionTalkError] = ["a", InputError("b: torn", hint="tape"), "c"]
    assert put_all(mixed, kept.append, 3, "described") == 1
    assert kept == ["a", "c"]
    assert capsys.readouterr().err == "regiontalk: skipped b: torn  (tape)\n"
    with pytest.raises(InputError, match="b: torn"):
        put_all([InputError("b: torn")], kept.append, 1, "described")
    with pytest.raises(InputError, match="none of 2 photos could be described"):
        put_all([InputError("b"), InputError("c")], kept.append, 2, "described")


def test_finding_c13_photos_that_cannot_be_opened_need_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("regiontalk.load", lambda *_, **__: pytest.fail("a model was loaded"))
    Path("text.jpg").write_text("no photo")
    for verb in ("caption", "describe"):
        assert run([verb, "text.jpg"]) == 4
        assert capsys.readouterr().err.startswith(
            "regiontalk: text.jpg: not a photo of a supported type"
        )
        assert run([verb, "text.jpg", "gone.jpg"]) == 4
        *skipped, last = capsys.readouterr().err.splitlines()
        assert [line.partition(": ")[2].partition(":")[0] for line in skipped] == [
            "skipped text.jpg",
            "skipped gone.jpg",
        ]
        assert last.startswith("regiontalk: none of 2 photos could be")


def test_verbose_says_the_model_and_the_time_of_each_photo(
    tmp_path: Path,
    scene: Image.Image,
    stand_in: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    scene.save("a.jpg")
    scene.save("b.jpg")
    assert run(["caption", "a.jpg", "b.jpg", "--json", "-v"]) == 0
    verbose = capsys.readouterr()
    model, *times = verbose.err.splitlines()
    assert model == f"regiontalk: model {regiontalk.EMBEDDED}, device auto"
    assert [re.sub(r"\d+\.\d\d s$", "", line) for line in times] == [
        "regiontalk: a.jpg: ",
        "regiontalk: b.jpg: ",
    ]
    assert run(["caption", "a.jpg", "b.jpg", "--json"]) == 0
    silent = capsys.readouterr()
    assert silent.err == ""
    assert silent.out == verbose.out
