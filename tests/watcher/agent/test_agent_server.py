"""What the agent's HTTP does with peers that are slow, wrong or many."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from watcher.agent import server
from watcher.agent.server import Reply, Request, serving
from watcher.bind import bind
from watcher.config.listen import Listen

Talk = Callable[[int], Awaitable[None]]


async def echo(request: Request) -> Reply:
    if request.path == "/breaks":
        raise RuntimeError("a fault of ours")
    return Reply(f"{request.method} {request.path} {dict(request.query)}\n".encode())


def with_server(talk: Talk) -> None:
    async def play() -> None:
        sock = bind(Listen("127.0.0.1", 0))
        async with serving(echo, sock):
            await talk(sock.getsockname()[1])

    asyncio.run(play())


async def say(port: int, text: bytes) -> bytes:
    """All that comes back until the other side closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text)
    try:
        return await asyncio.wait_for(reader.read(), 5)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


CLOSE = b"Host: x\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"GET /a?b=c HTTP/1.1\r\n" + CLOSE, b"200"),
        (b"GET /breaks HTTP/1.1\r\n" + CLOSE, b"500"),
        (b"\x16\x03\x01 this is TLS\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),  # no Host
        (b"GET //[ HTTP/1.1\r\n" + CLOSE, b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * 40_000 + b"\r\n\r\n", b"431"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n" + b"z" * 9000, b"413"),
        (b"GET /?" + b"&".join(b"a=%d" % n for n in range(50)) + b" HTTP/1.1\r\n" + CLOSE, b"200"),
    ],
    ids=["plain", "a handler that breaks", "TLS", "no host", "no URL", "a huge head", "a huge body", "many parameters"],
)
def test_each_request_is_answered_by_its_status(text, status):
    async def talk(port: int) -> None:
        answer = await say(port, text)
        assert answer.startswith(b"HTTP/1.1 " + status), answer[:80]

    with_server(talk)


def test_requests_of_one_connection_are_answered_in_their_order():
    async def talk(port: int) -> None:
        answer = await say(port, b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\n" + CLOSE)
        assert answer.count(b"HTTP/1.1 200") == 2
        assert answer.index(b"/1") < answer.index(b"/2")

    with_server(talk)


def test_a_head_request_gets_the_length_and_no_body():
    async def talk(port: int) -> None:
        answer = await say(port, b"HEAD /a HTTP/1.1\r\n" + CLOSE)
        assert answer.endswith(b"\r\n\r\n")
        assert b"content-length: 11" in answer.lower()

    with_server(talk)


def test_a_peer_that_dawdles_is_cut_and_holds_up_nobody(monkeypatch):
    monkeypatch.setattr(server, "REQUEST_REAL_SECONDS", 0.1)

    async def talk(port: int) -> None:
        slow = asyncio.create_task(say(port, b"GET / HT"))
        assert (await say(port, b"GET /quick HTTP/1.1\r\n" + CLOSE)).startswith(b"HTTP/1.1 200")
        assert await slow == b""

    with_server(talk)


def test_beyond_the_bound_the_connection_that_waits_for_longest_makes_room(monkeypatch):
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 3)

    async def talk(port: int) -> None:
        silent = await asyncio.open_connection("127.0.0.1", port)
        dawdling = await asyncio.open_connection("127.0.0.1", port)
        dawdling[1].write(b"GET /half HTTP/1.1\r\n")
        asking = await asyncio.open_connection("127.0.0.1", port)
        more = [silent, dawdling, asking]
        for number in range(2):  # each other connection costs one of those that say nothing
            asking[1].write(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await asking[0].readuntil(b"}\n")).startswith(b"HTTP/1.1 200"), number
            assert (await say(port, b"GET / HTTP/1.1\r\n" + CLOSE)).startswith(b"HTTP/1.1 200"), number
            more.append(await asyncio.open_connection("127.0.0.1", port))
        for reader, _ in (silent, dawdling):
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), 5) == b""
        for _, writer in more:
            writer.close()

    with_server(talk)


def test_a_connection_that_is_being_answered_is_not_cut_for_another_one(monkeypatch):
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 1)
    at_work, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Reply:
        at_work.set()
        await go_on.wait()
        return Reply(b"done\n")

    async def play() -> None:
        sock = bind(Listen("127.0.0.1", 0))
        async with serving(slow, sock):
            port = sock.getsockname()[1]
            first = asyncio.create_task(say(port, b"GET / HTTP/1.1\r\n" + CLOSE))
            await at_work.wait()
            assert await say(port, b"GET / HTTP/1.1\r\n" + CLOSE) == b""
            go_on.set()
            assert (await first).endswith(b"done\n")

    asyncio.run(play())
