"""Starts a built daemon: a socket, a scheduler that only ticks, threads that send; stops them in order on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from starlette.applications import Starlette

from watcher.config.listen import Listen
from watcher.daemon.app import Daemon

log = logging.getLogger(__name__)
STOP_SECONDS = 5.0


async def serve(daemon: Daemon, app: Starlette, sock: socket.socket, on_listen: Callable[[str], None]) -> None:
    """Until SIGTERM or SIGINT. `on_listen` hears the address once it answers."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    server = QuietServer(uvicorn.Config(app, lifespan="off", log_config=None, access_log=False, server_header=False))
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    scheduler = AsyncIOScheduler()
    async with contextlib.AsyncExitStack() as stack:
        for source in daemon.sources:
            await stack.enter_async_context(source)
        for logs in daemon.shared_logs:
            await stack.enter_async_context(logs)
        for worker in daemon.workers:
            worker.start()
        await daemon.tick()
        scheduler.add_job(
            daemon.tick,
            "interval",
            seconds=daemon.clock.real_seconds(daemon.interval_seconds),
            max_instances=1,
            coalesce=True,
            misfire_grace_time=None,
        )
        scheduler.start()
        host, port = sock.getsockname()[:2]
        on_listen(str(Listen(host, port)))
        _notify("READY=1")
        await stop.wait()
        _notify("STOPPING=1")
        scheduler.shutdown(wait=False)
    server.should_exit = True
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(serving, STOP_SECONDS)
    for worker in daemon.workers:
        await asyncio.to_thread(worker.stop, STOP_SECONDS)
    if daemon.recorder is not None:
        daemon.recorder.close()


def _notify(text: str) -> None:
    """Tells systemd (`Type=notify`), where it started us."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
        sock.sendto(text.encode(), "\0" + address[1:] if address.startswith("@") else address)


class QuietServer(uvicorn.Server):
    """Signals are ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
