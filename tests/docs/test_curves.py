from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from curves import POINTS, draw_curves, read_curves, thinned

from regiontalk.errors import DataError


def write_log(path: Path, steps: int) -> None:
    entries = [
        {"seconds": s, "step": s, "rate": 0.1, "photos_per_second": 5, "caption": 2 / s}
        for s in range(1, steps)
    ]
    entries.append({"seconds": steps, "step": steps, "dev": {"dense_map": 0.25}})
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")


def test_losses_and_dev_figures_are_curves_and_nothing_else(tmp_path: Path) -> None:
    write_log(tmp_path / "log.jsonl", 5)
    curves = read_curves(tmp_path / "log.jsonl")
    assert curves == {
        "caption": [(1, 2), (2, 1), (3, 2 / 3), (4, 0.5)],
        "dev dense_map": [(5, 0.25)],
    }


def test_a_long_curve_is_thinned_by_means() -> None:
    curve = [(float(step), float(step % 2)) for step in range(999)]
    thin = thinned(curve)
    assert len(thin) <= POINTS
    assert all(abs(value - 0.5) < 0.07 for _, value in thin), "single values are averaged away"
    assert thinned(curve[:7]) == curve[:7]


def test_the_picture_is_xml_with_a_chart_for_each_curve() -> None:
    picture = ElementTree.fromstring(draw_curves({"a<b": [(1, 3), (2, 1)], "one": [(4, 2)]}))
    names = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "a<b" in names
    assert "step 4" in names
    first = next(picture.iter("{http://www.w3.org/2000/svg}polyline")).get("points")
    assert first == "100.0,0.0 200.0,110.0", (
        "the highest value at the top, the last step at the right"
    )


def test_a_broken_log_is_named_with_its_line(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"step": 1, "caption": 2}\n{"step": 2, "capt', encoding="utf-8")
    with pytest.raises(DataError, match="line 2"):
        read_curves(log)
