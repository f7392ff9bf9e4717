from __future__ import annotations

from pathlib import Path

import pytest

from regiontalk.files import cache_folder, replacing


def test_the_variable_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REGIONTALK_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("linux", "XDG_CACHE_HOME", "set/regiontalk"),
        ("linux", None, ".cache/regiontalk"),
        ("darwin", None, "Library/Caches/regiontalk"),
        ("win32", "LOCALAPPDATA", "set/regiontalk"),
        ("win32", None, "AppData/Local/regiontalk"),
    ],
)
def test_every_system_has_its_place(
    platform: str, variable: str | None, expected: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("REGIONTALK_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "set"))
    assert cache_folder() == tmp_path / expected


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "file.bin"
    with replacing(path) as temporary:
        temporary.write_bytes(b"old")
    with replacing(path) as temporary:
        temporary.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(b"old")
    with pytest.raises(IsADirectoryError), replacing(path) as temporary:
        temporary.write_bytes(tmp_path.read_bytes())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
