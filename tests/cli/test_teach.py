"""`regiontalk teach`: words from photos, folders and records; the word book's commands."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regiontalk.cli.main import run
from regiontalk.cli.teach import write_changes
from regiontalk.inference.teaching import Change
from regiontalk.models.word_book import read_word_book
from taught_things import a_book, things

PHOTOS = Path(__file__).parents[2] / "examples" / "photos"
Teach = Callable[..., int]


@pytest.fixture
def teach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Teach:
    """In a folder with two photos; the word book is the user's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGIONTALK_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("REGIONTALK_THREADS", "1")
    for name in ("chelsea", "coffee"):
        shutil.copy(PHOTOS / f"{name}.jpg", tmp_path)
    return lambda *given: run(["teach", *given])


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def write_records(folder: Path, *records: dict[str, Any]) -> None:
    folder.mkdir()
    lines = (json.dumps(record) + "\n" for record in records)
    (folder / "annotations.jsonl").write_text("".join(lines))


def record(image: str, *phrases: str, size: tuple[int, int] = (512, 341)) -> dict[str, Any]:
    regions = [{"xyxy": [143, 20, 352, 255], "phrase": phrase} for phrase in phrases]
    return {"image": image, "width": size[0], "height": size[1], "regions": regions}


def test_a_word_is_taught_used_and_forgotten(
    teach: Teach, capsys: pytest.CaptureFixture[str]
) -> None:
    assert teach("Chelsea", "chelsea.jpg") == 0
    out, err = capsys.readouterr()
    assert out == "Chelsea\t1 example\tweak: teach it with more photos\n"
    assert "word book: " in err
    assert run(["caption", "chelsea.jpg"]) == 0
    assert any("\tChelsea\t" in line for line in lines(capsys))
    assert run(["caption", "chelsea.jpg", "--words-book", "none"]) == 0
    assert not any("Chelsea" in line for line in lines(capsys))
    assert run(["find", "Chelsea", "chelsea.jpg"]) == 0
    assert "\tChelsea\t" in lines(capsys)[0]
    assert teach("forget", "CHELSEA") == 0
    assert teach("list") == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "no words in" in err


def test_json_says_how_well_words_are_known(
    teach: Teach, capsys: pytest.CaptureFixture[str]
) -> None:
    assert teach("mug", "coffee.jpg", "--box", "143,20,352,255", "--json") == 0
    (taught,) = json.loads(capsys.readouterr().out)["words"]
    assert (taught["word"], taught["added"], taught["weak"]) == ("mug", 1, True)
    assert teach("mug", "chelsea.jpg", "--not", "-q") == 0
    capsys.readouterr()
    assert teach("list", "--json") == 0
    (known,) = json.loads(capsys.readouterr().out)["words"]
    assert (known["examples"], known["others"]) == (1, 1)


def test_a_folder_teaches_a_word_for_each_of_its_folders(
    teach: Teach, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for word, photo in (("Chelsea", "chelsea"), ("mug", "coffee")):
        (tmp_path / "mine" / word).mkdir(parents=True)
        shutil.copy(PHOTOS / f"{photo}.jpg", tmp_path / "mine" / word)
    (tmp_path / "mine" / "mug" / "broken.jpg").write_bytes(b"no photo")
    assert teach("--from", "mine") == 0
    out, err = capsys.readouterr()
    assert [line.split("\t")[0] for line in out.splitlines()] == ["Chelsea", "mug"]
    assert "skipped" in err
    assert "broken.jpg" in err


def test_records_teach_their_short_phrases(
    teach: Teach, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    regions = [
        {"xyxy": [71.5, 10, 176, 127.5], "phrase": "a mug"},
        {"xyxy": [0, 0, 50, 50], "phrase": "a corner of an old wooden table"},
    ]
    half = {"image": "../coffee.jpg", "width": 256, "height": 170, "regions": regions}
    write_records(tmp_path / "records", half)
    assert teach("--from", "records") == 0
    out, err = capsys.readouterr()
    assert out.startswith("mug\t1 example")
    assert "left out 1 phrase of more than 3 words" in err
    (book,) = (tmp_path / "data").glob("words-*.npz")
    (example,) = read_word_book(book).examples
    assert example.xyxy == pytest.approx((143, 20, 352, 255), abs=3)  # in the photo's own pixels


def test_bad_records_are_skipped_with_their_reasons(
    teach: Teach, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(
        tmp_path / "mixed",
        record("../coffee.jpg", "a mug", "", "cup; saucer"),
        record("gone.jpg", "a mug"),
        record("../chelsea.jpg", "a cat", size=(0, 0)),
    )
    assert teach("--from", "mixed") == 0
    out, err = capsys.readouterr()
    assert out == "mug\t1 example\tweak: teach it with more photos\n"
    coffee = tmp_path / "coffee.jpg"
    assert [line.partition("skipped ")[2] for line in err.splitlines()[:3]] == [
        f"{tmp_path / 'mixed' / 'gone.jpg'}: No such file or directory",
        "../chelsea.jpg: its record says that it has 0×0 pixels",
        f"{coffee}: 'cup; saucer': a word cannot have a semicolon or a quotation mark, nor "
        "start with a minus",
    ]
    (book,) = (tmp_path / "data").glob("words-*.npz")
    (example,) = read_word_book(book).examples
    assert example.photo == str(coffee)  # as the photo itself would be called


@pytest.mark.parametrize("options", [(), ("--train", "-o", "new")])
def test_records_without_words_teach_nothing(
    teach: Teach, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    write_records(tmp_path / "empty", record("../coffee.jpg", "", " "))
    assert teach("--from", "empty", *options) == 4
    assert "no region with a short phrase" in capsys.readouterr().err


def test_words_go_to_another_machine(
    teach: Teach, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teach("Chelsea", "chelsea.jpg", "-q")
    teach("mug", "coffee.jpg", "-q")
    assert teach("export", "mine.npz", "mug") == 0
    (example,) = read_word_book(Path("mine.npz")).examples
    assert (example.word, example.photo) == ("mug", "coffee.jpg")  # no folder is told
    assert teach("export", "mine.npz") == 2
    assert teach("merge", "mine.npz", "--words-book", "theirs.npz") == 0
    assert read_word_book(Path("theirs.npz")).words == ("mug",)
    assert "1 word, 1 example" in capsys.readouterr().err


def test_a_book_of_another_model_is_refused(
    teach: Teach, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("other.npz").write_bytes(a_book(mug=things(0)).to_bytes())
    assert teach("merge", "other.npz") == 6
    assert teach("list", "--words-book", "other.npz") == 6
    assert run(["caption", "coffee.jpg", "--words-book", "other.npz"]) == 6
    assert capsys.readouterr().err.count("words of another model, 'a model'") == 3


def test_a_damaged_book_is_told_and_kept_aside(
    teach: Teach, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    teach("Chelsea", "chelsea.jpg", "-q")
    (book,) = (tmp_path / "data").glob("words-*.npz")
    damaged = book.read_bytes()[:-100]
    book.write_bytes(damaged)
    capsys.readouterr()
    assert run(["caption", "chelsea.jpg"]) == 6
    assert teach("Rex", "chelsea.jpg") == 6
    assert str(book) in capsys.readouterr().err
    assert book.read_bytes() == damaged
    assert teach("forget", "--all") == 0
    assert book.with_name(f"{book.name}.old").read_bytes() == damaged
    assert teach("Rex", "chelsea.jpg") == 0


def test_a_damaged_book_of_others_is_no_reason_to_forget(
    teach: Teach, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("theirs.npz").write_bytes(a_book(mug=things(0)).to_bytes()[:-100])
    assert teach("merge", "theirs.npz") == 6
    err = capsys.readouterr().err
    assert "theirs.npz: not a word book" in err
    assert "forget" not in err


def test_the_least_sure_regions_of_a_folder(
    teach: Teach, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["index", ".", "-q"]) == 0
    assert teach("next", ".") == 0
    assert "no taught words yet" in capsys.readouterr().err
    teach("Chelsea", "chelsea.jpg", "-q")
    capsys.readouterr()
    assert teach("next", ".", "--top", "1", "--json") == 0
    (region,) = json.loads(capsys.readouterr().out)["regions"]
    assert region["word"] == "Chelsea"
    assert 0 <= region["probability"] <= 1
    assert run(["search", "Chelsea", "."]) == 0
    assert lines(capsys)[0].startswith("chelsea.jpg\t")


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (("croissant",), 2, "a word and one photo"),
        (("croissant", "missing.jpg"), 4, "missing.jpg"),
        (("x" * 200, "chelsea.jpg"), 2, "200 characters"),
        (("a", "chelsea.jpg", "coffee.jpg", "--box", "0,0,9,9"), 2, "one photo at a time"),
        (("a", "chelsea.jpg", "--box", "5,5,1,1"), 2, "--box"),
        (("--from", "missing"), 4, "no such folder"),
        (("--from", "."), 4, "no sub-folder with photos"),
        (("a", "--from", "."), 2, "--from takes no word"),
        (("forget",), 2, "give words to forget"),
        (("forget", "spoon"), 2, "not a taught word"),
        (("export", "out.npz"), 2, "no taught words yet"),
        (("merge", "missing.npz"), 6, "missing.npz"),
        (("list", "--words-book", "none"), 2, "no word book"),
        (("a", "chelsea.jpg", "--model", "fast"), 6, "cannot be taught"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(
    teach: Teach,
    capsys: pytest.CaptureFixture[str],
    given: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    assert teach(*given) == code
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (("--train",), 2, "needs -o"),
        (("--train", "-o", "data"), 2, "already exists"),
        (("Rex", "chelsea.jpg", "--train", "-o", "new"), 2, "--train takes no word"),
        (("--train", "-o", "new"), 2, "no taught words yet"),
        (("--train", "-o", "new", "--from", "missing"), 4, "no such folder"),
        (("--train", "-o", "new", "--from", "few"), 4, "1 examples can be used"),
        (("Rex", "chelsea.jpg", "-o", "new"), 2, "-o is for --train"),
    ],
)
def test_training_says_what_it_needs(
    teach: Teach,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    given: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "few" / "cat").mkdir(parents=True)
    shutil.copy("chelsea.jpg", tmp_path / "few" / "cat")
    assert teach(*given) == code
    assert said in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_page_shows_the_captions_before_and_after(tmp_path: Path) -> None:
    photo = PHOTOS / "coffee.jpg"
    box = (143.0, 20.0, 352.0, 255.0)
    change = Change(photo, "coffee.jpg", box, "a cup", "an espresso", "an espresso")
    write_changes(tmp_path / "page.html", [change])
    assert "an espresso (before: a cup)" in (tmp_path / "page.html").read_text()


def test_teaching_writes_what_it_changed(
    teach: Teach, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert teach("<b>Chelsea</b>", "chelsea.jpg", "--page", "page.html") == 0
    assert "page.html: 1 caption changed" in capsys.readouterr().err
    page = (tmp_path / "page.html").read_text()
    assert r"\u003cb\u003eChelsea\u003c/b\u003e (before: a cat)" in page
    assert "<b>Chelsea" not in page
    assert teach("<b>Chelsea</b>", "chelsea.jpg", "--page", "again.html") == 0
    assert "again.html: 0 captions changed" in capsys.readouterr().err
