"""A disk that does not answer holds up nothing but what is read from it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from detectors.telemetry import HostReading
from watcher.agent import app
from watcher.agent.app import Agent
from watcher.clock import FakeClock
from watcher.config.agent import AgentConfig
from watcher.simulate.fleet import Fleet
from watcher.simulate.gpus import SimulatedGpus
from watcher.simulate.script import SCRIPTS


class Host:
    """Blocks while `open` is not set, and fails while `error` is."""

    def __init__(self) -> None:
        self.open, self.error, self.asked = threading.Event(), False, []

    def read(self, pids):
        self.asked.append(pids)
        self.open.wait(10)
        if self.error:
            raise PermissionError(13, "Permission denied")
        return HostReading(memory_used_bytes=len(self.asked))


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def agent(monkeypatch, host) -> Agent:
    monkeypatch.setattr(app, "FILE_DEADLINE_SECONDS", 0.05)
    clock, fleet = FakeClock(), Fleet(script=SCRIPTS["deadlock"])
    config = AgentConfig.model_validate({"agent": {"node": fleet.nodes[0]}}).agent
    gpus = SimulatedGpus(fleet, fleet.nodes[0], clock, clock.time())
    return Agent(config, clock, gpus, None, host)


async def until(agent: Agent, clock: FakeClock, done) -> None:
    for _ in range(200):
        if done():
            return
        await agent.cycle()
        clock.advance(10)
    raise AssertionError("not within 200 cycles")


def test_a_node_that_cannot_be_read_costs_the_gpus_nothing_and_comes_back(agent, host):
    async def play() -> None:
        host.open.set()
        await until(agent, agent.clock, lambda: agent.host is not None)
        assert agent.snapshot(None).host.memory_used_bytes is not None
        host.open.clear()
        for _ in range(6):
            await agent.cycle()
            agent.clock.advance(10)
        late = agent.snapshot(None)
        assert late.gpus
        assert late.host is None, "what was read before is stale"
        assert "hangs" in late.health["host"].error
        host.open.set()
        await until(agent, agent.clock, lambda: agent.health()["host"].ok)
        host.error = True
        await until(agent, agent.clock, lambda: not agent.health()["host"].ok)
        assert "Permission denied" in agent.health()["host"].error
        assert agent.is_healthy

    asyncio.run(play())


def test_only_one_read_is_out_at_a_time_however_long_it_hangs(agent, host):
    async def play() -> None:
        for _ in range(5):
            await agent.cycle()
        assert len(host.asked) == 1
        assert agent._host_reads.late_count == 5
        host.open.set()

    asyncio.run(play())
