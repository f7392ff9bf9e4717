from __future__ import annotations

from dataclasses import replace

import pytest

from regiontalk.cli import render
from regiontalk.results import ImageRegions, Region, Shown
from regiontalk.show.drawing import PALETTE

MUG = Region((10.0, 20.0, 60.504, 70.0), 0.9, "a red mug", -3.2)
SPOON = Region((0.0, 0.0, 200.0, 100.0), 0.25, "[b]a spoon[/b]\nor two")
PHOTOS = [
    ImageRegions("a.jpg", 200, 100, "tiny", (MUG, SPOON)),
    ImageRegions("deep/b.jpg", 50, 40, "tiny", ()),
    ImageRegions("c.jpg", 100, 100, "tiny", (MUG,)),
]


def test_the_table_shows_score_caption_and_box(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_result(PHOTOS[0])
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
    render.print_result(PHOTOS[0])
    _, first, second = capsys.readouterr().out.splitlines()
    for line, (red, green, blue) in zip((first, second), PALETTE, strict=False):
        assert f"\x1b[38;2;{red};{green};{blue}m■" in line


def test_what_is_less_likely_right_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    box = (0.0, 0.0, 9.0, 9.0)
    regions = (
        Region(box, 0.9, "a dog", -1.0, 0.8),
        Region(box, 0.8, "a cat", -1.0, 0.2),
        Region(box, 0.1, "it", -1, 1),
    )
    found = ImageRegions("a.jpg", 10, 10, "m", regions, shown=Shown(confidence=0.5))
    render.print_result(found)
    _, dog, rest = capsys.readouterr().out.splitlines()
    assert dog.split() == ["■", "0.90", "a", "dog", "0.80", "0,0,9,9"]
    assert rest == "  2 more, less likely: --confidence 0 shows all"
    render.print_lines(found)
    assert capsys.readouterr().out == "a.jpg\t0.90\ta dog\t0,0,9,9\t0.80\n"


def test_the_likeliest_region_is_printed_where_none_is_likely_and_all_where_words_may_be_anything(
    capsys: pytest.CaptureFixture[str],
) -> None:
    box = (0.0, 0.0, 9.0, 9.0)
    regions = (
        Region(box, 0.9, "a dog", -1.0, 0.1),
        Region(box, 0.5, "a cat", -1.0, 0.3),
        Region(box, 0.1, "it", -1, 0.9),
    )
    found = ImageRegions("a.jpg", 10, 10, "m", regions, shown=Shown(confidence=0.5))
    render.print_lines(found)
    assert capsys.readouterr().out == "a.jpg\t0.50\ta cat\t0,0,9,9\t0.30\n"
    render.print_lines(replace(found, shown=Shown(confidence=0.0)))
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_nothing_found_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_result(PHOTOS[1])
    assert capsys.readouterr().out.splitlines() == ["deep/b.jpg  50×40", "  nothing found"]


def test_a_name_cannot_forge_lines(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_result(ImageRegions("a\n\x1b[31m[b]\udce9.jpg", 9, 9, "m", ()))
    assert capsys.readouterr().out.splitlines()[0] == r"a\n\x1b[31m[b]\udce9.jpg  9×9"
