"""HTTP/1.1 by uvicorn and h11, with limits on what a connection may cost before and after its
request is handled."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from regiontalk.serve.answers import Refused, error_response
from regiontalk.serve.guards import HEADERS

MAX_CONNECTIONS = 256
MAX_HEAD_BYTES = 1 << 14  # of a request's first line and headers that are still incomplete
HEAD_SECONDS = 8.0  # from the connection, or from the first byte of a further request
UNREAD_SECONDS = 120.0  # in which a client must read the answer that waits for it
READ_BYTES = 1 << 16  # at a time, so that all connections get their turn
FREE_CHUNKS = 1000  # chunks of a body; more of them must not be tiny on average
TINY_BYTES = 64


class _Connection(h11.Connection):
    """Refuses bodies in tiny chunks, which take a hundred times longer to read than others."""

    _chunks = 0
    _body_bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._body_bytes = 0
        elif isinstance(event, h11.Data):
            self._chunks += event.chunk_start
            self._body_bytes += len(event.data)
            if self._chunks > FREE_CHUNKS and self._body_bytes < TINY_BYTES * self._chunks:
                raise h11.RemoteProtocolError("the chunks of the body are too small")
        return event


class Protocol(H11Protocol):
    """One connection."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = _Connection(h11.SERVER, MAX_HEAD_BYTES)
        self._opened = self.loop.time()
        self._is_aborted = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]
        self._wait_for_head()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting_for_head()
        self._stop_waiting_for_reader()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        else:
            self._stop_waiting_for_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_timer = self.loop.call_later(UNREAD_SECONDS, self._abort)

    def resume_writing(self) -> None:
        self._stop_waiting_for_reader()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        self._refuse(Refused(400, msg))

    def _wait_for_head(self) -> None:
        if self._head_timer is None and not self.transport.is_closing():
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._end_waiting)

    def _stop_waiting_for_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_waiting_for_reader(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _end_waiting(self) -> None:
        begun, _ = self.conn.trailing_data
        if begun:
            limit = f"the request took longer than {HEAD_SECONDS:g} seconds to arrive"
            self._refuse(Refused(408, limit))
        else:  # a browser that connects before it needs to expects no answer
            self.transport.close()

    def _make_room(self) -> None:
        """Ends the connection that has waited longest for a request; this one, if all others are
        at work."""
        open_ones = [
            connection
            for connection in self.connections
            if not getattr(connection, "_is_aborted", False)
        ]
        if len(open_ones) > MAX_CONNECTIONS:
            waiting = [
                connection
                for connection in open_ones
                if isinstance(connection, Protocol) and connection._is_waiting()
            ]
            min(waiting, key=lambda connection: connection._opened)._abort()

    def _is_waiting(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _abort(self) -> None:
        self._is_aborted = True
        self.transport.abort()

    def _refuse(self, error: Refused) -> None:
        """Answers what is no request, or no longer one, and ends the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = error_response(error)
            ours = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            headers = [*answer.raw_headers, *ours, (b"connection", b"close")]
            for event in (
                h11.Response(
                    status_code=answer.status_code,
                    headers=headers,
                    reason=HTTPStatus(answer.status_code).phrase.encode(),
                ),
                h11.Data(data=bytes(answer.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None:  # nobody hears what the application still has to say
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()
