"""The agent's endpoints. They answer from memory, whatever the driver does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder

from alerts.secret import Secret, SecretError
from watcher.agent.app import Agent
from watcher.agent.metrics import AgentMetrics
from watcher.agent.server import Handler, Reply, Request, serving
from watcher.agent.status_line import status_line
from watcher.config.listen import Listen
from watcher.snapshot import dump_snapshot
from watcher.systemd import Systemd
from watcher.tls import ServerTls
from watcher.tokens import allowed, lines_of

if TYPE_CHECKING:
    from watcher.agent.push import Pusher

log = logging.getLogger(__name__)
STOP_REAL_SECONDS = 2.0
OPEN = ("/healthz", "/livez")  # they say only ok or not


def build_app(agent: Agent, token: Secret | None) -> Handler:
    """Everything but /healthz and /livez needs the token, where there is one."""
    endpoints = Endpoints(agent)

    async def answer(request: Request) -> Reply:
        if token is not None and request.path not in OPEN and not _allowed(request, token):
            return Reply(b"a bearer token is needed\n", 401, headers={"WWW-Authenticate": "Bearer"})
        endpoint = endpoints.at.get(request.path)
        if endpoint is None:
            return Reply(b"no such page: /snapshot, /metrics, /healthz, /livez\n", 404)
        method, reply = endpoint
        if request.method != method and (request.method, method) != ("HEAD", "GET"):
            return Reply(f"{request.path} takes {method}\n".encode(), 405, headers={"Allow": method})
        return await reply(request)

    return answer


class Endpoints:
    """`at`: path -> method, and what answers."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._registry = CollectorRegistry()
        self._registry.register(AgentMetrics(agent))
        ProcessCollector(registry=self._registry)
        self.at: dict[str, tuple[str, Callable[[Request], Awaitable[Reply]]]] = {
            "/snapshot": ("GET", self._snapshot),
            "/metrics": ("GET", self._metrics),
            "/healthz": ("GET", self._healthz),
            "/livez": ("GET", self._livez),
            "/release": ("POST", self._release),
            "/resume": ("POST", self._resume),
        }

    async def _snapshot(self, request: Request) -> Reply:
        agent = self._agent
        agent.asked_at = agent.clock.time()
        return Reply(dump_snapshot(agent.snapshot(request.query.get("since"))), kind="application/json")

    async def _metrics(self, request: Request) -> Reply:
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        return Reply(encode(self._registry), kind=kind)

    async def _healthz(self, request: Request) -> Reply:
        return Reply(b"ok\n") if self._agent.is_healthy else Reply(b"not ok\n", 503)

    async def _livez(self, request: Request) -> Reply:
        """For who may start it anew: a driver that does not answer is no reason to."""
        return Reply(b"ok\n") if self._agent.is_live else Reply(b"not ok\n", 503)

    async def _release(self, request: Request) -> Reply:
        await self._agent.gpus.release()
        return Reply(json.dumps({"released": True}).encode(), kind="application/json")

    async def _resume(self, request: Request) -> Reply:
        self._agent.gpus.resume()
        return Reply(json.dumps({"released": False}).encode(), kind="application/json")


async def serve(
    agent: Agent, app: Handler, sock: socket.socket, on_listen: Callable[[str], None], tls: ServerTls | None = None,
    pusher: Pusher | None = None,
) -> None:  # fmt: skip
    """Until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    systemd = Systemd.of()
    beside = [one for one in (pusher.run() if pusher else None, tls.follow() if tls else None) if one is not None]
    others = [asyncio.create_task(one) for one in beside]

    def cycled() -> None:
        systemd.worked(status_line(agent))
        if pusher is not None:
            pusher.wake()

    async with serving(app, sock, tls.context if tls is not None else None):
        host, port = sock.getsockname()[:2]
        on_listen(str(Listen(host, port)))
        systemd.ready(agent.clock.real_seconds(agent.config.patience_seconds))
        cycles = asyncio.create_task(agent.run(stop, cycled))
        await stop.wait()
        systemd.stopping()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(cycles, STOP_REAL_SECONDS)
        for task in others:
            task.cancel()
        if pusher is not None:
            pusher.close()


def _allowed(request: Request, token: Secret) -> bool:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    try:
        return scheme.lower() == "bearer" and allowed(given.strip(), lines_of(token))
    except SecretError as error:
        log.error("every request is refused: agent.token_file: %s", error)
        return False
