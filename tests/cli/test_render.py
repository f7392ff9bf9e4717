from __future__ import annotations

from dataclasses import replace

import pytest

from regiontalk.cli import render
from regiontalk.results import Description, Finding, ImageRegions, Region, Shown, Tag, Tags
from regiontalk.show.drawing import GREY, PALETTE

MUG = Region((10.0, 20.0, 60.504, 70.0), 0.9, "a red mug", -3.2)
SPOON = Region((0.0, 0.0, 200.0, 100.0), 0.25, "[b]a spoon[/b]\nor two")
PHOTOS = [
    ImageRegions("a.jpg", 200, 100, "tiny", (MUG, SPOON)),
    ImageRegions("deep/b.jpg", 50, 40, "tiny", ()),
    ImageRegions("c.jpg", 100, 100, "tiny", (MUG,)),
]


ALL = Shown(0.0, None)
HALF = Shown(confidence=0.5, sure_confidence=0.5)


def test_the_table_shows_score_caption_and_box(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_result(replace(PHOTOS[0], shown=ALL))
    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading == "a.jpg  200×100"
    assert first.split() == ["■", "0.90", "a", "red", "mug", "10,20,61,70"]
    assert r"0.25  [b]a spoon[/b]\nor two" in second, "data is neither markup nor line breaks"


def test_each_region_has_its_own_colour_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    render.print_result(replace(PHOTOS[0], shown=ALL))
    _, first, second = capsys.readouterr().out.splitlines()
    for line, (red, green, blue) in zip((first, second), (PALETTE[0], GREY), strict=True):
        assert f"\x1b[38;2;{red};{green};{blue}m■" in line


def test_what_is_less_likely_right_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    box = (0.0, 0.0, 9.0, 9.0)
    regions = (
        Region(box, 0.9, "a dog", -1.0, 0.8),
        Region(box, 0.8, "a cat", -1.0, 0.2),
        Region(box, 0.1, "it", -1, 1),
    )
    found = ImageRegions("a.jpg", 10, 10, "m", regions, shown=HALF)
    render.print_result(found)
    _, dog, rest = capsys.readouterr().out.splitlines()
    assert dog.split() == ["■", "0.90", "a", "dog", "0.80", "0,0,9,9"]
    assert rest == "  2 more, less likely: --all shows all"
    render.print_lines(found)
    assert capsys.readouterr().out == "a.jpg\t0.90\ta dog\t0,0,9,9\t0.80\tsure\n"


def test_the_likeliest_region_is_printed_as_not_sure_where_none_is_likely(
    capsys: pytest.CaptureFixture[str],
) -> None:
    box = (0.0, 0.0, 9.0, 9.0)
    regions = (
        Region(box, 0.9, "a dog", -1.0, 0.1),
        Region(box, 0.5, "a cat", -1.0, 0.3),
        Region(box, 0.1, "it", -1, 0.9),
    )
    found = ImageRegions("a.jpg", 10, 10, "m", regions, shown=HALF)
    render.print_lines(found)
    assert capsys.readouterr().out == "a.jpg\t0.50\ta cat\t0,0,9,9\t0.30\tnot sure\n"
    render.print_result(found)
    cat = capsys.readouterr().out.splitlines()[1]
    assert cat.split() == ["■", "0.50", "a", "cat", "not", "sure", "0.30", "0,0,9,9"]
    render.print_lines(replace(found, shown=replace(HALF, threshold=0.0, confidence=0.0)))
    assert [line.split("\t")[-1] for line in capsys.readouterr().out.splitlines()] == [
        "not sure"
    ] * 3


def test_a_sentence_says_whether_it_is_sure(capsys: pytest.CaptureFixture[str]) -> None:
    unsure = Description("a.jpg", 9, 9, "m", "two wrestlers in red", -9.0)
    render.print_lines(unsure)
    assert capsys.readouterr().out == "a.jpg\t-9.00\ttwo wrestlers in red\tnot sure\n"
    render.print_result(unsure)
    assert "two wrestlers in red  not sure" in capsys.readouterr().out
    render.print_lines(replace(unsure, logprob=-1.0))
    assert capsys.readouterr().out.endswith("red\tsure\n")


def test_a_found_region_says_whether_its_caption_is_sure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    box = (0.0, 0.0, 9.0, 9.0)
    regions = (Region(box, 0.9, "a dog", confidence=0.9), Region(box, 0.8, "a robot", None, 0.2))
    render.print_findings([Finding("a.jpg", 9, 9, "tiny", "a cup", True, regions, 0.9, shown=HALF)])
    captions = [line.split("\t")[3] for line in capsys.readouterr().out.splitlines()]
    assert captions == ["a dog", "a robot (not sure)"]


def test_keywords_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_lines(Tags("a.jpg", 9, 9, "m", (Tag("dog", ("animal",)), Tag("grass"))))
    assert capsys.readouterr().out == "a.jpg\tanimal, dog, grass\n"


def test_nothing_found_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_result(PHOTOS[1])
    assert capsys.readouterr().out.splitlines() == ["deep/b.jpg  50×40", "  nothing found"]


def test_a_name_cannot_forge_lines(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_result(ImageRegions("a\n\x1b[31m[b]\udce9.jpg", 9, 9, "m", ()))
    assert capsys.readouterr().out.splitlines()[0] == r"a\n\x1b[31m[b]\udce9.jpg  9×9"
