from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: pip install 'regiontalk[cluster]'")

from pyarrow import parquet

from regiontalk.errors import OutputError, UsageError
from regiontalk.lab.cluster.shards import Shards


def result(path: str, *captions: str) -> dict[str, Any]:
    regions = [
        {"id": n, "xyxy": [0.0, 1.5, 2.0, 3.0], "score": 0.5, "caption": c}
        for n, c in enumerate(captions)
    ]
    return {
        "schema": "regiontalk/1",
        "path": path,
        "width": 4,
        "height": 5,
        "model": "m",
        "regions": regions,
    }


def lines(folder: Path, pattern: str) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for path in sorted(folder.glob(pattern))
        for line in path.read_text().splitlines()
    ]


def test_a_restart_knows_what_is_done(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shards = Shards(str(folder))
    assert shards.begin({"asked": 1}) == set()
    shards.write(["a", "b", "c"], [result("a", "x"), result("b")], {"c": "c: broken"})
    shards.write(
        ["a", "b", "c"], [result("a", "x"), result("b")], {"c": "c: broken"}
    )  # a worker that died at the end
    shards.write(["d"], [], {"d": "d: broken"})
    assert [one["path"] for one in lines(folder, "part-*.jsonl")] == ["a", "b"]
    assert {one["path"]: one["reason"] for one in lines(folder, "_done/*") if "reason" in one} == {
        "c": "c: broken",
        "d": "d: broken",
    }
    (folder / "part-0123456789abcdef.jsonl").write_text("{}\n")  # its list was never written
    assert shards.begin({"asked": 1}) == {"a", "b"}
    assert [one["path"] for one in lines(folder, "part-*.jsonl")] == ["a", "b"]
    assert not [one for one in lines(folder, "_done/*") if "reason" in one]


def test_parquet_has_one_schema_whatever_was_found(tmp_path: Path) -> None:
    folder = tmp_path / "out.parquet"
    shards = Shards(str(folder))
    shards.begin({})
    shards.write(["a"], [result("a")], {})
    shards.write(["b"], [result("b", "a dog")], {})
    table = parquet.read_table(folder)
    assert sorted(table.column("path").to_pylist()) == ["a", "b"]
    ((region,),) = [regions for regions in table.column("regions").to_pylist() if regions]
    missing = ("logprob", "confidence", "name", "name_confidence", "shown")
    assert region == {**dict.fromkeys(missing), **result("b", "a dog")["regions"][0]}


def test_results_are_never_mixed(tmp_path: Path) -> None:
    shards = Shards(str(tmp_path / "out"))
    shards.begin({"model": "one"})
    with pytest.raises(UsageError, match="another command, model"):
        shards.begin({"model": "other"})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match="was not written by regiontalk"):
        Shards(str(tmp_path / "mine")).begin({})
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        Shards(str(tmp_path / "file")).begin({})


def test_an_address_is_a_place_too(tmp_path: Path) -> None:
    assert Shards("s3://bucket/out.parquet?region=eu").suffix == ".parquet"
    shards = Shards(f"file://{tmp_path}/out")
    shards.begin({})
    shards.write(["a"], [result("a")], {})
    assert shards.begin({}) == {"a"}
    assert [one["path"] for one in lines(tmp_path / "out", "part-*")] == ["a"]


FULL_DISK = """
import resource, sys
from regiontalk.lab.cluster.shards import Shards
from regiontalk.errors import DiskFull
shards = Shards(sys.argv[1])
shards.begin({})
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    shards.write(["a"], [{"path": "a", "words": "x" * 100}], {})
except DiskFull as error:
    sys.exit(error.message)
"""


@pytest.mark.parametrize("name", ["out", "out.parquet"])
def test_a_full_disk_leaves_no_half_of_a_shard(tmp_path: Path, name: str) -> None:
    """A limit on file size takes the place of a full disk."""
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == f"{tmp_path / name}: cannot be written: File too large\n"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["_regiontalk.json"]


def test_what_a_killed_process_left_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "_regiontalk.json.partial").write_text('{"as')
    shards = Shards(str(tmp_path))
    assert shards.begin({}) == set()
    shards.write(["a"], [result("a")], {})
    for name in ("part-x.jsonl", "_done/x.jsonl"):
        (tmp_path / f"{name}.partial").write_text('{"path":"b"')
    assert shards.begin({}) == {"a"}
    assert [one["path"] for one in lines(tmp_path, "part-*")] == ["a"]
    assert not list(tmp_path.rglob("*.partial"))
