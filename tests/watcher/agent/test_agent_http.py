"""The agent's endpoints: who may ask, what the ring of events gives, what health means."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientSession

from alerts.secret import Secret, secret_file
from watcher.agent.app import Agent
from watcher.agent.events import EventRing
from watcher.agent.http import build_app
from watcher.agent.server import serving
from watcher.bind import bind
from watcher.clock import FakeClock
from watcher.config.agent import AgentConfig
from watcher.config.listen import Listen
from watcher.daemon.inbox import Inbox
from watcher.events import LogEvent
from watcher.simulate.fleet import Fleet
from watcher.simulate.gpus import SimulatedGpus
from watcher.simulate.script import SCRIPTS
from watcher.snapshot import LogLine, parse_snapshot


def line(seq: int, age: float) -> LogLine:
    return LogLine(seq=seq, age_seconds=age, path="/l", file="f", offset=seq, event=LogEvent(event="step", step=seq))


Scenario = Callable[[Agent, FakeClock, ClientSession, str], Awaitable[Any]]


def with_agent(scenario: Scenario, token: str | None = None, secret: Secret | None = None) -> None:
    async def play() -> None:
        clock = FakeClock()
        fleet = Fleet(script=SCRIPTS["deadlock"])
        config = AgentConfig.model_validate({"agent": {"node": fleet.nodes[0]}}).agent
        agent = Agent(config, clock, SimulatedGpus(fleet, fleet.nodes[0], clock, clock.time() - 100), None)
        sock = bind(Listen("127.0.0.1", 0))
        async with serving(build_app(agent, Secret(token) if token else secret), sock), ClientSession() as http:
            await scenario(agent, clock, http, f"http://127.0.0.1:{sock.getsockname()[1]}")

    asyncio.run(play())


def test_everything_but_healthz_needs_the_token():
    async def scenario(agent, clock, http, url) -> None:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer Té"}):
            for path in ("/snapshot", "/metrics", "/nowhere"):
                async with http.get(url + path, headers=headers) as reply:
                    assert reply.status == 401, (path, headers)
            async with http.post(url + "/release", headers=headers) as reply:
                assert reply.status == 401
        async with http.get(url + "/healthz") as reply:
            assert (await reply.text()).strip() in ("ok", "not ok")
        async with http.get(url + "/snapshot", headers={"Authorization": "Bearer T"}) as reply:
            assert reply.status == 200

    with_agent(scenario, token="T")


def test_health_follows_the_age_of_the_data():
    async def scenario(agent, clock, http, url) -> None:
        async def status() -> int:
            async with http.get(url + "/healthz") as reply:
                return reply.status

        assert await status() == 503
        await agent.cycle()
        assert await status() == 200
        clock.advance(60)
        assert await status() == 503

    with_agent(scenario)


def test_it_lives_as_long_as_its_cycles_end_whatever_the_driver_does():
    async def scenario(agent, clock, http, url) -> None:
        async def status() -> int:
            async with http.get(url + "/livez") as reply:
                return reply.status

        assert await status() == 200
        clock.advance(60)
        agent.gpus.poll = lambda deadline: asyncio.sleep(0)  # nothing comes of it
        await agent.cycle()
        assert (await status(), agent.is_healthy) == (200, False)
        clock.advance(100)
        assert await status() == 503

    with_agent(scenario, token="T")


def test_stale_readings_are_not_published_and_their_age_is():
    async def scenario(agent, clock, http, url) -> None:
        await agent.cycle()
        clock.advance(60)
        async with http.get(url + "/snapshot") as reply:
            snapshot = parse_snapshot(await reply.json())
        assert snapshot.gpus == ()
        assert snapshot.gpus_age_seconds == 60
        async with http.get(url + "/metrics") as reply:
            text = await reply.text()
        assert "runwatch_gpu_power_watts{" not in text
        assert 'runwatch_agent_source_age_seconds{node="gpu-node-01",source="nvml"} 60.0' in text

    with_agent(scenario)


def test_metrics_say_when_a_daemon_last_asked():
    async def scenario(agent, clock, http, url) -> None:
        async with http.get(url + "/snapshot"):
            pass
        async with http.get(url + "/metrics") as reply:
            assert "runwatch_agent_last_snapshot_request_timestamp_seconds{" in await reply.text()

    with_agent(scenario)


def test_reads_of_the_ring_never_consume_and_continue_where_they_ended():
    ring = EventRing(stream="s")
    for _ in range(3):
        ring.add(100.0, line)
    first = ring.since(None, 110.0)
    assert [e.seq for e in first.events] == [0, 1, 2]
    assert first.events[0].age_seconds == 10.0
    assert ring.since(None, 110.0).events == first.events
    assert ring.since("s:2", 110.0).events[0].seq == 2
    assert ring.since(f"s:{first.next_seq}", 110.0).events == ()


def test_a_gap_says_how_many_were_lost_and_another_stream_starts_over():
    ring = EventRing(kept=5, stream="s")
    for _ in range(12):
        ring.add(100.0, line)
    page = ring.since("s:3", 100.0)
    assert (page.lost, [e.seq for e in page.events]) == (4, [7, 8, 9, 10, 11])
    assert ring.since("other:3", 100.0).lost == 7
    assert ring.since("nonsense", 100.0).next_seq == 12
    assert ring.since("s:²", 100.0).next_seq == ring.since("s:" + "9" * 5_000, 100.0).next_seq == 12


def test_events_are_forgotten_after_ten_minutes():
    ring = EventRing(stream="s")
    ring.add(0.0, line)
    ring.add(590.0, line)
    assert [e.seq for e in ring.since(None, 700.0).events] == [1]


@pytest.mark.parametrize("place", ["s:-1", "s:99999999999999999999", ":", "s:1e3", "x" * 10_000])
def test_a_strange_place_is_answered_all_the_same(place):
    ring = EventRing(stream="s")
    ring.add(0.0, line)
    assert ring.since(place, 1.0).next_seq == 1


@pytest.mark.parametrize("seq", ["9" * 5_000, "²", "-1", "", "0x1"])
def test_a_place_that_is_no_number_is_none_and_everything_is_told(seq):
    ring = EventRing(stream="s")
    ring.add(0.0, line)
    assert [event.seq for event in ring.since(f"s:{seq}", 0.0).events] == [0]
    assert not Inbox(stream="s").follows(f"s:{seq}")


def test_a_token_file_that_is_gone_refuses_everybody_and_is_named(tmp_path, caplog):
    async def scenario(agent, clock, http, url) -> None:
        async with http.get(url + "/snapshot", headers={"Authorization": "Bearer T"}) as reply:
            assert reply.status == 401

    with_agent(scenario, secret=secret_file(tmp_path / "gone.token"))
    assert str(tmp_path / "gone.token") in caplog.text
