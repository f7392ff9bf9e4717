from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: pip install 'regiontalk[cluster]'")

from regiontalk.errors import InputError, UsageError
from regiontalk.images.limits import Limits
from regiontalk.lab.cluster import sources


def make_tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.jpg").write_bytes(b"A")
    (tmp_path / "sub" / "b.png").write_bytes(b"B")
    (tmp_path / "note.txt").write_bytes(b"?")
    make_tar(tmp_path / "shard.tar", {"c.jpg": b"C", "c.json": b"{}", "deep/d.jpg": b"D"})
    return tmp_path


def test_folders_and_addresses_are_searched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    expected = [str(folder / name) for name in ("a.jpg", "shard.tar", "sub/b.png")]
    assert sources.find([folder.name]).paths == expected
    assert sources.find([f"file://{folder}"]).paths == [f"file://{path}" for path in expected]
    assert sources.find([f"file://{folder}/a.jpg"]).paths == [f"file://{folder}/a.jpg"]
    with pytest.raises(InputError):
        sources.find([f"file://{folder}/nothing"])
    with pytest.raises(InputError):
        sources.find(["nonsense://x/y"])


def test_photos_are_opened_wherever_they_are(folder: Path) -> None:
    paths = [
        str(folder / "a.jpg"),
        str(folder / "shard.tar"),
        f"file://{folder}/sub/b.png",
        f"file://{folder}/no.jpg",
    ]
    opened = dict(sources.open_all(paths, "", Limits()))
    assert opened.pop(f"file://{folder}/no.jpg").message.endswith("No such file or directory")  # type: ignore[union-attr]
    assert opened == {
        str(folder / "a.jpg"): str(folder / "a.jpg"),
        f"{folder}/shard.tar/c.jpg": b"C",
        f"{folder}/shard.tar/deep/d.jpg": b"D",
        f"file://{folder}/sub/b.png": b"B",
    }


def test_a_broken_tar_is_named(folder: Path) -> None:
    whole = (folder / "shard.tar").read_bytes()
    (folder / "cut.tar").write_bytes(whole[:700])
    (folder / "text.tar").write_bytes(b"no tar" * 300)
    for name in ("cut.tar", "text.tar"):
        *_, (path, problem) = sources.open_all([str(folder / name)], "", Limits())
        assert path == str(folder / name)
        assert isinstance(problem, InputError)


def test_names_in_an_address_are_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "my photos?").mkdir()
    for name in ("50%25.jpg", "ä +#&.jpg"):
        (tmp_path / "my photos?" / name).write_bytes(name.encode())
    found = sources.find([f"file://{tmp_path}/", f"file://{tmp_path}"]).paths
    assert found == [f"file://{tmp_path}/my photos?/{name}" for name in ("50%25.jpg", "ä +#&.jpg")]
    assert [data for _, data in sources.open_all(found, "", Limits())] == [
        b"50%25.jpg",
        "ä +#&.jpg".encode(),
    ]


def test_lists_of_addresses_come_by_stdin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [f"file://{folder}/{name}" for name in ("a.jpg", "sub/b.png")]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(given).encode())))
    assert sources.find(["-"]).paths == given


def test_options_of_addresses() -> None:
    assert sources.options_of(["a.jpg", "s3://b/x?region=eu", "s3://b/y?region=eu"]) == "region=eu"
    assert sources.options_of(["a.jpg"]) == ""
    with pytest.raises(UsageError, match="different options"):
        sources.options_of(["s3://b/x?region=eu", "s3://b/y"])
    with pytest.raises(InputError, match="s3://b/x: cannot be read: Unexpected query parameter"):
        sources.find(["s3://b/x?nonsense=1"])
    with pytest.raises(UsageError, match="password") as caught:
        sources.find(["s3://key:secret@bucket/x"])
    assert "secret" not in caught.value.message
