"""The driver: whole or not at all, the same bytes twice, everything counted."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from regiontalk.errors import DataError, RegionTalkError, SkippedInputs, UsageError
from regiontalk.images.photo import open_photo
from regiontalk.io.files import json_line
from regiontalk.lab.data import prepare as module
from regiontalk.lab.data import writing
from regiontalk.lab.data.checking import Checker
from regiontalk.lab.data.prepare import Settings, prepare
from regiontalk.lab.data.records import Dataset


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture
def photos(tmp_path, make_scene) -> Path:
    folder = tmp_path / "photos"
    (folder / "deep").mkdir(parents=True)
    make_scene((96, 64)).save(folder / "a.jpg")
    make_scene((60, 90)).save(folder / "deep" / "a.jpg")
    make_scene((40, 40)).save(folder / "c.png")
    return folder


@pytest.fixture
def source(photos) -> Path:
    lines: list[dict[str, Any]] = [
        {"image": "a.jpg", "regions": [{"xyxy": [-3, 6, 50.5, 64], "phrase": "a sun"}] * 2},
        {"image": "deep/a.jpg", "split": "test", "sentences": ["A house.", "Grass."]},
        {"image": "c.png", "regions": [{"xyxy": [0, 0, 40, 40], "phrase": "a drawing"}]},
    ]
    path = photos / "lines.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.mark.parametrize("settings", [Settings(), Settings(pack=48)])
def test_the_same_bytes_twice(source, tmp_path, settings):
    prepare("jsonl", source, tmp_path / "one", settings)
    time.sleep(0.01)
    prepare("jsonl", source, tmp_path / "two", settings)
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_the_description_counts(source, tmp_path):
    done = prepare("jsonl", source, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "dataset.json").read_text()) == done.description
    assert done.description == {
        "source": "jsonl",
        "settings": {"split_file": None, "min_regions": 0, "max_regions": None, "pack": None},
        "images": 3,
        "regions": 3,
        "sentences": 2,
        "splits": {
            "test": {"images": 1, "regions": 0, "sentences": 2},
            "train": {"images": 2, "regions": 3, "sentences": 0},
        },
        "skipped_images": {},
        "left_out_images": {},
        "missing_photos": 0,
        "dropped_regions": {},
        "clamped_regions": 2,
    }


@pytest.mark.parametrize("settings", [Settings(), Settings(pack=48)])
def test_what_is_prepared_has_nothing_broken(source, tmp_path, settings):
    prepare("jsonl", source, tmp_path / "out", settings)
    assert list(Checker(tmp_path / "out").problems()) == []


def test_the_number_of_regions_can_be_asked_for(source, tmp_path):
    done = prepare("jsonl", source, tmp_path / "out", Settings(min_regions=1, max_regions=1))
    assert [Path(record.image).name for record in Dataset(tmp_path / "out")] == ["c.png"]
    assert done.description["left_out_images"] == {
        "fewer than 1 regions": 1,
        "more than 1 regions": 1,
    }


def test_packed_photos_are_resized_and_boxes_with_them(source, tmp_path):
    prepare("jsonl", source, tmp_path / "out", Settings(pack=48))
    dataset = Dataset(tmp_path / "out")
    assert [(record.image, record.shard) for record in dataset] == [
        ("a.jpg", "images-00000.tar"),
        ("a-2.jpg", "images-00000.tar"),
        ("c.jpg", "images-00000.tar"),
    ]
    assert [(record.width, record.height) for record in dataset] == [(48, 32), (32, 48), (40, 40)]
    assert dataset[0].regions[0].xyxy == (0, 3, 25.25, 32)
    assert (dataset[0].original_width, dataset[0].original_height) == (96, 64)
    for record in dataset:
        assert open_photo(dataset.read_photo(record)).size == (record.width, record.height)


def test_a_packed_data_set_can_be_moved(source, photos, tmp_path):
    prepare("jsonl", source, tmp_path / "out", Settings(pack=48))
    for path in sorted(photos.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (tmp_path / "out").rename(tmp_path / "moved")
    assert list(Checker(tmp_path / "moved").problems()) == []


def test_a_photo_of_another_size_than_its_record_is_not_packed(source, tmp_path, photos):
    path = photos / "sized.jsonl"
    wrong = {"image": "a.jpg", "width": 64, "height": 96, "sentences": ["Turned."]}
    right = {"image": "c.png", "width": 40, "height": 40, "sentences": ["Right."]}
    path.write_text("\n".join(map(json.dumps, (wrong, right))))
    done = prepare("jsonl", path, tmp_path / "out", Settings(pack=32))
    assert [record.image for record in Dataset(tmp_path / "out")] == ["c.jpg"]
    assert "96×64 pixels, its annotation says 64×96" in done.skipped[0].reason
    with pytest.raises(SkippedInputs):
        prepare("jsonl", path, tmp_path / "strict", Settings(pack=32, strict=True))


def test_the_same_photo_twice_is_skipped(photos, tmp_path):
    path = photos / "twice.jsonl"
    path.write_text(
        '{"image": "a.jpg", "sentences": ["A."]}\n{"image": "./deep/../a.jpg", "sentences": ["B."]}\n'
    )
    done = prepare("jsonl", path, tmp_path / "out")
    [skipped] = done.skipped
    assert skipped.place.endswith("line 2")
    assert skipped.reason.endswith("twice.jsonl, line 1")
    assert Dataset(tmp_path / "out")[0].sentences == ("A.",)


def test_nothing_left_is_an_error_that_says_why(photos, tmp_path):
    path = photos / "lines.jsonl"
    path.write_text('{"image": "none.jpg", "sentences": ["A."]}\n{"image": "a.jpg"}\n')
    with pytest.raises(
        DataError, match=r"an empty data set \(photo not found: 1, neither region nor sentence: 1\)"
    ):
        prepare("jsonl", path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_not_touched(source, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    prepare("jsonl", source, out)  # an empty folder will do
    before = files(out)
    with pytest.raises(UsageError, match="not empty"):
        prepare("jsonl", source, out)
    prepare("jsonl", source, out, Settings(force=True, min_regions=1))
    assert files(out) != before
    (out / "holiday.jpg").write_text("mine")
    with pytest.raises(UsageError, match=r"has other files too: holiday\.jpg"):
        prepare("jsonl", source, out, Settings(force=True))
    with pytest.raises(UsageError, match="a file of this name"):
        prepare("jsonl", source, out / "holiday.jpg")


def test_a_source_is_never_replaced_by_what_is_made_of_it(source, tmp_path):
    prepare("jsonl", source, tmp_path / "out", Settings(pack=48))
    before = files(tmp_path / "out")
    with pytest.raises(UsageError, match="the source itself"):
        prepare("jsonl", tmp_path / "out", tmp_path / "out", Settings(force=True))
    assert files(tmp_path / "out") == before


class Interrupted(Exception):
    pass


@pytest.mark.parametrize(
    "failure", [Interrupted(), KeyboardInterrupt(), OSError(28, "No space left on device")]
)
@pytest.mark.parametrize("pack", [None, 48])
def test_a_failure_midway_leaves_nothing(source, tmp_path, monkeypatch, failure, pack):
    lines = iter([json_line, json_line])

    def fail_on_the_third(record: Any) -> bytes:
        for write in lines:
            return write(record)
        raise failure

    monkeypatch.setattr(writing, "json_line", fail_on_the_third)
    before = sorted(tmp_path.iterdir())
    expected = RegionTalkError if isinstance(failure, OSError) else type(failure)
    with pytest.raises(expected) as caught:
        prepare("jsonl", source, tmp_path / "out", Settings(pack=pack))
    assert sorted(tmp_path.iterdir()) == before
    if isinstance(failure, OSError):
        assert (
            str(caught.value) == f"{tmp_path / 'out'}: cannot be written: No space left on device"
        )


def test_a_failure_midway_leaves_the_old_data_set(source, tmp_path, photos):
    prepare("jsonl", source, tmp_path / "out")
    before = files(tmp_path / "out")
    source.write_text(source.read_text() + "\n{oops")
    with pytest.raises(DataError):
        prepare("jsonl", source, tmp_path / "out", Settings(force=True))
    assert files(tmp_path / "out") == before


def test_killed_midway_there_is_no_data_set(source, tmp_path):
    """SIGKILL while the second record is being made."""
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom regiontalk.lab.data.prepare import prepare, Settings\n"
        "def track(items):\n    for n, item in enumerate(items):\n        yield item\n"
        "        print('one', flush=True)\n        time.sleep(60)\n"
        "prepare('jsonl', Path(sys.argv[1]), Path(sys.argv[2]), Settings(), track)\n"
    )
    command = [sys.executable, "-c", script, str(source), str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"one\n"
        os.kill(child.pid, signal.SIGKILL)
    assert not (tmp_path / "out").exists()
    prepare("jsonl", source, tmp_path / "out")
    assert len(Dataset(tmp_path / "out")) == 3


@pytest.mark.parametrize("force", [False, True])
def test_c4_a_folder_that_appears_meanwhile_is_never_replaced(source, tmp_path, force):
    def interrupted(items):
        for item in items:
            (tmp_path / "out").mkdir(exist_ok=True)
            (tmp_path / "out" / "annotations.jsonl").write_text("mine")
            yield item

    with pytest.raises(
        UsageError, match="another program wrote it in the meantime; it was not replaced"
    ):
        prepare("jsonl", source, tmp_path / "out", Settings(force=force), interrupted)
    assert files(tmp_path / "out") == {"annotations.jsonl": b"mine"}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("force", [False, True])
def test_c4_of_two_that_prepare_one_place_one_wins(source, tmp_path, force):
    """The quicker one; the other says so, and leaves nothing behind."""
    if force:
        prepare("jsonl", source, tmp_path / "out", Settings(min_regions=1))

    def overtaken(items):
        first, *others = items
        prepare("jsonl", source, tmp_path / "out", Settings(force=force))
        yield from (first, *others)

    with pytest.raises(UsageError, match="another program wrote it in the meantime"):
        prepare("jsonl", source, tmp_path / "out", Settings(force=force, max_regions=1), overtaken)
    assert len(Dataset(tmp_path / "out")) == 3
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


KILLED = """
import os, sys
from pathlib import Path
from regiontalk.io import files
from regiontalk.lab.data.prepare import Settings, prepare
if sys.argv[3] == "two renames":
    files._exchange = lambda *_: False
    rename = Path.rename
    Path.rename = lambda path, target: os.kill(os.getpid(), 9) if target.name == "out" else rename(path, target)
else:
    exchange = files._exchange
    files._exchange = lambda *names: (exchange(*names), os.kill(os.getpid(), 9))
prepare("jsonl", Path(sys.argv[1]), Path(sys.argv[2]), Settings(force=True, max_regions=1))
"""


@pytest.mark.parametrize("how", ["two renames", "an exchange"])
def test_c11_killed_while_force_replaces_the_old_or_the_new_data_set_is_there(
    source, tmp_path, how
):
    """Where the system cannot exchange two folders, the old one is put back at the next start."""
    prepare("jsonl", source, tmp_path / "out")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, source, tmp_path / "out", how], check=False
    )
    assert killed.returncode == -signal.SIGKILL
    if how == "an exchange":
        assert len(Dataset(tmp_path / "out")) == 2, "the new one, at once"
    with pytest.raises(UsageError, match=r"not empty|already exists"):
        prepare("jsonl", source, tmp_path / "out")
    assert len(Dataset(tmp_path / "out")) == (2 if how == "an exchange" else 3)
    prepare("jsonl", source, tmp_path / "out", Settings(force=True))
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".replaced")] == []


def test_c7_a_photo_with_too_many_regions_is_named(photos, tmp_path):
    region = {"xyxy": [0, 0, 9, 9], "phrase": "a dot"}
    (photos / "lines.jsonl").write_text(
        json.dumps({"image": "a.jpg", "regions": [region] * 10_001})
    )
    with pytest.raises(
        DataError, match=r"lines\.jsonl, line 1: 10001 regions, and at most 10000 can be used"
    ):
        prepare("jsonl", photos / "lines.jsonl", tmp_path / "out")


@pytest.mark.parametrize(
    ("settings", "error", "problem"),
    [
        (Settings(pack=5), UsageError, "at least 16 pixels"),
        (Settings(min_regions=5, max_regions=2), UsageError, "at least 5 and at most 2"),
        (Settings(min_regions=-1), UsageError, "at least -1"),
        (Settings(images=Path("/no/photos")), DataError, "/no/photos: no folder of photos"),
        (Settings(split_file=Path("/no/splits")), DataError, "/no/splits: No such file"),
    ],
)
def test_settings_that_make_no_sense(source, tmp_path, settings, error, problem):
    with pytest.raises(error, match=problem):
        prepare("jsonl", source, tmp_path / "out", settings)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", list(module.FORMATS))
def test_a_source_that_is_not_there(tmp_path, name):
    with pytest.raises(DataError, match="none: no such file or folder"):
        prepare(name, tmp_path / "none", tmp_path / "out")
