"""Hostile files in the place of data and models: our own error, in one line, without waiting or
filling the memory.

Tests are named after the findings that they hold (C6 to C11). Photos are attacked in `test_images`.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from regiontalk import EMBEDDED
from regiontalk.cli.main import run
from regiontalk.errors import DataError, DiskFull, ModelError, UsageError
from regiontalk.io import files
from regiontalk.io.files import json_line, parse_json, read_file, read_lines, read_toml, replacing
from regiontalk.io.provenance import file_fingerprint
from regiontalk.lab.evaluation.ranking import load_scores
from regiontalk.models.folder import SUMS, read_model_folder

pytestmark = pytest.mark.timeout(60)
RECORD = (
    b'{"image":"a.jpg","width":9,"height":9,"split":"dev","sentences":["a dog"],"regions":[]}\n'
)
DEEP = b"[" * 100_000
HALF_DEEP = b'{"a":' * 500 + b"1" + b"}" * 500


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A copy of the model in the package, of links."""
    folder = tmp_path / "model"
    folder.mkdir()
    for file in EMBEDDED.iterdir():
        if file.is_file():
            (folder / file.name).symlink_to(file)
    return folder


def put(folder: Path, name: str, data: bytes) -> None:
    """Another file in a model folder, signed as a forger would."""
    (folder / name).unlink()
    (folder / name).write_bytes(data)
    sums = dict(reversed(line.split("  ")) for line in (folder / SUMS).read_text().splitlines())
    sums[name] = hashlib.sha256(data).hexdigest()
    (folder / SUMS).unlink()
    (folder / SUMS).write_text("".join(f"{digest}  {file}\n" for file, digest in sums.items()))


def refusal(folder: Path) -> str:
    with pytest.raises(ModelError) as caught:
        read_model_folder(folder)
    assert len(caught.value.message) < 400
    return caught.value.message


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_endless(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


class TestC6:
    """Neither pipes nor devices are opened."""

    @pytest.mark.parametrize("make", [make_pipe, make_device, make_endless])
    @pytest.mark.parametrize("name", [SUMS, "model.json", "step.onnx", "words_vocabulary.json"])
    def test_in_a_model_folder(self, model: Path, name: str, make: Callable[[Path], None]) -> None:
        (model / name).unlink()
        make(model / name)
        assert name in refusal(model)

    @pytest.mark.parametrize("make", [make_pipe, make_device])
    @pytest.mark.parametrize("name", ["p.jsonl", "p.npy", "p.npz"])
    def test_as_predictions(self, tmp_path: Path, name: str, make: Callable[[Path], None]) -> None:
        make(tmp_path / name)
        with pytest.raises(DataError, match="not a file"):
            list(read_lines(tmp_path / name))
        with pytest.raises(DataError, match="not a file"):
            file_fingerprint(tmp_path / name)
        with pytest.raises(DataError, match="not a file"):
            load_scores(tmp_path / name)

    @pytest.mark.parametrize("make", [make_pipe, make_device])
    def test_on_the_command_line(
        self, tmp_path: Path, make: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "truth.jsonl").write_bytes(RECORD)
        make(tmp_path / "p.jsonl")
        paths = [
            "--truth",
            str(tmp_path / "truth.jsonl"),
            "--predictions",
            str(tmp_path / "p.jsonl"),
        ]
        assert run(["evaluate", "captions", *paths]) == 4
        assert "p.jsonl" in capsys.readouterr().err

    def test_a_file_that_becomes_a_pipe_is_not_waited_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").touch()
        status = (tmp_path / "file").stat()
        (tmp_path / "file").unlink()
        os.mkfifo(tmp_path / "file")
        monkeypatch.setattr(os, "stat", lambda *_, **__: status)
        with pytest.raises(DataError, match="a pipe, not a file"):
            read_file(tmp_path / "file")


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from regiontalk.cli.main import main
main()
"""


class TestC7:
    """Every reader has limits."""

    @pytest.mark.parametrize("data", [b"{}\n" * 100_000, b"\n" * 300_000])
    def test_a_bomb_of_short_lines(
        self, data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(files, "LARGEST_FILE", 1 << 17)
        (tmp_path / "x.gz").write_bytes(gzip.compress(data))
        with pytest.raises(DataError, match="unpacks to more than 300 times its size"):
            list(read_lines(tmp_path / "x.gz"))

    def test_a_whole_file_of_a_bomb(self, tmp_path: Path) -> None:
        (tmp_path / "x.json.gz").write_bytes(gzip.compress(b" " * (1 << 20)))
        with pytest.raises(DataError, match="larger than"):
            read_file(tmp_path / "x.json.gz", 1 << 19)

    def test_a_line_of_a_gigabyte(self, tmp_path: Path) -> None:
        """In a process that may have no more than that."""
        with gzip.open(tmp_path / "annotations.jsonl.gz", "wb", compresslevel=1) as file:
            for _ in range(1 << 10):
                file.write(b" " * (1 << 20))
        command = [sys.executable, "-c", LIMITED, "data", "check", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 4, done.stderr
        assert "line 1: longer than 16 MiB" in done.stderr + done.stdout


class TestC8:
    """Graphs have no weights in other files."""

    @pytest.mark.parametrize("tag", [b"\n\x08", b"\x8a\x00\x88\x80\x00"])
    def test_external_data(self, model: Path, tag: bytes) -> None:
        graph = (model / "step.onnx").read_bytes()
        put(model, "step.onnx", graph + tag + b"location\x12\x08evil.bin")
        assert "step.onnx: has weights in another file" in refusal(model)

    def test_as_onnx_writes_it(self, model: Path) -> None:
        onnx = pytest.importorskip("onnx")
        tensor = onnx.numpy_helper.from_array(np.zeros(300, np.float32), "w")
        onnx.external_data_helper.set_external_data(tensor, "evil.bin")
        tensor.ClearField("raw_data")
        graph = onnx.helper.make_graph([], "g", [], [], [tensor])
        put(model, "step.onnx", onnx.helper.make_model(graph).SerializeToString())
        assert "step.onnx: has weights in another file" in refusal(model)


class TestC10:
    """No foreign exception."""

    @pytest.mark.parametrize("name", ["model.json", "vocabulary.json", "sentence_vocabulary.json"])
    @pytest.mark.parametrize(
        "data", [DEEP, HALF_DEEP, b'{"format":' + b"9" * 400 + b"}", b"9" * 5000]
    )
    def test_in_a_model_folder(self, model: Path, name: str, data: bytes) -> None:
        put(model, name, data)
        assert name in refusal(model)

    @pytest.mark.parametrize(
        "data", [DEEP, HALF_DEEP, b"9" * 400, b"-" + b"9" * 400, b"1e999", b"[-1E+999]", b"1E0400"]
    )
    def test_in_json(self, data: bytes) -> None:
        with pytest.raises(DataError, match=r"^here: wrong JSON"):
            parse_json(data, "here")

    @pytest.mark.parametrize(
        "data", [b"1e-999", b"123456789012345678901", b"1e99", b'"1e999"', b"[" * 99 + b"]" * 99]
    )
    def test_other_json_is_read(self, data: bytes) -> None:
        assert parse_json(data, "here") == json.loads(data)

    def test_many_brackets_are_not_deep(self) -> None:
        assert len(parse_json(b"[" + b"[],{}," * 1000 + b"1]", "here")) == 2001

    @pytest.mark.parametrize("data", [b"a = " + DEEP, b"a" + b".a" * 5000 + b" = 1", b"\xff"])
    def test_in_toml(self, data: bytes, tmp_path: Path) -> None:
        (tmp_path / "x.toml").write_bytes(data)
        with pytest.raises(UsageError, match=r"x\.toml: not TOML"):
            read_toml(tmp_path / "x.toml", UsageError)

    def test_in_predictions(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """What is wrong is left out, the rest is measured."""
        (tmp_path / "truth.jsonl").write_bytes(RECORD)
        good = json_line({"path": "a.jpg", "sentence": "a dog"})
        bad = [
            DEEP,
            HALF_DEEP,
            b'{"path":"a.jpg","sentence":' + b"9" * 400 + b"}",
            b'{"path":' + b'"a' * 70 + b'"}',
        ]
        (tmp_path / "p.jsonl").write_bytes(b"\n".join(bad) + b"\n" + good)
        paths = [
            "--truth",
            str(tmp_path / "truth.jsonl"),
            "--predictions",
            str(tmp_path / "p.jsonl"),
        ]
        assert run(["evaluate", "captions", *paths, "--without", "meteor"]) == 0
        assert capsys.readouterr().err.count("p.jsonl, line ") == len(bad)


FULL_DISK = """
import resource, sys
from regiontalk.cli.main import run
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
print([run(line.split()) for line in sys.stdin])
"""


class TestC11:
    """Whole or nothing, and one exit code for a full disk."""

    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
    def test_a_full_disk_exits_with_5(self, number: int, tmp_path: Path) -> None:
        with (
            pytest.raises(DiskFull, match="x: cannot be written") as caught,
            replacing(tmp_path / "x"),
        ):
            raise OSError(number, os.strerror(number))
        assert caught.value.exit_code == 5
        assert not list(tmp_path.iterdir())

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    @pytest.mark.parametrize("arguments", [["--help"], ["data", "stats", "DATA", "--json"]])
    def test_so_does_a_full_standard_output(self, arguments: list[str], tmp_path: Path) -> None:
        (tmp_path / "annotations.jsonl").write_bytes(RECORD)
        command = [sys.executable, "-c", "from regiontalk.cli.main import main; main()"]
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                [*command, *(str(tmp_path) if one == "DATA" else one for one in arguments)],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert done.returncode == 5
        assert done.stderr.splitlines() == [
            "regiontalk: standard output: cannot be written: No space left on device"
        ]

    def test_so_does_every_verb(self, tmp_path: Path, scene_path: Path) -> None:
        """A limit on file size takes the place of a full disk."""
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "annotations.jsonl").write_bytes(RECORD * 2)
        out, two = tmp_path / "out", tmp_path / "two"
        two.mkdir()
        for name in ("a.png", "b.png"):
            (two / name).write_bytes(scene_path.read_bytes())
        commands = [
            *(f"caption {scene_path} -o {out}/x{end}" for end in (".jsonl", ".html", ".png", "")),
            *(
                f"caption {two} -o {out}/y{end}" for end in (".jsonl", ".html", ".json", "")
            ),  # with a journal
            f"index {two} --index {tmp_path}/index",
            f"data draw {out}/drawn --train 2 --dev 0",
            f"data prepare jsonl {tmp_path}/data/annotations.jsonl {out}/prepared --images {scene_path.parent}",
            f"data merge {tmp_path}/data {out}/merged",
        ]
        command = [sys.executable, "-c", FULL_DISK]
        done = subprocess.run(
            command, input="\n".join(commands), capture_output=True, text=True, check=False
        )
        assert done.stdout == f"{[5] * len(commands)}\n", done.stderr
        assert not [path for path in out.rglob("*") if path.is_file()]
