"""Starts and stops the server."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable

import uvicorn

from regiontalk.errors import UsageError
from regiontalk.serve.application import build
from regiontalk.serve.calls import Server
from regiontalk.serve.indexing import Indexing
from regiontalk.serve.protocol import Protocol
from regiontalk.serve.settings import Settings
from regiontalk.serve.workers import Workers

BACKLOG = 128  # connections that are accepted at once
GRACE_SECONDS = 2  # for requests that are in progress at shutdown
LAST_SECONDS = 1.5  # for their answers after they are cancelled
TURNS = (
    10  # of the event loop: more than it takes to accept a connection and to read the request on it
)

Ready = Callable[[str], None]


def run(settings: Settings, ready: Ready) -> None:
    """Serves until SIGTERM or Ctrl-C; calls `ready` with the address once it answers, which is
    before the model is loaded."""
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(0)
    )  # uvicorn ends first, then sends itself the signal again
    logging.getLogger("python_multipart").addHandler(
        logging.NullHandler()
    )  # it logs every broken request
    with listen(settings.host, settings.port) as listening:
        asyncio.run(_serve(settings, listening, ready))


def listen(host: str, port: int) -> socket.socket:
    """Opened before the model is loaded, so that a port in use is reported at once."""
    problem = f"cannot listen on {host}:{port}"
    try:
        (family, kind, *_, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(f"{problem}: {error.strerror or error}") from error
    listening = socket.socket(family, kind)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise UsageError(
            f"{problem}: {error.strerror or error}", hint="--port 0 chooses a free port"
        ) from error
    return listening


class Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Ready) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            host, port, *_ = listening.getsockname()
            self._ready(f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Closing a socket with unread data resets the connection, and the client sees no answer.
        So the data that has arrived is read first, and cancelled requests get time for their
        answer."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
        await super().shutdown(sockets)
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=LAST_SECONDS)


async def _serve(settings: Settings, listening: socket.socket, ready: Ready) -> None:
    """Answers at once; requests that need a worker wait until the first one has started."""
    server = Server(settings, Workers(settings), Indexing(settings))
    config = uvicorn.Config(
        build(server),
        http=Protocol,
        ws="none",
        backlog=BACKLOG,
        log_level="error",
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        lifespan="off",
    )
    web = Uvicorn(config, ready)
    starting = asyncio.create_task(_start(server, web))
    try:
        await web.serve([listening])
        if starting.done():
            starting.result()  # raises the error that prevented the start
    finally:
        starting.cancel()
        server.workers.close()
        server.indexing.close()


async def _start(server: Server, web: Uvicorn) -> None:
    try:
        server.about = await server.workers.start()
        server.indexing.begin(server.about["photos"])
    except BaseException:
        web.should_exit = True
        raise
