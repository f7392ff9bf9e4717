"""The tools of an `Album` behind the Model Context Protocol, over stdin and stdout. Nothing listens
on a port."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from regiontalk import __version__
from regiontalk.assistants.album import Album, Drawing
from regiontalk.errors import RegionTalkError

INSTRUCTIONS = """\
Finds photos by what is in them, and says what photos show. Search first; paths of hits can be given
to the other tools. Boxes are left, top, right, bottom in pixels. Captions and sentences are those
of a small model: `confidence` and `sure` say how far to trust them. Texts are English."""


def make_server(album: Album) -> MCPServer:
    server = MCPServer(
        "regiontalk", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    tool = _adder(server)

    @tool("Find photos that show what a phrase says, the best first. `likely` hits can be trusted.")
    def search(phrase: str, top: int = 10) -> dict[str, Any]:
        return album.search(phrase, top)

    @tool("List photos whose path contains a text.")
    def list_photos(containing: str = "", skip: int = 0) -> dict[str, Any]:
        return album.list_photos(containing, skip)

    @tool("The regions of a photo, with captions, scores and boxes.")
    def caption(path: str) -> dict[str, Any]:
        return album.caption(path)

    @tool("One sentence about a whole photo.")
    def describe(path: str) -> dict[str, Any]:
        return album.describe(path)

    @tool("Where in a photo is what a phrase says? `here` is false if it is not there.")
    def find(path: str, phrase: str) -> dict[str, Any]:
        return album.find(path, phrase)

    @tool("Which words of a sentence belong to which region of a photo.")
    def align(path: str, sentence: str) -> dict[str, Any]:
        return album.align(path, sentence)

    @tool("Show a photo with boxes: its captions, where a phrase is, or the words of a sentence.")
    def show(path: str, draw: Drawing = "captions", text: str = "") -> Image:
        return Image(data=album.show(path, draw, text), format="jpeg")

    return server


def _adder(server: MCPServer) -> Callable[[str], Callable[[Callable[..., Any]], None]]:
    """Adds tools that change nothing, whose expected errors are told in one sentence."""

    def describe_tool(description: str) -> Callable[[Callable[..., Any]], None]:
        def add(function: Callable[..., Any]) -> None:
            server.add_tool(
                _telling_errors(function),
                name=function.__name__,
                description=description,
                annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
            )

        return add

    return describe_tool


def _telling_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        with _as_tool_errors():
            return function(*arguments, **options)

    return call


@contextmanager
def _as_tool_errors() -> Iterator[None]:
    try:
        yield
    except RegionTalkError as error:
        hint = f" ({error.hint})" if error.hint else ""
        raise ToolError(f"{error.message}{hint}") from error
