"""What `systemctl status` says of the agent: what it reads, and by name what it cannot read."""

from __future__ import annotations

import asyncio

from watcher.agent.app import Agent
from watcher.agent.status_line import status_line
from watcher.clock import FakeClock
from watcher.config.agent import AgentConfig
from watcher.simulate.fleet import Fleet
from watcher.simulate.gpus import SimulatedGpus
from watcher.simulate.script import SCRIPTS
from watcher.snapshot import LogStatus


def test_it_counts_what_is_read_and_names_what_is_not():
    clock, fleet = FakeClock(), Fleet(script=SCRIPTS["deadlock"])
    gpus = SimulatedGpus(fleet, fleet.nodes[0], clock, clock.time() - 100)
    agent = Agent(AgentConfig().agent, clock, gpus, None)
    assert status_line(agent).startswith("reads 0 GPUs and 0 log files")
    asyncio.run(agent.cycle())
    agent.statuses = (LogStatus(path="/a", file="1"), LogStatus(path="/b", error="Permission denied"))
    assert status_line(agent) == "reads 8 GPUs and 1 log file; /b: Permission denied"
