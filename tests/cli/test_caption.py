"""The verb over a stand-in for the model, and once from end to end."""

from __future__ import annotations

import io
import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import regiontalk
from regiontalk.cli import caption, console
from regiontalk.cli.main import run
from regiontalk.errors import ModelError
from regiontalk.show.drawing import PALETTE


@pytest.fixture
def desk(tmp_path: Path, scene: Image.Image, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two photos, and a broken one in a folder of its own."""
    scene.save(tmp_path / "a.jpg")
    (tmp_path / "deep").mkdir()
    scene.resize((60, 40)).save(tmp_path / "deep" / "b.png")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "c.jpg").write_bytes(b"no photo")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_json_lines_follow_the_schema(
    desk: Path, stand_in: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["caption", "a.jpg", "deep", "--json"]) == 0
    first, second = lines(capsys)
    assert first == {
        "schema": "regiontalk/1",
        "path": "a.jpg",
        "width": 96,
        "height": 64,
        "model": "stand-in",
        "regions": [
            {
                "id": 0,
                "xyxy": [0.0, 0.0, 48.0, 64.0],
                "score": 0.9,
                "caption": "thing 0",
                "logprob": -1.5,
                "shown": True,
            },
            {
                "id": 1,
                "xyxy": [0.0, 0.0, 32.0, 21.33],
                "score": 0.65,
                "caption": "thing 1",
                "logprob": -1.5,
                "shown": True,
            },
        ],
    }
    assert (second["path"], second["width"], second["height"]) == ("deep/b.png", 60, 40)


def test_a_table_for_people(
    desk: Path, stand_in: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    assert run(["caption", "a.jpg"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "a.jpg  96×64"
    assert "thing 0" in out
    assert err == ""


def test_options_reach_the_model(desk: Path, stand_in: Any) -> None:
    options = [
        "--top",
        "7",
        "--threshold",
        "0.3",
        "--proposals",
        "50",
        "--size",
        "320",
        "--beam",
        "4",
    ]
    assert run(["caption", "a.jpg", "--json", *options]) == 0
    assert stand_in.asked == [
        {"photo": "a.jpg", "top": 7, "threshold": 0.3, "proposals": 50, "size": 320, "beam": 4},
    ]


def written(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> int:
    """How many regions of a photo a command prints or writes."""
    assert run(["caption", "a.jpg", "-q", *arguments]) == 0
    out = capfd.readouterr().out
    if "yolo" in arguments:
        return len(Path("set/labels/a.txt").read_text().splitlines())
    if "xmp" in arguments:
        return Path("a.jpg.xmp").read_text().count("<mwg-rs:Name>")
    if "-o" in arguments:
        return Path(arguments[-1]).read_text().count("thing ")
    return out.count("thing ")


@pytest.mark.parametrize(
    ("arguments", "in_each"),
    [
        ([], 1),
        (["--format", "csv"], 1),
        (["--format", "vg"], 1),
        (["--format", "hf"], 1),
        (["--format", "coco"], 2),
        (["--format", "labelstudio"], 1),
        (["--format", "yolo", "-o", "set"], 1),
        (["--format", "xmp"], 1),
        (["-o", "x.csv"], 1),
    ],
)
def test_one_set_of_regions_is_shown_everywhere(
    desk: Path,
    stand_in: Any,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    in_each: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The likely ones by default, and all of them with --all."""
    monkeypatch.setattr(stand_in, "more", 2)
    likely = [region["caption"] for region in json_of(["--likely"], capfd) if region["shown"]]
    assert len(likely) == 3
    assert written(arguments, capfd) == 3 * in_each
    shutil.rmtree("set", ignore_errors=True)
    assert written(["--likely", *arguments], capfd) == 3 * in_each
    shutil.rmtree("set", ignore_errors=True)
    assert written(["--all", *arguments], capfd) == 4 * in_each


def json_of(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert run(["caption", "a.jpg", "-q", "--json", *arguments]) == 0
    regions: list[dict[str, Any]] = json.loads(capfd.readouterr().out)["regions"]
    return regions


def test_json_has_all_regions_and_says_which_are_shown(
    desk: Path, stand_in: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stand_in, "more", 2)
    assert [one["shown"] for one in json_of([], capfd)] == [True, True, True, False]
    assert [one["shown"] for one in json_of(["--likely"], capfd)] == [True, True, True]
    assert [one["shown"] for one in json_of(["--all"], capfd)] == [True] * 4
    assert run(["caption", "a.jpg", "--all"]) == 0
    unsure = capfd.readouterr().out.splitlines()[-1]
    assert unsure == "a.jpg\t0.15\tthing 3\t0,0,19,13\t\tnot sure"


def test_keywords(desk: Path, stand_in: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["caption", "a.jpg", "deep", "--tags"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a.jpg\tanimal, dog, schipperke, grass",
        "deep/b.png\tanimal, dog, schipperke, grass",
    ]
    assert run(["caption", "a.jpg", "--tags", "--json", "--confidence", "0.7"]) == 0
    (line,) = lines(capsys)
    assert line["keywords"] == ["animal", "dog", "schipperke", "grass"]
    assert line["hierarchy"] == ["animal|dog|schipperke", "grass"]
    assert stand_in.asked[-1] == {"photo": "a.jpg", "confidence": 0.7}
    assert run(["caption", "a.jpg", "deep", "--tags", "-o", "page.html", "-q"]) == 0
    assert "schipperke" in Path("page.html").read_text()


@pytest.mark.parametrize(
    "more",
    [
        ["--tags", "--alt"],
        ["--tags", "--format", "csv"],
        ["--tags", "-o", "x.csv"],
        ["--tags", "--words", "3"],
        ["--tags", "--all"],
        ["--alt", "--likely"],
        ["--boxes", "0,0,9,9", "--all"],
    ],
)
def test_texts_and_boxes_have_no_likely_part(
    desk: Path, stand_in: Any, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["caption", "a.jpg", *more]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_model_folder_is_asked_for(
    desk: Path, monkeypatch: pytest.MonkeyPatch, stand_in: Any
) -> None:
    asked = []
    monkeypatch.setattr(regiontalk, "load", lambda folder, **_: asked.append(folder) or stand_in)
    assert run(["caption", "a.jpg", "-q"]) == 0
    assert run(["caption", "a.jpg", "-q", "--model", "mine"]) == 0
    assert asked == [None, Path("mine")]


@pytest.mark.parametrize("workers", ["1", "3"])
def test_a_broken_photo_among_others_is_named_and_skipped(
    desk: Path, stand_in: Any, capsys: pytest.CaptureFixture[str], workers: str
) -> None:
    arguments = ["caption", ".", "gone.jpg", "--json", "-j", workers]
    for strict, code in [([], 0), (["--strict"], 3)]:
        assert run([*arguments, *strict]) == code
        out, err = capsys.readouterr()
        assert [json.loads(line)["path"] for line in out.splitlines()] == [
            "./a.jpg",
            "./deep/b.png",
        ]
        assert err.splitlines()[:2] == [
            "regiontalk: skipped ./broken/c.jpg: not a photo of a supported type"
            "  (known: JPEG, PNG, WEBP, GIF, BMP, TIFF, AVIF)",
            "regiontalk: skipped gone.jpg: No such file or directory",
        ]
        assert err.splitlines()[2:] == ["regiontalk: 2 skipped, and --strict was given"] * bool(
            strict
        )


def test_hidden_files_are_named_but_do_not_count(
    desk: Path, stand_in: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (desk / "deep" / "._b.png").write_bytes(b"Mac OS X")
    assert run(["caption", "deep", "--json", "--strict"]) == 0
    assert capsys.readouterr().err == "regiontalk: left out deep/._b.png: a hidden file\n"
    assert run(["caption", "deep", "--json", "-q"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "Missing argument 'PATH...'"),
        (["broken/c.jpg"], 4, "broken/c.jpg: not a photo of a supported type"),
        (["broken"], 4, "broken/c.jpg: not a photo of a supported type"),
        (["gone.jpg", "--strict"], 4, "gone.jpg: No such file"),
        (["gone/*.jpg"], 4, "gone/*.jpg: No such file"),
        (["empty"], 4, "empty: no photo there"),
        (["empty", "empty"], 4, "empty and 1 more: no photo there"),
        (["http://x/y.jpg"], 4, "http://x/y.jpg: an address, not a file"),
        (["a.jpg", "--top", "0"], 2, "0 is not in the range"),
        (["a.jpg", "--top", "-1"], 2, "-1 is not in the range"),
        (["a.jpg", "--top", "1e9"], 2, "'1e9' is not a valid integer"),
        (["a.jpg", "--threshold", "1.5"], 2, "1.5 is not in the range"),
        (["a.jpg", "--threshold", "nan"], 2, "nan is not a valid number"),
        (["a.jpg", "--confidence", "1.5"], 2, "1.5 is not in the range"),
        (["a.jpg", "--confidence", "nan"], 2, "nan is not a valid number"),
        (
            ["a.jpg", "--boxes", "0,0,9,9", "--confidence", "0"],
            2,
            "--confidence cannot be used with --boxes",
        ),
        (["a.jpg", "--proposals", "0"], 2, "not in the range"),
        (["a.jpg", "--size", "8"], 2, "not in the range"),
        (["a.jpg", "--size", "1000000"], 2, "not in the range"),
        (["a.jpg", "--beam", "0"], 2, "not in the range"),
        (["a.jpg", "-j", "0"], 2, "not in the range"),
        (["a.jpg", "--max-megapixels", "0"], 2, "not in the range"),
        (["a.jpg", "--max-megapixels", "inf"], 2, "inf is not in the range"),
        (["a.jpg", "--max-megapixels", "nan"], 2, "nan is not a valid number"),
        (
            ["a.jpg", "--max-megapixels", "0.001"],
            4,
            "a.jpg: 96×64 is 0.0 megapixels, more than 0.001",
        ),
        (["a.jpg", "--format", "xml"], 2, "'xml' is not one of"),
        (["a.jpg", "--json", "--format", "coco"], 2, "--json cannot be used with --format"),
        (["a.jpg", "--boxes", "1,2,3"], 2, "neither a file nor"),
        (["a.jpg", "--boxes", "0,0,9,9", "--top", "3"], 2, "--top cannot be used with --boxes"),
        (
            ["a.jpg", "--boxes", "0,0,9,9", "--threshold", "0"],
            2,
            "--threshold cannot be used with --boxes",
        ),
        (["a.jpg", "deep", "--boxes", "0,0,9,9"], 2, "one list of boxes for 2 photos"),
        (["a.jpg", "-o", "out.pdf"], 2, "out.pdf: cannot be written in this format"),
        (["a.jpg", "deep", "-o", "out.png"], 2, "out.png: one picture for 2 photos"),
        (["a.jpg", "-o", "a.jpg"], 2, "a.jpg: already exists"),
        (["a.jpg", "-o", "."], 2, "a.jpg: already exists"),
    ],
)
def test_a_failure_is_one_line_an_exit_code_and_nothing_written(
    desk: Path,
    stand_in: Any,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    (desk / "empty").mkdir()
    before = {path: path.stat().st_mtime_ns for path in desk.rglob("*")}
    assert run(["caption", *arguments]) == code
    out, err = capsys.readouterr()
    assert message in err
    assert (out, err.count("\n")) == ("", 1)
    assert {path: path.stat().st_mtime_ns for path in desk.rglob("*")} == before


def test_nothing_but_broken_photos(
    desk: Path, stand_in: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["caption", "broken", "gone.jpg", "-o", "page.html"]) == 4
    assert (
        capsys.readouterr().err.splitlines()[-1]
        == "regiontalk: none of 2 photos could be captioned"
    )
    assert not Path("page.html").exists()


def test_a_huge_top_is_honest(desk: Path, stand_in: Any) -> None:
    assert run(["caption", "a.jpg", "--json", "--top", "1000000000"]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--words", "0"], 2, "words is 0; it must be from 1 to"),
        (["--words", "500"], 2, "words is 500; it must be from 1 to"),
        (["--words", "6"], 6, "'tiny' was not trained for captions of a given length"),
        (["--confidence", "0.5"], 6, "'tiny' has no fitted confidences"),
    ],
)
def test_what_a_model_cannot_be_asked_for_is_said_once(
    desk: Path,
    tiny_model: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    assert run(["caption", "a.jpg", "./a.jpg", "--model", str(tiny_model), *arguments]) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert "skipped" not in captured.err
    assert captured.out == ""


def test_paths_on_stdin(
    desk: Path, stand_in: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"deep/b.png\0a.jpg\0")))
    assert run(["caption", "-", "--json"]) == 0
    assert [line["path"] for line in lines(capsys)] == ["deep/b.png", "a.jpg"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    assert run(["caption", "-", "--json"]) == 4


def test_given_boxes_are_captioned(
    desk: Path, stand_in: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["caption", "a.jpg", "--json", "--boxes", "0,0,10,10;5,5,90,60.5"]) == 0
    (line,) = lines(capsys)
    assert [region["xyxy"] for region in line["regions"]] == [[0, 0, 10, 10], [5, 5, 90, 60.5]]
    Path("boxes.json").write_text(json.dumps({"a.jpg": [[1, 2, 3, 4]], "deep/b.png": []}))
    assert run(["caption", "a.jpg", "deep", "broken", "--json", "--boxes", "boxes.json"]) == 0
    out, err = capsys.readouterr()
    assert [len(json.loads(line)["regions"]) for line in out.splitlines()] == [1, 0]
    assert err == "regiontalk: skipped broken/c.jpg: no boxes for it in boxes.json\n"


def test_the_bar_is_no_place_for_results(
    desk: Path, stand_in: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """rich would take what is printed beside a bar to the bar's console, which is stderr."""
    from rich.console import Console

    stderr = io.StringIO()
    monkeypatch.setattr(console, "err", lambda: Console(file=stderr, force_terminal=True))
    assert run(["caption", "a.jpg", "deep", "--json"]) == 0
    assert len(lines(capsys)) == 2
    assert "Captioning" in stderr.getvalue()
    assert "schema" not in stderr.getvalue()


def test_what_is_no_fault_of_the_photo_ends_the_program(
    desk: Path, monkeypatch: pytest.MonkeyPatch, stand_in: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ModelError("the graph does not run")

    monkeypatch.setattr(type(stand_in), "__call__", fail)
    assert run(["caption", ".", "-q", "-j", "2"]) == 6
    assert capsys.readouterr().err == "regiontalk: the graph does not run\n"


def test_without_a_model_this_is_said(
    desk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regiontalk.models.packaged.EMBEDDED", desk / "no-weights")
    assert run(["caption", "a.jpg"]) == 6
    assert "this regiontalk package has no model" in capsys.readouterr().err
    assert run(["caption", "a.jpg", "--model", "deep"]) == 6


def test_from_end_to_end(
    desk: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str], scene: Image.Image
) -> None:
    arguments = ["caption", ".", "--model", str(tiny_model), "--json"]
    assert run(arguments) == 0
    first = capsys.readouterr().out
    assert run([*arguments, "-j", "2"]) == 0
    assert capsys.readouterr().out == first, "the same bytes again"
    photos = [json.loads(line) for line in first.splitlines()]
    assert [photo["path"] for photo in photos] == ["./a.jpg", "./deep/b.png"]
    for photo in photos:
        assert photo == regiontalk.load(tiny_model)(photo["path"]).to_dict()
        assert photo["regions"]
    assert run([*arguments[:-1], "--boxes", "1,2,30,40", "--json"]) == 2, "two photos, one list"
    capsys.readouterr()
    assert (
        run(
            ["caption", "a.jpg", "--model", str(tiny_model), "--boxes", "1,2,30,40;500,500,600,600"]
        )
        == 2
    )
    assert (
        "a.jpg: box 1, [500.0, 500.0, 600.0, 600.0]: nothing of it lies in the photo"
        in capsys.readouterr().err
    )
    assert run(["caption", ".", "--model", str(tiny_model), "-o", "page.html", "-q"]) == 0
    assert Path("page.html").stat().st_size > 1000


def test_a_closed_pipe_and_a_terminal(desk: Path, tiny_model: Path) -> None:
    program = [
        sys.executable,
        "-c",
        "from regiontalk.cli.main import main; main()",
        "caption",
        "--model",
    ]
    many = [str(tiny_model), *["./" * number + "a.jpg" for number in range(30)]]
    closed = subprocess.Popen(
        [*program, *many, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert closed.stdout is not None
    assert closed.stderr is not None
    closed.stdout.readline()
    closed.stdout.close()
    assert closed.stderr.read() == b""
    closed.stderr.close()
    assert closed.wait(timeout=60) == 0
    shown = on_terminal([*program, str(tiny_model), "a.jpg"])
    red, green, blue = PALETTE[0]
    assert f"\x1b[38;2;{red};{green};{blue}m■" in shown, "the first region's colour"


def on_terminal(command: list[str]) -> str:
    """What a command prints on a terminal that knows colours."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment)
    os.close(theirs)
    text = b""
    try:
        while piece := os.read(ours, 4096):
            text += piece
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(ours)
    assert process.wait(timeout=60) == 0
    return text.decode()


def test_finding_b12_a_pipe_gets_a_line_for_each_region(
    desk: Path, stand_in: Any, capsys: pytest.CaptureFixture[str], scene: Image.Image
) -> None:
    scene.save("a\tb\nc.jpg")
    assert run(["caption", "a.jpg", "deep", "a\tb\nc.jpg"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["a.jpg", "0.90", "thing 0", "0,0,48,64", "", "sure"]
    assert [row[0] for row in rows] == ["a.jpg"] * 2 + ["deep/b.png"] * 2 + [r"a\tb\nc.jpg"] * 2
    assert run(["caption", "a.jpg", "--boxes", rows[0][3]]) == 0, "a box can be given back"


def test_alt_texts(desk: Path, stand_in: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["caption", "a.jpg", "deep", "--alt"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a.jpg\tthing 0 and thing 1",
        "deep/b.png\tthing 0 and thing 1",
    ]
    assert run(["caption", "a.jpg", "--alt", "--json", "--top", "1", "--threshold", "0.2"]) == 0
    (line,) = lines(capsys)
    assert line == {
        **{
            "schema": "regiontalk/1",
            "path": "a.jpg",
            "width": 96,
            "height": 64,
            "model": "stand-in",
        },
        "alt": "thing 0",
        "sure": True,
    }
    assert stand_in.asked[-1] == {"photo": "a.jpg", "top": 1, "threshold": 0.2}
    for more in (
        ["--format", "coco"],
        ["--boxes", "0,0,9,9"],
        ["--proposals", "9"],
        ["--words", "3"],
    ):
        assert run(["caption", "a.jpg", "--alt", *more]) == 2


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "AVIF"])
def test_finding_b8_a_photo_on_stdin(
    form: str,
    desk: Path,
    stand_in: Any,
    scene: Image.Image,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    buffer = io.BytesIO()
    scene.save(buffer, form)
    for arguments in (["--json"], ["-o", "x.png"], ["-o", "out"], ["-o", "page.html", "--force"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(buffer.getvalue())))
        assert run(["caption", "-", *arguments]) == 0
    out, _ = capsys.readouterr()
    (line,) = map(json.loads, out.splitlines())
    assert (line["path"], line["width"]) == ("-", 96)


def test_finding_b8_other_bytes_on_stdin_are_one_line(
    desk: Path, stand_in: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for data in (
        b"%PDF-1.7\n" + bytes(range(256)) * 50,
        b"one\ntwo\nthree\n",
        b"\xff\xd8\xff broken",
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert run(["caption", "-"]) == 4
        assert capsys.readouterr().err.count("\n") == 1


def test_finding_b8_a_file_whose_name_looks_like_a_photo_is_a_path(
    desk: Path,
    stand_in: Any,
    scene: Image.Image,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene.save("GIF89a.gif")
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(b"GIF89a.gif\na.jpg\ngone.jpg\n"))
    )
    assert run(["caption", "-", "--json"]) == 0
    assert [line["path"] for line in lines(capsys)] == ["GIF89a.gif", "a.jpg"]


def test_finding_b17_one_photo_is_not_photos(
    desk: Path, stand_in: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["caption", "a.jpg", "-o", "x.json"]) == 0
    assert capsys.readouterr().err == "x.json: 1 photo\n"


HOSTILE = "x\x1b]0;title\x07\u009b31m\u202ereversed[/b][bold]\x7f.jpg"


def test_finding_c12_names_cannot_steer_a_terminal(
    desk: Path,
    stand_in: Any,
    scene: Image.Image,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (HOSTILE, "broken" + HOSTILE):  # "[/b]" is a folder and a name
        Path(name).parent.mkdir()
    scene.save(HOSTILE)
    Path("broken" + HOSTILE).write_bytes(b"no photo")
    monkeypatch.setenv("TERM", "dumb")
    for terminal in (False, True):
        monkeypatch.setattr(sys.stdout, "isatty", lambda terminal=terminal: terminal)
        for arguments in ([], ["--json"], ["--alt"], ["--format", "coco"], ["--format", "csv"]):
            assert run(["caption", HOSTILE, "broken" + HOSTILE, *arguments]) == 0
            out, err = capsys.readouterr()
            assert (out + err).replace("\n", "").replace("\t", "").isprintable() or (
                not terminal and "--format" in arguments
            )
            assert "[/b][bold]" in out + err
            if "--json" in arguments:
                assert json.loads(out)["path"] == HOSTILE


def test_help_names_every_column_of_a_line() -> None:
    text = " ".join(str(caption.command.help).split())
    columns = 'path, score, caption, box, confidence (empty if the model has none) and "sure" or'
    assert columns in text
