"""HTTP/1.1 for the agent's few endpoints, at a tenth of a framework's memory: h11 reads, asyncio has the socket.

All that a peer can hold is bounded: connections, the head, the body, and the time for each of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

import h11

log = logging.getLogger(__name__)
MAX_CONNECTIONS = 64
MAX_HEAD_BYTES = 16 << 10
MAX_BODY_BYTES = 4 << 10
CHUNK = 16 << 10
HANDSHAKE_REAL_SECONDS = 10.0
IDLE_REAL_SECONDS = 75.0  # a daemon that asks every few seconds keeps its connection
REQUEST_REAL_SECONDS = 10.0  # from its first byte to its last
ANSWER_REAL_SECONDS = 30.0  # for a peer that reads slowly


@dataclass(frozen=True, slots=True)
class Request:
    """`headers`: names in lower case, the last of a kind."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reply:
    body: bytes
    status: int = 200
    kind: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Awaitable[Reply]]


@asynccontextmanager
async def serving(handler: Handler, sock: socket.socket, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
    """Answers on `sock` until left; connections that are open then are cut."""
    server = Server(handler)
    listening = await asyncio.start_server(
        server.talk, sock=sock, ssl=tls, limit=CHUNK,
        ssl_handshake_timeout=HANDSHAKE_REAL_SECONDS if tls is not None else None,
    )  # fmt: skip
    try:
        yield
    finally:
        listening.close()
        server.cut()


class Server:
    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._talks: set[asyncio.Task[None]] = set()
        self._waiting: dict[asyncio.Task[None], None] = {}  # for a request, the longest first

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, request after request."""
        task = asyncio.current_task()
        assert task is not None
        if len(self._talks) >= MAX_CONNECTIONS and not self._make_room():
            writer.close()
            return
        self._talks.add(task)
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        try:
            while await self._once(task, connection, reader, writer):
                connection.start_next_cycle()
        except (TimeoutError, OSError, h11.ProtocolError, asyncio.CancelledError):
            pass  # the peer went, dawdles, or speaks no HTTP
        finally:
            self._talks.discard(task)
            self._waiting.pop(task, None)
            writer.transport.abort()

    def _make_room(self) -> bool:
        """Ends the connection that has said nothing whole for longest: whoever holds many keeps nobody out."""
        longest = next(iter(self._waiting), None)
        if longest is None:
            return False
        del self._waiting[longest]
        self._talks.discard(longest)
        longest.cancel()
        return True

    def cut(self) -> None:
        for task in self._talks:
            task.cancel()

    async def _once(
        self, task: asyncio.Task[None], connection: h11.Connection, reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:  # fmt: skip
        """One request and its answer; whether another may follow."""
        self._waiting[task] = None
        if connection.trailing_data[0] == b"":
            async with asyncio.timeout(IDLE_REAL_SECONDS):
                data = await reader.read(CHUNK)
            if not data:
                return False
            connection.receive_data(data)
        try:
            async with asyncio.timeout(REQUEST_REAL_SECONDS):
                request = await _request(connection, reader)
            self._waiting.pop(task, None)
            reply = await self._answer(request) if request is not None else None
        except h11.RemoteProtocolError as error:
            reply, request = Reply(b"this is no HTTP request\n", error.error_status_hint), None
        if reply is None:
            return False
        await _send(connection, writer, reply, request)
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE

    async def _answer(self, request: Request) -> Reply:
        try:
            return await self._handler(request)
        except Exception:  # one answer that fails costs no other
            log.exception("answering %s failed", request.path[:200])
            return Reply(b"the agent failed to answer; its log says why\n", 500)


async def _request(connection: h11.Connection, reader: asyncio.StreamReader) -> Request | None:
    """The next request with its body read and dropped: no endpoint takes one. None where the peer went."""
    request, size = None, 0
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(CHUNK))
        elif isinstance(event, h11.Request):
            request = _parsed(event)
        elif isinstance(event, h11.Data):
            size += len(event.data)
            if size > MAX_BODY_BYTES:
                raise h11.RemoteProtocolError("the body is too large", error_status_hint=413)
        else:  # the end of the message, or of the connection
            return request if isinstance(event, h11.EndOfMessage) else None


def _parsed(event: h11.Request) -> Request:
    try:
        target = urlsplit(event.target.decode("latin-1"))
    except ValueError:
        raise h11.RemoteProtocolError("the target is no URL") from None
    try:
        query = dict(parse_qsl(target.query, max_num_fields=20))
    except ValueError:
        query = {}
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
    return Request(event.method.decode("latin-1"), target.path, query, headers)


async def _send(
    connection: h11.Connection, writer: asyncio.StreamWriter, reply: Reply, request: Request | None
) -> None:
    headers = [("Content-Type", reply.kind), ("Content-Length", str(len(reply.body))), *reply.headers.items()]
    if request is None:
        headers.append(("Connection", "close"))
    phrase = HTTPStatus(reply.status).phrase
    head = connection.send(h11.Response(status_code=reply.status, headers=headers, reason=phrase.encode()))
    body = b"" if request is not None and request.method == "HEAD" else reply.body
    writer.write((head or b"") + (connection.send(h11.Data(data=body)) or b""))
    with contextlib.suppress(h11.LocalProtocolError):
        writer.write(connection.send(h11.EndOfMessage()) or b"")
    async with asyncio.timeout(ANSWER_REAL_SECONDS):
        await writer.drain()
