"""Sets two agents, a log, a daemon and a webhook receiver up on loopback and lets a script play through them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from aiohttp import web

from alerts.incidents import Transition
from watcher.agent.app import Agent
from watcher.agent.follow import LogFollower
from watcher.agent.http import build_app as agent_app
from watcher.agent.server import serving
from watcher.bind import bind
from watcher.clock import SystemClock
from watcher.config.agent import AgentConfig
from watcher.config.daemon import DaemonConfig
from watcher.config.listen import Listen
from watcher.daemon.app import Daemon
from watcher.daemon.build import build
from watcher.daemon.http import build_app as daemon_app
from watcher.daemon.serve import QuietServer
from watcher.daemon.store import Store
from watcher.simulate.fleet import Fleet
from watcher.simulate.gpus import SimulatedGpus
from watcher.simulate.script import Script

RUN = "demo-13B"
INTERVAL_SECONDS = 10.0
GPU_HOUR_PRICE = 2.5
DRAIN_REAL_SECONDS = 3.0


@dataclass(slots=True)
class Show:
    """What the audience sees. `pages`: bodies as the webhook receiver got them."""

    fleet: Fleet
    clock: SystemClock
    started_at: float
    daemon: Daemon
    url: str
    pages: list[dict[str, Any]] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)

    @property
    def t(self) -> float:
        """Virtual seconds since the start."""
        return self.clock.time() - self.started_at


async def perform(
    script: Script,
    folder: Path,
    scale: float,
    on_tick: Callable[[Show], None],
    on_transition: Callable[[Transition], None],
    listen: Listen | None = None,
    encore: asyncio.Event | None = None,
) -> Show:
    """Plays the script to its end; with `encore` it goes on afterwards until that is set."""
    async with _stage(script, folder, scale, listen or Listen("127.0.0.1", 0)) as (show, agents, log):
        read_to = 0.0
        while show.t < script.seconds or (encore is not None and not encore.is_set()):
            now = show.t
            with log.open("a", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in show.fleet.log_lines(read_to, now))
            read_to = now
            await asyncio.gather(*(agent.cycle() for agent in agents))
            seen = len(show.transitions)
            await show.daemon.tick()
            for transition in show.transitions[seen:]:
                on_transition(transition)
            on_tick(show)
            await show.clock.sleep(max(0.0, INTERVAL_SECONDS - (show.t - now)))
        await _drain(show)
        return show


async def _drain(show: Show) -> None:
    """Messages that are on their way are waited for."""
    for _ in range(int(DRAIN_REAL_SECONDS / 0.05)):
        if not any(health.pending for health in show.daemon.desk.outbox.health()):
            return
        await asyncio.sleep(0.05)


@asynccontextmanager
async def _stage(
    script: Script, folder: Path, scale: float, listen: Listen
) -> AsyncIterator[tuple[Show, list[Agent], Path]]:
    fleet, clock = Fleet(script=script), SystemClock(scale)
    started_at = clock.time()
    log = folder / "train.log"
    log.touch()
    pages: list[dict[str, Any]] = []
    async with contextlib.AsyncExitStack() as stack:
        receiver = await _receiver(stack, pages)
        agents, addresses = [], {}
        for node in fleet.nodes:
            logs = [str(log)] if node == fleet.nodes[0] else []
            config = AgentConfig.model_validate(
                {"agent": {"node": node, "interval_seconds": INTERVAL_SECONDS, "logs": logs}}
            )
            follower = LogFollower(config.agent.logs, node, None, clock) if logs else None
            agent = Agent(config.agent, clock, SimulatedGpus(fleet, node, clock, started_at), follower)
            sock = bind(Listen("127.0.0.1", 0))
            await stack.enter_async_context(serving(agent_app(agent, None), sock))
            addresses[node] = _address(sock)
            agents.append(agent)
        daemon, url = await _daemon(stack, fleet, clock, folder, addresses, receiver, listen)
        show = Show(fleet, clock, started_at, daemon, url, pages)
        daemon.on_transitions = show.transitions.extend
        yield show, agents, log


async def _daemon(
    stack: contextlib.AsyncExitStack, fleet: Fleet, clock: SystemClock, folder: Path, addresses: dict[str, str],
    receiver: str, listen: Listen,
) -> tuple[Daemon, str]:  # fmt: skip
    config = DaemonConfig.model_validate(
        {
            "daemon": {
                "database": str(folder / "runwatch.db"),
                "interval_seconds": INTERVAL_SECONDS,
                "agents": {"addresses": addresses},
            },
            "runs": [{"name": RUN, "nodes": list(fleet.nodes), "gpu_hour_price": GPU_HOUR_PRICE}],
            "channels": {"oncall": {"webhook": {"url": f"http://{receiver}/page"}}},
        }
    )
    store = Store(config.daemon.database, clock.time())
    stack.callback(store.close)
    daemon, _ = build(config, clock, store)
    for source in daemon.sources:
        await stack.enter_async_context(source)
    for worker in daemon.workers:
        worker.start()
        stack.callback(worker.stop, 2.0)
    sock = bind(listen)
    server = QuietServer(
        uvicorn.Config(daemon_app(daemon, None, store.history, store), lifespan="off", log_config=None)
    )
    serving = asyncio.create_task(server.serve(sockets=[sock]))

    async def stop() -> None:
        server.should_exit = True
        await serving

    stack.push_async_callback(stop)
    return daemon, f"http://{_address(sock)}"


async def _receiver(stack: contextlib.AsyncExitStack, pages: list[dict[str, Any]]) -> str:
    """The far side of the webhook: what it gets is what a person would get."""

    async def take(request: web.Request) -> web.Response:
        pages.append(json.loads(await request.read()))
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_post("/page", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    sock = bind(Listen("127.0.0.1", 0))
    await web.SockSite(runner, sock).start()
    return _address(sock)


def _address(sock: socket.socket) -> str:
    return f"127.0.0.1:{sock.getsockname()[1]}"


def resolved_something(transitions: Sequence[Transition], signature: str) -> bool:
    """Whether an incident of this signature was opened and ended."""
    opened = any(t.event == "opened" and t.incident.signature == signature for t in transitions)
    ended = any(t.event == "resolved" and t.incident.signature == signature for t in transitions)
    return opened and ended
