"""Photos one after another, whatever is asked of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import regiontalk
from conftest import StandIn, draw_scene
from regiontalk.cli.each_photo import put_all
from regiontalk.cli.main import run
from regiontalk.errors import InputError, RegionTalkError
from videos import clip  # noqa: F401  (a fixture)


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


def test_a_video_is_its_frames(
    clip: Path,  # noqa: F811
    stand_in: StandIn,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["caption", str(clip), "-q"]) == 0
    frames = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert frames[0] == f"{clip}#t=0"
    assert len(dict.fromkeys(frames)) == 3
    assert run(["caption", f"{clip}#t=3", "-q"]) == 0
    assert stand_in.asked[-1]["photo"] == f"{clip}#t=3"


def test_a_broken_video_among_others_is_skipped(
    clip: Path,  # noqa: F811
    stand_in: StandIn,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (clip.parent / "bad.mp4").write_bytes(b"text")
    assert run(["caption", str(clip.parent), "--strict"]) == 3
    skipped, last = capsys.readouterr().err.splitlines()
    assert skipped.startswith(f"regiontalk: skipped {clip.parent}/bad.mp4: not a video")
    assert last == "regiontalk: 1 skipped, and --strict was given"
    assert run(["caption", str(clip.parent / "bad.mp4")]) == 4


def test_without_the_extra_videos_are_left_out(
    clip: Path,  # noqa: F811
    stand_in: StandIn,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("regiontalk.images.video.is_installed", lambda: False)
    for given in (clip, clip.parent):
        assert run(["caption", str(given)]) == 7
        assert "pip install 'regiontalk[video]'" in capsys.readouterr().err
    draw_scene().save(clip.parent / "a.png")
    assert run(["caption", str(clip.parent)]) == 0
    assert capsys.readouterr().err == (
        "regiontalk: left out 1 video: PyAV is not installed  (pip install 'regiontalk[video]')\n"
    )
