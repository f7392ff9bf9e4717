"""The tools of `regiontalk mcp`, called by the protocol's own client."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, ImageContent, TextContent
from PIL import Image

import regiontalk
from regiontalk.assistants.album import Album
from regiontalk.assistants.server import make_server

PHOTOS = Path(__file__).parents[2] / "examples" / "photos"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("assistants")
    folder = place / "album"
    folder.mkdir()
    for name in ("hug.jpg", "coffee.jpg"):
        shutil.copy(PHOTOS / name, folder)
    shutil.copy(PHOTOS / "bear.jpg", place / "private.jpg")
    (place / "film.mp4").write_bytes(b"a video")
    (folder / "link.jpg").symlink_to(place / "private.jpg")
    (folder / "film.mp4").symlink_to(place / "film.mp4")
    (folder / "up").symlink_to(place)
    with_index = regiontalk.Index.open(folder)
    with_index.update(regiontalk.load("fast", words_book=False))
    with_index.close()
    return folder


@pytest.fixture(scope="module")
def album(folder: Path) -> Album:
    return Album.of([folder], lambda: regiontalk.load("fast", words_book=False))


def call(album: Album, tool: str, **arguments: Any) -> CallToolResult:
    async def ask() -> CallToolResult:
        async with Client(make_server(album)) as client:
            return await client.call_tool(tool, arguments)

    return asyncio.run(ask())


def answer(album: Album, tool: str, **arguments: Any) -> Any:
    result = call(album, tool, **arguments)
    assert not result.is_error, result
    (content,) = result.content
    assert isinstance(content, TextContent)
    return json.loads(content.text)


def complaint(album: Album, tool: str, **arguments: Any) -> str:
    result = call(album, tool, **arguments)
    assert result.is_error
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def test_a_photo_is_found_and_looked_at(album: Album, folder: Path) -> None:
    best = answer(album, "search", phrase="a cup of coffee")["hits"][0]
    assert best["path"] == str(folder / "coffee.jpg")
    captions = answer(album, "caption", path=best["path"])
    assert any("cup" in region["caption"] for region in captions["regions"])
    assert all(region["shown"] for region in captions["regions"])
    assert {"sentence", "sure"} <= answer(album, "describe", path="coffee.jpg").keys()
    assert answer(album, "find", path="hug.jpg", phrase="a woman")["here"]
    assert answer(album, "align", path="hug.jpg", sentence="a woman hugs a dog")["segments"]
    listed = answer(album, "list_photos", containing="HUG")
    assert listed == {"count": 1, "photos": [str(folder / "hug.jpg")]}


@pytest.mark.parametrize(
    ("draw", "text"), [("captions", ""), ("phrase", "a cup"), ("sentence", "a cup on a table")]
)
def test_a_photo_is_shown_with_boxes(album: Album, folder: Path, draw: str, text: str) -> None:
    (content,) = call(album, "show", path="coffee.jpg", draw=draw, text=text).content
    assert isinstance(content, ImageContent)
    shown = Image.open(io.BytesIO(base64.b64decode(content.data)))
    assert (content.mime_type, shown.format) == ("image/jpeg", "JPEG")
    assert max(shown.size) <= 1024
    original = Image.open(folder / "coffee.jpg").convert("RGB").resize(shown.size)
    assert shown.tobytes() != original.tobytes()


@pytest.mark.parametrize(
    "path",
    [
        "../private.jpg",
        "link.jpg",
        "/etc/passwd",
        "",
        ".",
        "\0",
        "x" * 5000,
        "hug.jpg/../../private.jpg",
        "~/x.jpg",
        "file:///etc/passwd",
        "up/private.jpg",
        "%2e%2e/private.jpg",
        "../film.mp4#t=1",
        "film.mp4#t=1",
    ],
)
@pytest.mark.parametrize(
    ("tool", "asked"),
    [
        ("caption", {}),
        ("describe", {}),
        ("find", {"phrase": "a dog"}),
        ("align", {"sentence": "a dog"}),
        ("show", {}),
    ],
)
def test_other_paths_do_not_exist(
    album: Album, tool: str, asked: dict[str, str], path: str
) -> None:
    assert "no such photo" in complaint(album, tool, path=path, **asked)


def test_the_private_folder_is_refused_by_its_full_path_too(album: Album, folder: Path) -> None:
    assert "no such photo" in complaint(album, "caption", path=str(folder.parent / "private.jpg"))
    listed = answer(album, "list_photos")["photos"]
    assert not [path for path in listed if "link.jpg" in path or "private" in path]


def test_what_is_wrong_is_told_in_one_line(album: Album, folder: Path) -> None:
    (folder / "broken.jpg").write_bytes(b"\xff\xd8no photo")
    assert "broken.jpg" in complaint(album, "caption", path="broken.jpg")
    assert "1001 characters" in complaint(album, "find", path="hug.jpg", phrase="x" * 1001)
    assert "between 1 and" in complaint(album, "search", phrase="a dog", top=0)
    assert "0 or more" in complaint(album, "list_photos", skip=-1)
    for text in (complaint(album, "search", phrase=""), complaint(album, "show", path="nothing")):
        assert "\n" not in text
        assert "Traceback" not in text


def test_a_folder_without_an_index_is_named(tmp_path: Path) -> None:
    shutil.copy(PHOTOS / "hug.jpg", tmp_path)
    without = Album.of([tmp_path], lambda: regiontalk.load("fast", words_book=False))
    assert "regiontalk index" in complaint(without, "search", phrase="a dog")


def over_stdio(folder: Path, work: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        command = ["-m", "regiontalk", "mcp", str(folder), "--model", "fast"]
        command += ["--words-book", "none"]
        async with Client(StdioServerParameters(command=sys.executable, args=command)) as client:
            await work(client)

    asyncio.run(run())


def test_the_command_speaks_the_protocol(folder: Path) -> None:
    async def work(client: Client) -> None:
        tools = (await client.list_tools()).tools
        names = {tool.name for tool in tools}
        assert names == {
            "search",
            "list_photos",
            "caption",
            "describe",
            "find",
            "align",
            "show",
        }
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        found = await client.call_tool("search", {"phrase": "a woman"})
        assert "hug.jpg" in str(found.content)

    over_stdio(folder, work)
