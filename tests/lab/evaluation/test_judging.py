"""Judging by eye: which captions are shown, what comes back, and the figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from regiontalk.errors import DataError, ImageError
from regiontalk.lab.evaluation.files import Problems
from regiontalk.lab.evaluation.judging import (
    Item,
    Judging,
    agreement,
    choose,
    evaluate_judgings,
    open_photos,
    own_sizes,
    read_captioned,
    read_judging,
    write_page,
    write_sheets,
)
from regiontalk.results import ImageRegions, Region, Shown

BOX = (10.0, 10.0, 50.0, 40.0)


def photo(name: str, *scores: float) -> ImageRegions:
    regions = tuple(Region(BOX, score, f"caption {score}") for score in scores)
    return ImageRegions(name, 100, 80, "m", regions)


def judging(judge: str, verdicts: str, captions: str = "abcdefghij") -> Judging:
    """Verdicts by their first letters; "-" is not judged."""
    names = {"r": "right", "h": "half", "w": "wrong", "-": None}
    items = tuple(
        Item("a.jpg", BOX, text, names[one]) for one, text in zip(verdicts, captions, strict=False)
    )
    return Judging(judge, "2026-01-01", "m", items)


def test_a_seeded_sample_of_photos_with_their_best_captions() -> None:
    photos = [photo(f"{n}.jpg", 0.2, 0.5, 0.9, 0.7) for n in range(20)] + [
        photo("empty.jpg", 0.05, 0.1),
        photo("none.jpg"),
    ]
    shown = Shown(0.3, 2)
    chosen = choose(photos, 7, shown, seed=1)
    assert [one.path for one in chosen] == [one.path for one in choose(photos[::-1], 7, shown, 1)]
    assert [one.path for one in chosen] != [one.path for one in choose(photos, 7, shown, 2)]
    assert len({one.path for one in chosen}) == 7
    assert all([region.score for region in one.regions] in ([0.9, 0.7], [0.1]) for one in chosen)
    every = {one.path: one.regions for one in choose(photos, 100, shown)}
    assert len(every) == 21
    assert [region.score for region in every["empty.jpg"]] == [0.1], (
        "the likeliest, though it is not likely"
    )
    with pytest.raises(DataError, match="no caption to judge"):
        choose([photo("none.jpg")], 7, shown)


def test_unlikely_words_are_left_out(tmp_path: Path) -> None:
    regions = [
        {"xyxy": BOX, "score": 0.5, "caption": f"{sure}", "confidence": sure}
        for sure in (0.2, 0.8, None)
    ]
    (tmp_path / "p.jsonl").write_text(json.dumps({"path": "a.jpg", "regions": regions}))
    found = read_captioned(tmp_path / "p.jsonl", {"a.jpg": (100, 80)}, Problems())
    (chosen,) = choose(found, 1, Shown(0.3, 5, confidence=0.5))
    assert [region.caption for region in chosen.regions] == ["0.8", "None"]


def test_captions_and_sentences_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    line: dict[str, Any] = {"path": "x/a.jpg", "width": 100, "height": 80, "model": "m"}
    path.write_text(
        json.dumps(line | {"regions": [{"xyxy": BOX, "score": 0.5, "caption": "a mug"}]})
    )
    (found,) = read_captioned(path, {"a.jpg": (100, 80)}, Problems())
    assert (found.path, found.model, found.regions[0].caption) == ("a.jpg", "m", "a mug")
    path.write_text(json.dumps(line | {"sentence": "A mug stands there."}))
    (found,) = read_captioned(path, {"a.jpg": (100, 80)}, Problems())
    assert (found.regions[0].xyxy, found.regions[0].caption) == (
        (0, 0, 100, 80),
        "A mug stands there.",
    )


def test_sizes_of_photos_that_no_record_describes(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    bad: list[dict[str, Any]] = [
        {"path": 5, "width": 1, "height": 1},
        {"path": "b", "width": 1 << 40, "height": 9},
    ]
    good = {"path": "a.jpg", "width": 100, "height": 80}
    path.write_text("\n".join(json.dumps(line) for line in [*bad, good]))
    assert own_sizes(path) == {"a.jpg": (100, 80)}
    path.write_text(json.dumps(bad[1]))
    with pytest.raises(DataError, match="no line has a path"):
        own_sizes(path)


def opened(scene: Image.Image) -> list[tuple[ImageRegions, Image.Image]]:
    return [(photo("a.jpg", 0.9, 0.5), scene), (photo("b.jpg", 0.7), scene)]


def test_the_page_holds_everything_and_captions_cannot_leave_it(
    scene: Image.Image, tmp_path: Path
) -> None:
    evil = "</script><script>document.title='owned'</script>"
    found = ImageRegions(evil, 100, 80, "m", (Region(BOX, 0.5, evil),))
    items = write_page(tmp_path / "page.html", [*opened(scene), (found, scene)])
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert [item.caption for item in items] == ["caption 0.9", "caption 0.5", "caption 0.7", evil]
    assert text.count("<script") == 2
    assert "default-src 'none'" in text
    assert "{{" not in text.replace("${", "")
    block = text.partition('type="application/json">')[2].partition("</script>")[0]
    data = json.loads(block)
    assert (data["model"], len(data["photos"]), data["photos"][2]["regions"][0]["caption"]) == (
        "m",
        3,
        evil,
    )
    assert data["photos"][0]["regions"][0]["share"] == [0.1, 0.125, 0.5, 0.5]


def test_sheets_come_with_a_judging_to_fill_in(scene: Image.Image, tmp_path: Path) -> None:
    write_sheets(tmp_path / "sheets", opened(scene) * 4)
    assert sorted(file.name for file in (tmp_path / "sheets").iterdir()) == [
        *("judging.json", "sheet-001.jpg", "sheet-002.jpg")
    ]
    path = tmp_path / "sheets" / "judging.json"
    with pytest.raises(DataError, match="nothing is judged"):
        read_judging(path)
    data = json.loads(path.read_text())
    assert [(item["number"], item["sheet"]) for item in data["items"]][8:10] == [
        (9, "sheet-001.jpg"),
        (10, "sheet-002.jpg"),
    ]
    data["items"][0]["verdict"] = "half"
    path.write_text(json.dumps(data))
    assert evaluate_judgings([read_judging(path)])["half"] == 100


def test_photos_that_do_not_open_are_named_and_left_out(scene: Image.Image) -> None:
    def opener(path: str) -> Image.Image:
        if path == "bad.jpg":
            raise ImageError("not a photo")
        return scene

    heard: list[str] = []
    found = open_photos(
        [photo("a.jpg", 0.5), photo("bad.jpg", 0.5)], opener, Problems(tell=heard.append)
    )
    assert [one.path for one, _ in found] == ["a.jpg"]
    assert heard == ["bad.jpg: not a photo; skipped"]
    with pytest.raises(DataError, match="none of the photos"):
        list(open_photos([photo("bad.jpg", 0.5)], opener, Problems()))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "not of type dict"),
        ('{"judge": "x"}', "'date' is missing"),
        (
            '{"schema": "other/1", "judge": "", "date": "", "model": "", "items": []}',
            "'other/1' is not a judging",
        ),
        (
            '{"judge": "", "date": "", "model": "", "items": [{"photo": "a", "xyxy": [0, 0, 1, 1], "caption": "x", '
            '"verdict": "good"}]}',
            "the verdict 'good' is none of",
        ),
    ],
)
def test_what_is_no_judging(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "j.json").write_text(text)
    with pytest.raises(DataError, match=reason):
        read_judging(tmp_path / "j.json")


def test_shares_with_intervals() -> None:
    figures = evaluate_judgings([judging("Ada", "rrrrrrhhw-")])
    assert (figures["captions"], figures["agreement"]) == (9, [])
    assert [figures[name] for name in ("right", "half", "wrong")] == pytest.approx(
        [600 / 9, 200 / 9, 100 / 9]
    )
    assert figures["judges"][0]["captions"] == 9


def test_intervals_go_by_photos() -> None:
    """Two judges who agree are not twice as certain; captions of one photo are not independent."""
    together = judging("Ada", "rrrrrhhwww")
    apart = tuple(
        replace(item, photo=f"{number}.jpg") for number, item in enumerate(together.items)
    )
    ada = replace(together, items=apart)
    alone = evaluate_judgings([ada])["intervals"]
    assert evaluate_judgings([ada, replace(ada, judge="Bob")])["intervals"] == alone
    low, high = alone["right"]
    assert low < 50 < high
    on_one_photo = evaluate_judgings([together])["intervals"]
    assert on_one_photo["right"] == [50, 50], "one photo says nothing about others"


def test_two_judges_agree_beyond_chance() -> None:
    figures = evaluate_judgings([judging("Ada", "rrrrrrhhww"), judging("Bob", "rrrrrhhwww")])
    (found,) = figures["agreement"]
    assert (found["judges"], found["captions"], found["percent"]) == (["Ada", "Bob"], 10, 80)
    chance = 0.6 * 0.5 + 0.2 * 0.2 + 0.2 * 0.3
    assert found["kappa"] == pytest.approx((0.8 - chance) / (1 - chance))
    assert figures["right"] == pytest.approx(55)
    assert figures["captions"] == 10


def test_agreement_where_there_is_nothing_to_compare() -> None:
    assert agreement({"a": "right"}, {"b": "right"}) is None
    found = agreement({"a": "right", "b": "right"}, {"a": "right", "b": "right"})
    assert found == {"captions": 2, "percent": 100, "kappa": None}, (
        "by chance they would agree as well"
    )
