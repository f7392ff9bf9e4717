"""Files: whole or not at all, read with limits, and strictly turned into dataclasses."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regiontalk.errors import DataError, OutputError, UsageError
from regiontalk.io import files
from regiontalk.io.files import (
    cache_folder,
    json_line,
    new_folder,
    parse_json,
    read_json,
    read_json_lines,
    read_lines,
    read_toml,
    replacing,
    write_json_lines,
)


def names(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


@pytest.fixture(autouse=True)
def _look_for_leftovers_again() -> None:
    files._remove_leftovers.cache_clear()


class TestCache:
    def test_the_variable_decides(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("REGIONTALK_CACHE", str(tmp_path / "mine"))
        assert cache_folder() == tmp_path / "mine"

    def test_the_system_has_a_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("REGIONTALK_CACHE", raising=False)
        assert cache_folder().name == "regiontalk"


class TestFile:
    def test_it_is_replaced_whole(self, tmp_path: Path) -> None:
        path = tmp_path / "new folder" / "file.png"
        with replacing(path) as partial:
            partial.write_bytes(b"old")
        with replacing(path) as partial:
            partial.write_bytes(b"new")
            assert partial.suffix == ".png"
            assert path.read_bytes() == b"old"
        assert path.read_bytes() == b"new"
        assert names(path.parent) == ["file.png"]

    def test_a_failure_leaves_the_old_one(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"old")
        with pytest.raises(ZeroDivisionError), replacing(path) as partial:
            partial.write_bytes(b"%d" % (1 // 0))
        assert path.read_bytes() == b"old"
        assert names(tmp_path) == ["file"]

    def test_others_may_read_it(self, tmp_path: Path) -> None:
        with replacing(tmp_path / "file") as partial:
            partial.write_bytes(b"x")
        (tmp_path / "usual").touch()
        assert (tmp_path / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode

    def test_a_name_may_be_as_long_as_the_system_allows(self, tmp_path: Path) -> None:
        with replacing(tmp_path / ("x" * 250 + ".jpg")) as partial:
            partial.write_bytes(b"x")
        assert len(names(tmp_path)[0]) == 254

    @pytest.mark.parametrize("place", ["file/below", "folder", "pipe"])
    def test_a_place_that_cannot_be_written_is_named(self, place: str, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        (tmp_path / "folder").mkdir()
        os.mkfifo(tmp_path / "pipe")
        with (
            pytest.raises(OutputError, match=f"{place}: cannot be written"),
            replacing(tmp_path / place),
        ):
            raise AssertionError
        assert names(tmp_path) == ["file", "folder", "pipe"]

    def test_a_full_disk_is_named(self, tmp_path: Path) -> None:
        with (
            pytest.raises(OutputError, match="file: cannot be written: No space left"),
            replacing(tmp_path / "file"),
            Path("/dev/full").open("w") as full,
        ):
            full.write("x")
        assert not names(tmp_path)

    def test_a_closed_pipe_is_not_its_own(self, tmp_path: Path) -> None:
        with pytest.raises(BrokenPipeError), replacing(tmp_path / "file"):
            raise BrokenPipeError


class TestFolder:
    def write(self, path: Path, text: str, replace: bool = False) -> None:
        with new_folder(path, replace) as partial:
            (partial / "file").write_text(text)

    def test_it_is_there_when_it_is_whole(self, tmp_path: Path) -> None:
        with new_folder(tmp_path / "deep" / "new") as partial:
            (partial / "file").write_text("x")
            assert not (tmp_path / "deep" / "new").exists()
        assert names(tmp_path / "deep") == ["new"]
        assert names(tmp_path / "deep" / "new") == ["file"]

    def test_a_failure_leaves_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "new") as partial:
            (partial / "file").write_text(f"{1 // 0}")
        assert not names(tmp_path)

    def test_one_that_is_there_is_replaced_on_request_alone(self, tmp_path: Path) -> None:
        self.write(tmp_path / "new", "old")
        with pytest.raises(UsageError, match="already exists"):
            self.write(tmp_path / "new", "new")
        assert (tmp_path / "new" / "file").read_text() == "old"
        self.write(tmp_path / "new", "new", replace=True)
        assert (tmp_path / "new" / "file").read_text() == "new"
        assert names(tmp_path) == ["new"]

    def test_an_empty_one_is_taken(self, tmp_path: Path) -> None:
        (tmp_path / "new").mkdir()
        self.write(tmp_path / "new", "x")
        assert names(tmp_path / "new") == ["file"]

    @pytest.mark.parametrize("replace", [False, True])
    def test_one_that_appears_meanwhile_is_kept(self, replace: bool, tmp_path: Path) -> None:
        path = tmp_path / "new"
        with pytest.raises(UsageError, match="in the meantime"), new_folder(path, replace):
            (path / "theirs").mkdir(parents=True)
        assert names(path) == ["theirs"]
        assert names(tmp_path) == ["new"]

    def test_so_is_one_that_gets_another_file(self, tmp_path: Path) -> None:
        self.write(tmp_path / "new", "old")
        with (
            pytest.raises(UsageError, match="in the meantime"),
            new_folder(tmp_path / "new", replace=True),
        ):
            (tmp_path / "new" / "theirs").touch()
        assert names(tmp_path / "new") == ["file", "theirs"]

    def test_a_kill_between_the_renames_is_made_good(self, tmp_path: Path) -> None:
        self.write(tmp_path / "new", "old")
        (tmp_path / "new").rename(tmp_path / ".new.replaced")
        with pytest.raises(UsageError, match="already exists"):
            self.write(tmp_path / "new", "new")
        assert (tmp_path / "new" / "file").read_text() == "old"
        assert names(tmp_path) == ["new"]


KILLED = """
import sys, time
from pathlib import Path
from regiontalk.io.files import new_folder, replacing
with replacing(Path(sys.argv[1], "file.jpg")) as file, new_folder(Path(sys.argv[1], "folder")) as folder:
    file.write_text("half")
    (folder / "half").touch()
    print("writing", flush=True)
    time.sleep(60)
"""


def test_what_a_killed_process_leaves_goes_at_the_next_start(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    assert len(names(tmp_path)) == 2
    with replacing(tmp_path / "other") as partial:  # does not touch what a living process writes
        partial.touch()
    assert len(names(tmp_path)) == 3
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    files._remove_leftovers.cache_clear()
    with replacing(tmp_path / "other") as partial:
        partial.touch()
    assert names(tmp_path) == ["other"]


class TestLines:
    @pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
    def test_blank_ones_are_counted_and_passed_over(self, name: str, tmp_path: Path) -> None:
        data = b'{"a":1}\n\n  \r\n{"a":2}'
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        assert [number for number, _ in read_lines(tmp_path / name)] == [1, 4]
        places = [place for place, value in read_json_lines(tmp_path / name) if value["a"] == 2]
        assert places == [f"{tmp_path / name}, line 4"]

    @pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
    def test_one_without_an_end_is_refused(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(files, "LONGEST_LINE", 1 << 20)
        data = b"{}\n" + b" " * (1 << 22)
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        with pytest.raises(DataError, match="line 2: longer than 1 MiB"):
            list(read_lines(tmp_path / name))

    @pytest.mark.parametrize(
        "data",
        [gzip.compress(b"{}\n" * 1000)[:-20], b"no gzip", gzip.compress(b"x")[:-4] + b"1234"],
    )
    def test_a_damaged_file_is_refused(self, data: bytes, tmp_path: Path) -> None:
        (tmp_path / "x.gz").write_bytes(data)
        with pytest.raises(DataError, match="damaged"):
            list(read_lines(tmp_path / "x.gz"))
        with pytest.raises(DataError, match=r"x\.gz"):
            read_json(tmp_path / "x.gz")

    @pytest.mark.parametrize("name", ["none", "folder", "pipe", "nul\0"])
    def test_what_is_no_file_is_refused_at_once(self, name: str, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(DataError):
            list(read_lines(tmp_path / name))

    @given(st.text())
    def test_any_text_comes_back_from_its_line(self, text: str) -> None:
        line = json_line({"phrase": text})
        assert json.loads(line) == {"phrase": text}
        assert line.count(b"\n") == 1

    def test_a_lone_surrogate_is_escaped(self) -> None:
        assert json_line({"phrase": "é\ud800"}) == b'{"phrase":"\\u00e9\\ud800"}\n'
        assert json_line({"phrase": "é"}) == '{"phrase":"é"}\n'.encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[1,]",
        b"NaN",
        b"-Infinity",
        b"\xff",
        b"[" * 200_000,
        b"9" * 5000,
        b'{"a":1}{"a":2}',
    ],
)
def test_what_is_no_json_is_named_with_its_place(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^here: wrong JSON"):
        parse_json(data, "here")
    (tmp_path / "x.json").write_bytes(data)
    with pytest.raises(DataError, match=r"x\.json: wrong JSON"):
        read_json(tmp_path / "x.json")


@pytest.mark.parametrize("depth", [102, 5_000, 200_000])
def test_deep_nesting_is_called_so(depth: int, tmp_path: Path) -> None:
    """And not "maximum recursion depth exceeded", which is about our program."""
    with pytest.raises(
        DataError, match=r"^here: wrong JSON: lists and objects are nested more than 100 deep$"
    ):
        parse_json(b"[" * depth + b"]" * depth, "here")
    (tmp_path / "x.toml").write_bytes(b"a = " + b"[" * depth + b"]" * depth)
    with pytest.raises(
        DataError, match=r"x\.toml: not TOML: lists and objects are nested more than 100 deep$"
    ):
        read_toml(tmp_path / "x.toml")


def test_a_byte_order_mark_does_no_harm() -> None:
    assert parse_json(b"\xef\xbb\xbf{}", "here") == {}


def test_an_array_with_an_object_a_line_is_read_as_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('[\n{"a": 1},\n{"a": [2]}\n]\n')
    assert list(read_json_lines(path)) == [
        (f"{path}, line 2", {"a": 1}),
        (f"{path}, line 3", {"a": [2]}),
    ]


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_json_lines_are_written_whole_and_come_back(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert write_json_lines(path, ({"a": number} for number in range(3))) == 3
    assert [value for _, value in read_json_lines(path)] == [{"a": 0}, {"a": 1}, {"a": 2}]
    with pytest.raises(ZeroDivisionError):
        write_json_lines(path, ({"a": 1 // number} for number in range(3)))
    assert len(list(read_json_lines(path))) == 3


def test_a_small_file_is_read_into_little_memory(tmp_path: Path) -> None:
    """Python reserves at once what it is asked to read at most."""
    (tmp_path / "x").write_bytes(b"x" * 1000)
    tracemalloc.start()
    assert len(files.read_file(tmp_path / "x", 1 << 28)) == 1000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 24
