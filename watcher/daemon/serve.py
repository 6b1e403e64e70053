"""Starts a built daemon: a socket, a scheduler that only ticks, threads that send; stops them in order on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from starlette.applications import Starlette

from watcher.config.listen import Listen
from watcher.daemon.app import Daemon, patience_seconds
from watcher.daemon.status_line import status_line
from watcher.systemd import Systemd
from watcher.tls import ServerTls

log = logging.getLogger(__name__)
STOP_SECONDS = 5.0
KEEP_ALIVE_SECONDS = 75  # nodes that push every few seconds keep their connection


async def serve(
    daemon: Daemon, app: Starlette, sock: socket.socket, on_listen: Callable[[str], None], tls: ServerTls | None = None
) -> None:
    """Until SIGTERM or SIGINT. `on_listen` hears the address once it answers."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    config.load()
    config.ssl = tls.context if tls is not None else None
    server = QuietServer(config)
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    following = asyncio.create_task(tls.follow()) if tls is not None else None
    scheduler = AsyncIOScheduler()
    systemd = Systemd.of()

    async def cycle() -> None:
        await daemon.tick()
        tell = systemd.worked if daemon.works and not serving.done() else systemd.failed
        tell(status_line(daemon))

    async with contextlib.AsyncExitStack() as stack:
        for source in daemon.sources:
            await stack.enter_async_context(source)
        for logs in daemon.shared_logs:
            await stack.enter_async_context(logs)
        if daemon.fleet is not None:
            await stack.enter_async_context(daemon.fleet)
        for worker in daemon.workers:
            worker.start()
        if daemon.dead_man is not None:
            daemon.dead_man.started(daemon.clock.time())
        await cycle()
        scheduler.add_job(
            cycle,
            "interval",
            name="cycle",
            seconds=daemon.clock.real_seconds(daemon.interval_seconds),
            max_instances=1,
            coalesce=True,
            misfire_grace_time=None,
        )
        scheduler.start()
        host, port = sock.getsockname()[:2]
        on_listen(str(Listen(host, port)))
        systemd.ready(daemon.clock.real_seconds(patience_seconds(daemon.interval_seconds)))
        await stop.wait()
        systemd.stopping()
        scheduler.shutdown(wait=False)
    if following is not None:
        following.cancel()
    server.should_exit = True
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(serving, STOP_SECONDS)
    for worker in daemon.workers:
        await asyncio.to_thread(worker.stop, STOP_SECONDS)
    if daemon.recorder is not None:
        daemon.recorder.close()


class QuietServer(uvicorn.Server):
    """Signals are ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
