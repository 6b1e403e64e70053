"""Agents of a simulated fleet on loopback, in a thread of their own: for commands that ask them over HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from watcher.agent.app import Agent
from watcher.agent.follow import LogFollower
from watcher.agent.http import build_app
from watcher.agent.server import serving
from watcher.bind import bind
from watcher.clock import SystemClock
from watcher.config.agent import AgentConfig
from watcher.config.listen import Listen
from watcher.simulate.fleet import Fleet
from watcher.simulate.gpus import SimulatedGpus


@contextmanager
def live_agents(fleet: Fleet, log: Path | None = None) -> Iterator[dict[str, str]]:
    """node -> HOST:PORT; each has read its GPUs and, the first one, the log."""
    addresses: dict[str, str] = {}
    up, loop = threading.Event(), asyncio.new_event_loop()

    async def live() -> None:
        stop = asyncio.Event()
        stops.append(stop)
        async with AsyncExitStack() as stack:
            for node in fleet.nodes:
                clock = SystemClock()
                logs = [str(log)] if log is not None and node == fleet.nodes[0] else []
                config = AgentConfig.model_validate({"agent": {"node": node, "logs": logs}}).agent
                follower = LogFollower(config.logs, node, None, clock) if logs else None
                agent = Agent(config, clock, SimulatedGpus(fleet, node, clock, clock.time() - 60), follower)
                sock = bind(Listen("127.0.0.1", 0))
                await stack.enter_async_context(serving(build_app(agent, None), sock))
                addresses[node] = f"127.0.0.1:{sock.getsockname()[1]}"
                await agent.cycle()
            up.set()
            await stop.wait()

    stops: list[asyncio.Event] = []
    thread = threading.Thread(target=lambda: loop.run_until_complete(live()), daemon=True)
    thread.start()
    assert up.wait(20)
    try:
        yield addresses
    finally:
        loop.call_soon_threadsafe(stops[0].set)
        thread.join(20)
        loop.close()
