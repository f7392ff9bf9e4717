"""`regiontalk evaluate judge`: from predictions to a page, from the page to figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from chromium import Browser
from regiontalk.cli.main import run

LEFT, RIGHT = [0, 0, 40, 40], [50, 10, 90, 60]


@pytest.fixture
def predictions(tmp_path: Path) -> Path:
    """Two photos with two captions each, beside their predictions."""
    lines = []
    for name, colour in (("a.png", "red"), ("b.png", "blue")):
        Image.new("RGB", (100, 80), colour).save(tmp_path / name)
        regions = [
            {"xyxy": LEFT, "score": 0.9, "caption": f"a {colour} mug"},
            {"xyxy": RIGHT, "score": 0.5, "caption": f"the {colour} table"},
            {"xyxy": RIGHT, "score": 0.1, "caption": "unlikely"},
        ]
        lines.append(
            {"path": name, "width": 100, "height": 80, "model": "tiny", "regions": regions}
        )
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


SHOWN = "document.body.dataset.shown === '{}'"


@pytest.mark.timeout(90)
def test_judging_in_chromium_and_reading_it_back(
    predictions: Path, tmp_path: Path, browser: Browser, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert run(["evaluate", "judge", "--predictions", str(predictions), "-o", str(page)]) == 0
    assert "4 captions of 2 photos" in capsys.readouterr().err
    browser.events.clear()
    browser.open(page.as_uri())
    browser.wait_for(SHOWN.format(0))
    assert browser.ask("document.querySelector('#crop rect').getAttribute('width')") == "40"
    browser.click("#judge")
    browser.write("Ada")
    browser.ask("document.activeElement.blur()")
    said = []
    for number, key in enumerate("123"):
        said.append(browser.ask("document.querySelector('#caption').textContent"))
        browser.press(key)
        browser.wait_for(SHOWN.format(number + 1))
    browser.press("u")
    browser.wait_for(SHOWN.format(2))
    browser.reload()  # what was judged is still there
    browser.wait_for(SHOWN.format(2))
    browser.click("[data-verdict=half]")
    browser.wait_for(SHOWN.format(3))
    browser.press("w")
    browser.wait_for("!document.querySelector('#done').hidden")
    assert (
        browser.ask("document.querySelector('#shares').textContent")
        == "right 25.0 %, half 50.0 %, wrong 25.0 %"
    )
    complaints = ("Log.entryAdded", "Runtime.exceptionThrown")
    assert not [event for event in browser.events if event["method"] in complaints]

    folder = tmp_path / "downloads"
    folder.mkdir()
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    browser.click("#download")
    judging = folder / "judging-Ada.json"
    for _ in range(100):
        if judging.is_file():
            break
        browser.ask("new Promise(done => setTimeout(done, 50))")
    data = json.loads(judging.read_text())
    assert (data["judge"], data["model"]) == ("Ada", "tiny")
    assert [item["verdict"] for item in data["items"]] == ["right", "half", "half", "wrong"]
    assert [item["caption"] for item in data["items"]][:3] == said
    assert run(["evaluate", "judge", "--judged", str(judging), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["right"], figures["half"], figures["wrong"], figures["captions"]) == (
        25,
        50,
        25,
        4,
    )


def judged(path: Path, judge: str, *verdicts: str | None) -> str:
    items = [
        {"photo": "a", "xyxy": [0, 0, 1, n], "caption": "x", "verdict": one}
        for n, one in enumerate(verdicts, 1)
    ]
    path.write_text(
        json.dumps({"judge": judge, "date": "2026-01-01", "model": "tiny", "items": items})
    )
    return str(path)


def test_several_judges_and_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ada = judged(tmp_path / "ada.json", "Ada", "right", "half", "wrong", None)
    bob = judged(tmp_path / "bob.json", "Bob", "right", "wrong", "wrong", "half")
    both = ["evaluate", "judge", "--judged", ada, "--judged", bob]
    assert run([*both, "--record", str(tmp_path / "kept")]) == 0
    out = capsys.readouterr().out
    assert "Ada and Bob" in out
    assert "66.7" in out
    stored = json.loads((tmp_path / "kept" / "metrics.json").read_text())
    assert (stored["kind"], stored["agreement"][0]["captions"]) == ("judged", 3)
    assert [one["role"] for one in stored["record"]["inputs"]] == ["judging", "judging"]


def test_sheets_of_photos_in_a_data_set(
    scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [json.loads(line) for line in (scenes / "annotations.jsonl").read_text().splitlines()]
    lines = [
        {"path": f"elsewhere/{one['image']}", "sentence": "A drawing."}
        for one in records
        if one["split"] == "dev"
    ]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ["--predictions", str(path), "--data", str(scenes), "--split", "dev", "--photos", "3"]
    assert run(["evaluate", "judge", *options, "--list", str(tmp_path / "sheets")]) == 0
    assert "3 captions of 3 photos" in capsys.readouterr().err
    data: dict[str, Any] = json.loads((tmp_path / "sheets" / "judging.json").read_text())
    assert [item["caption"] for item in data["items"]] == ["A drawing."] * 3
    with Image.open(tmp_path / "sheets" / "sheet-001.jpg") as sheet:
        assert sheet.width > 400
    assert run(["evaluate", "judge", *options, "--list", str(tmp_path / "sheets")]) == 2, (
        "nothing is overwritten"
    )


def test_a_photo_that_is_gone_is_named(
    predictions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.png").unlink()
    options = [
        "evaluate",
        "judge",
        "--predictions",
        str(predictions),
        "-o",
        str(tmp_path / "page.html"),
    ]
    assert run([*options, "--strict"]) == 3
    assert "2 captions of 1 photo" in capsys.readouterr().err
    (tmp_path / "b.png").unlink()
    assert run(options) == 4


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["-o", "x.html"],
        ["--predictions", "P"],
        ["--predictions", "P", "--judged", "P"],
        ["--top", "0"],
    ],
)
def test_usage_errors(options: list[str], predictions: Path) -> None:
    assert (
        run(["evaluate", "judge", *(str(predictions) if one == "P" else one for one in options)])
        == 2
    )
