"""Asking agents: what goes wrong is one readable line per node, and loses nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from alerts.secret import Secret
from detectors.telemetry import GpuReading
from watcher.clock import SystemClock
from watcher.daemon.answer import Answer
from watcher.daemon.collect import MAX_BYTES, Collector, check_node
from watcher.snapshot import Snapshot, SnapshotError, dump_snapshot, parse_snapshot
from watcher.tokens import NodeTokens

GOOD = Snapshot(
    node="n", stream="abc", sent_at=1.0, next_seq=7, gpus=(GpuReading(uuid="u", index=0, power_watts=300.0),)
)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def ask(*handlers: Handler, timeout: float = 2.0, times: int = 1) -> list[Answer]:
    """One node per handler, each a real server on loopback; the answers of the last round."""

    async def play() -> list[Answer]:
        runners, addresses = [], {}
        for number, handler in enumerate(handlers):
            app = web.Application()
            app.router.add_get("/snapshot", handler)
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            runners.append(runner)
            addresses[f"n.{number}"] = f"http://127.0.0.1:{runner.addresses[0][1]}"
        addresses["gone"] = "http://127.0.0.1:9"
        async with Collector(addresses, SystemClock(), NodeTokens(Secret("T-SECRET")), timeout) as collector:
            for _ in range(times):
                answers = list(await collector.ask_all())
        for runner in runners:
            await runner.cleanup()
        return answers

    return asyncio.run(play())


def saying(body: bytes, status: int = 200) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=body, status=status)

    return handler


async def never(request: web.Request) -> web.Response:
    await asyncio.sleep(30)
    return web.Response()


async def endless(request: web.Request) -> web.StreamResponse:
    reply = web.StreamResponse()
    await reply.prepare(request)
    while True:
        await reply.write(b" " * (1 << 20))


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        pytest.param(saying(b"no", 401), "refuses the token", id="another token"),
        pytest.param(saying(b"no", 404), "something else than a runwatch agent", id="another service"),
        pytest.param(saying(b"<html>"), "does not answer JSON", id="a web page"),
        pytest.param(saying(b"[" * 200_000), "does not answer JSON", id="nested without end"),
        pytest.param(saying(b"[1]"), "not a JSON object", id="another JSON"),
        pytest.param(saying(b'{"version": 99, "node": "n"}'), "snapshot version 99, this daemon version 1", id="newer"),
        pytest.param(saying(b'{"version": 1}'), "node: Field required", id="a torn snapshot"),
        pytest.param(never, "within 0.3 s", id="hangs"),
        pytest.param(endless, f"larger than {MAX_BYTES >> 20} MiB", id="never ends"),
    ],
)
def test_a_failure_is_one_line_and_loses_nobody_else(handler, text):
    bad, good, gone = ask(handler, saying(dump_snapshot(GOOD)), timeout=0.3 if handler is never else 5.0)
    assert bad.snapshot is None
    assert text in bad.error
    assert "\n" not in bad.error
    assert "T-SECRET" not in bad.error
    assert good.snapshot.gpus == GOOD.gpus
    assert "cannot connect" in gone.error


def test_it_asks_for_what_is_new_and_shows_its_token():
    seen: list[Any] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append((request.query.get("since"), request.headers["Authorization"]))
        return web.Response(body=dump_snapshot(GOOD))

    ask(handler, times=2)
    assert seen == [(None, "Bearer T-SECRET"), ("abc:7", "Bearer T-SECRET")]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("power_watts", -1), ("power_watts", 1e9), ("power_watts", "300"), ("power_watts", True),
        ("utilization_ratio", 98), ("temperature_celsius", 4000), ("memory_used_bytes", -5),
        ("ecc_volatile_uncorrected_count", 2**64 - 1),
    ],
)  # fmt: skip
def test_an_impossible_value_is_dropped_alone_and_told(field, value):
    raw = {"version": 1, "node": "n", "stream": "s", "sent_at": 1.0}
    raw["gpus"] = [{"uuid": "a", "index": 0, "sm_clock_mhz": 1400, field: value}, {"uuid": "b", "index": 1}]
    snapshot = parse_snapshot(raw)
    assert getattr(snapshot.gpus[0], field) is None
    assert snapshot.gpus[0].sm_clock_mhz == 1400
    assert [gpu.uuid for gpu in snapshot.gpus] == ["a", "b"]
    assert field in snapshot.rejected[0]


def test_a_newer_agent_may_say_more_and_an_older_one_less():
    raw = {"version": 1, "node": "n", "stream": "s", "sent_at": 1.0, "new_thing": {"x": 1}, "gpus": [{"uuid": "a", "index": 0, "new": 1}]}  # fmt: skip # noqa: E501
    assert parse_snapshot(raw).gpus[0].power_watts is None


@pytest.mark.parametrize("raw", [None, 3, "x", [], {}, {"version": 1}, {"version": 1, "node": 3, "stream": []}])
def test_what_is_no_snapshot_is_one_error(raw):
    with pytest.raises(SnapshotError):
        parse_snapshot(raw)


def test_what_is_written_is_read_back():
    import json

    assert parse_snapshot(json.loads(dump_snapshot(GOOD))).gpus == GOOD.gpus


@pytest.mark.parametrize(
    ("wanted", "said", "good"),
    [
        ("n1", "n1", True),
        ("n1", "n1.cluster", True),
        ("n1.cluster", "n1", True),
        ("n1", "n2", False),
        ("n1.a", "n1.b", False),
        ("n1", "n10", False),
        ("n1", "", False),
    ],
)
def test_a_node_speaks_for_itself_only(wanted, said, good):
    if good:
        check_node(wanted, said, "it")
        return
    with pytest.raises(SnapshotError, match="says that it is node"):
        check_node(wanted, said, "it")


def test_nodes_that_are_silent_take_no_time_from_those_that_answer(monkeypatch):
    monkeypatch.setattr("watcher.daemon.collect.AT_ONCE", 4)
    *silent, _ = ask(*[never] * 8, saying(dump_snapshot(GOOD)), timeout=0.5)
    assert all("no answer" in (one.error or "") for one in silent[:8])
    assert silent[8].snapshot is not None
