"""The ping to somebody outside: a cycle never waits for it, and nobody reads its URL from us."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web

from alerts.secret import Secret, secret_file
from watcher.daemon.dead_man import DeadManSwitch, _place

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def fine(request: web.Request) -> web.StreamResponse:
    return web.Response()


async def moved(request: web.Request) -> web.StreamResponse:
    return web.Response(status=302, headers={"Location": "/login"})  # nobody is told by it


async def unknown(request: web.Request) -> web.StreamResponse:
    return web.Response(status=404)


async def silent(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(30)
    return web.Response()


def with_server(
    handler: Handler, play: Callable[[DeadManSwitch], Awaitable[None]], timeout: float = 5.0,
    start_and_fail: bool = False,
) -> None:  # fmt: skip
    async def run() -> None:
        app = web.Application()
        app.router.add_route("*", "/SECRET-PATH{signal:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/SECRET-PATH"
        try:
            await play(DeadManSwitch(Secret(url), 60.0, timeout, start_and_fail))
        finally:
            await runner.cleanup()

    asyncio.run(run())


async def until(wanted: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not wanted():
            await asyncio.sleep(0.01)


def test_it_pings_once_an_interval_and_notes_when_it_was_heard():
    asked: list[str] = []

    async def heard(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response()

    async def play(switch: DeadManSwitch) -> None:
        switch.ping_when_due(1000.0, 0.0)
        await until(lambda: switch.last_success_at == 1000.0)
        switch.ping_when_due(1030.0, 30.0)
        switch.ping_when_due(1060.0, 60.0)
        await until(lambda: switch.last_success_at == 1060.0)

    with_server(heard, play)
    assert len(asked) == 2


def test_a_server_that_sends_a_byte_now_and_then_holds_nobody_and_is_given_up():
    hung_up = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nX: ")
        while not reader.at_eof():
            writer.write(b"y")
            with suppress(TimeoutError):
                await asyncio.wait_for(reader.read(4096), 0.02)
        writer.close()
        hung_up.set()

    async def play() -> None:
        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        switch = DeadManSwitch(Secret(f"http://127.0.0.1:{port}/"), 60.0, timeout_seconds=0.3)
        switch.ping_when_due(1.0, 0.0)  # returns at once
        await until(lambda: switch.error == "TimeoutError" and hung_up.is_set())
        assert switch.last_success_at is None
        server.close()
        await server.wait_closed()

    asyncio.run(play())


def test_only_one_is_out_at_a_time():
    asked: list[str] = []

    async def slow(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        return await silent(request)

    async def play(switch: DeadManSwitch) -> None:
        for monotonic in (0.0, 60.0, 120.0):
            switch.ping_when_due(monotonic, monotonic)
            await asyncio.sleep(0.05)
        await until(lambda: switch.error)

    with_server(slow, play, timeout=1.0)
    assert len(asked) == 1


@pytest.mark.parametrize(("handler", "error"), [(unknown, "HTTP 404"), (moved, "HTTP 302"), (silent, "TimeoutError")])
def test_a_failure_is_logged_once_without_the_url_and_over_when_it_is_heard(handler, error, caplog):
    answers: list[Handler] = [handler, handler, fine]

    async def scripted(request: web.Request) -> web.StreamResponse:
        return await answers.pop(0)(request)

    async def play(switch: DeadManSwitch) -> None:
        for number in range(2):
            switch.error = switch.error and f"{switch.error} "  # to see that it was set anew
            switch.ping_when_due(1.0, 60.0 * number)
            await until(lambda: switch.error == error)
        switch.ping_when_due(3.0, 180.0)
        await until(lambda: switch.last_success_at == 3.0)
        assert switch.error is None

    with caplog.at_level(logging.WARNING):
        with_server(scripted, play, timeout=0.5)
    assert caplog.text.count("dead-man ping failed") == 1
    assert "SECRET-PATH" not in caplog.text


@pytest.mark.parametrize("url", ["", "no url", "http://127.0.0.1:9/SECRET-PATH", "ftp://h/SECRET-PATH"])
def test_a_url_that_leads_nowhere_is_an_error_and_no_end(url, caplog):
    async def play() -> None:
        switch = DeadManSwitch(Secret(url), 60.0)
        switch.ping_when_due(1.0, 0.0)
        await until(lambda: switch.error)

    with caplog.at_level(logging.WARNING):
        asyncio.run(play())
    assert "SECRET-PATH" not in caplog.text


def test_a_missing_url_file_names_the_file(tmp_path):
    async def play() -> None:
        switch = DeadManSwitch(secret_file(tmp_path / "none"), 60.0)
        switch.ping_when_due(1.0, 0.0)
        await until(lambda: switch.error)
        assert str(tmp_path / "none") in (switch.error or "")

    asyncio.run(play())


def test_a_service_that_knows_them_hears_of_a_start_and_of_a_failure_with_its_reason():
    heard: list[tuple[str, str]] = []

    async def listen(request: web.Request) -> web.StreamResponse:
        heard.append((request.match_info["signal"], await request.text()))
        return web.Response()

    async def play(switch: DeadManSwitch) -> None:
        switch.started(1000.0)
        await until(lambda: len(heard) == 1)
        for now in (1010.0, 1020.0):
            switch.ping_when_due(now, now)
            await until(lambda: len(heard) == 2)
        for now in (1030.0, 1040.0):  # at once, then once an interval
            switch.fail_when_due("database full", now, now)
            await until(lambda: len(heard) == 3)
        switch.ping_when_due(1050.0, 1050.0)
        await until(lambda: len(heard) == 4)
        assert switch.last_success_at == 1050.0

    with_server(listen, play, start_and_fail=True)
    assert heard == [("/start", ""), ("", ""), ("/fail", "database full"), ("", "")]


def test_a_service_that_knows_only_pings_hears_nothing_else():
    async def play() -> None:
        switch = DeadManSwitch(Secret("http://127.0.0.1:9/SECRET-PATH"), 60.0)
        switch.started(1000.0)
        switch.fail_when_due("database full", 1000.0, 0.0)
        await asyncio.sleep(0)
        assert switch.error is None

    asyncio.run(play())


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://hc.example/ping/uuid", "https://hc.example/ping/uuid/fail"),
        ("https://hc.example/key/slug/?create=1", "https://hc.example/key/slug/fail?create=1"),
    ],
)
def test_what_is_not_success_is_said_below_the_url(url, place):
    assert _place(url, "fail") == place
    assert _place(url, "success") == url
