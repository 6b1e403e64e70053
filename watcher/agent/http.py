"""The agent's three endpoints. They answer from memory, whatever the driver does."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import signal
import socket
from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder

from alerts.secret import Secret, SecretError
from watcher.agent.app import Agent
from watcher.agent.metrics import AgentMetrics
from watcher.config.listen import Listen
from watcher.snapshot import dump_snapshot

log = logging.getLogger(__name__)
AGENT: web.AppKey[Agent] = web.AppKey("agent", Agent)
REGISTRY: web.AppKey[CollectorRegistry] = web.AppKey("registry", CollectorRegistry)
MAX_BODY_BYTES = 4096
STOP_REAL_SECONDS = 2.0


def build_app(agent: Agent, token: Secret | None) -> web.Application:
    registry = CollectorRegistry()
    registry.register(AgentMetrics(agent))
    ProcessCollector(registry=registry)
    app = web.Application(middlewares=[_guard(token)], client_max_size=MAX_BODY_BYTES)
    app[AGENT], app[REGISTRY] = agent, registry
    app.add_routes(
        [
            web.get("/snapshot", _snapshot),
            web.get("/metrics", _metrics),
            web.get("/healthz", _healthz),
            web.post("/release", _release),
            web.post("/resume", _resume),
        ]
    )
    return app


async def serve(agent: Agent, app: web.Application, sock: socket.socket, on_listen: Callable[[str], None]) -> None:
    """Until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_REAL_SECONDS)
    await runner.setup()
    await web.SockSite(runner, sock).start()
    host, port = sock.getsockname()[:2]
    on_listen(str(Listen(host, port)))
    cycles = asyncio.create_task(agent.run(stop))
    await stop.wait()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(cycles, STOP_REAL_SECONDS)
    await runner.cleanup()


def _guard(token: Secret | None) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if token is not None and request.path != "/healthz" and not _allowed(request, token):
            raise web.HTTPUnauthorized(text="a bearer token is needed\n", headers={"WWW-Authenticate": "Bearer"})
        return await handler(request)

    return guard


def _allowed(request: web.Request, token: Secret) -> bool:
    given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
    try:
        wanted = f"Bearer {token.reveal()}".encode()
    except SecretError:
        log.error("the token file cannot be read: every request is refused")
        return False
    return hmac.compare_digest(given, wanted)


async def _snapshot(request: web.Request) -> web.Response:
    agent = request.app[AGENT]
    agent.asked_at = agent.clock.time()
    body = dump_snapshot(agent.snapshot(request.query.get("since")))
    return web.Response(body=body, content_type="application/json")


async def _metrics(request: web.Request) -> web.Response:
    encode, kind = choose_encoder(request.headers.get("Accept", ""))
    return web.Response(body=encode(request.app[REGISTRY]), headers={"Content-Type": kind})


async def _healthz(request: web.Request) -> web.Response:
    healthy = request.app[AGENT].is_healthy
    return web.Response(text="ok\n" if healthy else "not ok\n", status=200 if healthy else 503)


async def _release(request: web.Request) -> web.Response:
    await request.app[AGENT].gpus.release()
    return web.json_response({"released": True})


async def _resume(request: web.Request) -> web.Response:
    request.app[AGENT].gpus.resume()
    return web.json_response({"released": False})
