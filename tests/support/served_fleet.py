"""A whole daemon over a simulated fleet: its cycles run in virtual time, its HTTP is served on loopback for real."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvicorn

from alerts.secret import Secret
from watcher.bind import bind
from watcher.clock import FakeClock
from watcher.config.daemon import DaemonConfig
from watcher.config.listen import Listen
from watcher.daemon.answer import Answer, Note
from watcher.daemon.build import build
from watcher.daemon.http import build_app
from watcher.daemon.serve import QuietServer
from watcher.daemon.store import Store
from watcher.formats._reader import LogReader
from watcher.simulate.fleet import Fleet
from watcher.simulate.script import SCRIPTS, Script, Stretch
from watcher.snapshot import LogLine, LogStatus, Snapshot

START = 1_700_000_000.0
INTERVAL = 10.0
RUN = "demo-13B"

HEALTHY = Script(
    name="healthy", about="", signature="", stretches=(Stretch("startup", 60, 4100), Stretch("train", 7200))
)


class FleetSource:
    """Answers for all nodes of a fleet at once, as their agents would. `more_lines`: said by the log next."""

    def __init__(self, fleet: Fleet, clock: FakeClock) -> None:
        self.fleet, self.clock = fleet, clock
        self.more_lines: list[str] = []
        self.dark: set[str] = set()
        self._reader, self._number, self._read_to = LogReader(), 0, 0.0
        self._tail: list[str] = []

    async def __aenter__(self) -> FleetSource:
        return self

    async def __aexit__(self, *error: object) -> None:
        return

    async def ask_all(self, note: Note | None = None) -> Sequence[Answer]:
        now = self.clock.time()
        lines = self._lines(now - START)
        return [self._answer(node, now, lines if node == self.fleet.nodes[0] else ()) for node in self.fleet.nodes]

    def _lines(self, t: float) -> tuple[LogLine, ...]:
        said = [*self.fleet.log_lines(self._read_to, t), *self.more_lines]
        self._read_to, self.more_lines = t, []
        events = []
        for text in said:
            self._number += 1
            events += [(self._number, event) for event in self._reader.feed(text, self._number)]
        self._tail = [*self._tail, *said][-20:]
        return tuple(
            LogLine(seq=number, age_seconds=0.0, path="/log", file="1:1", offset=100 * number, event=event)
            for number, event in events
        )

    def _answer(self, node: str, now: float, lines: tuple[LogLine, ...]) -> Answer:
        if node in self.dark:
            return Answer(node, now, None, "connection refused")
        logs = ()
        if node == self.fleet.nodes[0] and self._number:
            logs = (LogStatus(path="/log", lines=self._number, last_line_age_seconds=0.0, tail=tuple(self._tail)),)
        readings = self.fleet.readings(node, now - START)
        snapshot = Snapshot(
            node=node, stream="s", sent_at=now, gpus=readings, gpus_age_seconds=0.5, events=lines, logs=logs
        )
        return Answer(node, now, snapshot)


class ServedFleet:
    """`play` moves virtual time; `serve` and `stop` are the daemon's listener, again on the same port."""

    def __init__(
        self, folder: Path, script: Script | str = "deadlock", nodes: int = 2, gpus: int = 8, token: str | None = None
    ) -> None:
        names = tuple(f"gpu-node-{number:02}" for number in range(1, nodes + 1))
        wanted = SCRIPTS[script] if isinstance(script, str) else script
        self.clock = FakeClock(START)
        self.fleet = Fleet(script=wanted, nodes=names, gpus=gpus)
        self.source = FleetSource(self.fleet, self.clock)
        self.store = Store(folder / "runwatch.db", START)
        self.token = Secret(token) if token is not None else None
        run = {"name": RUN, "nodes": list(names), "gpu_hour_price": 2.5}
        self.daemon, _ = build(DaemonConfig.model_validate({"runs": [run] if nodes else []}), self.clock, self.store)
        self.daemon.sources = [self.source]
        self._server: QuietServer | None = None
        self._thread: threading.Thread | None = None
        self._port = 0

    @functools.cached_property
    def app(self) -> Any:
        return build_app(self.daemon, self.token, self.store.history, self.store)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def play(self, seconds: float) -> None:
        """In a thread of its own: a browser driver may hold the loop of this one."""

        async def cycles() -> None:
            for _ in range(int(seconds / INTERVAL)):
                self.clock.advance(INTERVAL)
                await self.daemon.tick()

        player = threading.Thread(target=lambda: asyncio.run(cycles()))
        player.start()
        player.join()
        assert self.daemon.health.error is None, self.daemon.health.error

    def play_until_open(self, limit: float = 3600.0) -> str:
        """Until an incident is open; answers its key."""
        for _ in range(int(limit / INTERVAL)):
            self.play(INTERVAL)
            for incident in self.daemon.desk.incidents.values():
                if incident.state == "open":
                    return incident.key
        raise AssertionError("no incident opened")

    def serve(self) -> None:
        sock = bind(Listen("127.0.0.1", self._port))
        self._port = sock.getsockname()[1]
        server = QuietServer(uvicorn.Config(self.app, lifespan="off", log_config=None, access_log=False))
        self._server = server
        serving = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[sock])), daemon=True)
        self._thread = serving
        self._thread.start()
        give_up = time.monotonic() + 20
        while not server.started and time.monotonic() < give_up:
            time.sleep(0.01)
        assert server.started

    def serve_in_place_of(self, other: ServedFleet) -> None:
        """On the port of one that has stopped, as a new process would."""
        self._port = other._port
        self.serve()

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.should_exit = self._server.force_exit = True
            self._thread.join(20)
            self._server = None

    def close(self) -> None:
        self.stop()
        self.store.close()
