"""The node agent's life: a cycle asks each source with a deadline, none can fail another."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from detectors.telemetry import SourceHealth
from watcher import __version__
from watcher.agent.events import EventRing
from watcher.agent.follow import LogFollower
from watcher.agent.followed import FollowedEvent
from watcher.aside import aside
from watcher.clock import Clock
from watcher.config.agent import AgentSection
from watcher.snapshot import LogLine, LogStatus, Snapshot
from watcher.sources.nvml import GpuReadings

log = logging.getLogger(__name__)
LOG_DEADLINE_SECONDS = 5.0
STALE_CYCLES = 4.5  # without a reading: the GPU data is stale, and /healthz says so
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class GpuSource(Protocol):
    """Where GPU readings come from: the NVML child, or a simulation of it."""

    latest: GpuReadings | None
    replacements_count: int

    async def poll(self, deadline_seconds: float) -> None: ...

    def health(self) -> SourceHealth: ...

    async def release(self) -> None: ...

    def resume(self) -> None: ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class Agent:
    """State of the process. Everything that HTTP shows is in memory."""

    config: AgentSection
    clock: Clock
    gpus: GpuSource
    follower: LogFollower | None
    ring: EventRing = field(default_factory=EventRing)
    statuses: tuple[LogStatus, ...] = ()
    cycles_count: int = 0
    log_reads_late_count: int = 0
    asked_at: float | None = None  # unix seconds, by a daemon
    expected_gpus: int | None = None
    boot_id: str | None = None
    _reading_logs: asyncio.Future[list[FollowedEvent]] | None = None
    _logs_read_at: float | None = None  # monotonic

    def __post_init__(self) -> None:
        self.expected_gpus = self.config.expected_gpus
        self.boot_id = _boot_id()

    async def run(self, stop: asyncio.Event) -> None:
        """Cycles at the interval until `stop`."""
        while not stop.is_set():
            began = self.clock.monotonic()
            await self.cycle()
            rest = self.config.interval_seconds - (self.clock.monotonic() - began)
            try:
                await asyncio.wait_for(stop.wait(), max(0.0, self.clock.real_seconds(rest)))
            except TimeoutError:
                continue
        await self.gpus.close()
        if self.follower is not None and self._reading_logs is None:  # else its thread hangs, and positions are older
            await asyncio.wait({aside(self.follower.close)}, timeout=LOG_DEADLINE_SECONDS)

    async def cycle(self) -> None:
        """Each source at the same time; what one does is of no matter to the others."""
        results = await asyncio.gather(
            self.gpus.poll(self.config.gpu_deadline_seconds), self._logs(), return_exceptions=True
        )
        for result in results:
            if isinstance(result, Exception):
                log.error("source failed err=%r", result)
        self.cycles_count += 1

    async def _logs(self) -> None:
        """File reads block, on a dead file system for ever: they have a thread and we have a deadline."""
        if self.follower is None:
            return
        if self._reading_logs is None:
            self._reading_logs = aside(self.follower.poll)
        await asyncio.wait({self._reading_logs}, timeout=LOG_DEADLINE_SECONDS)
        if not self._reading_logs.done():
            self.log_reads_late_count += 1
            return
        task, self._reading_logs = self._reading_logs, None
        now, tick = self.clock.time(), self.clock.monotonic()
        for event in task.result():
            self._add(event, tick - max(0.0, now - event.at))
        self.statuses = self.follower.statuses(now)
        self._logs_read_at = tick

    def _add(self, item: FollowedEvent, at: float) -> None:
        def make(seq: int, age: float) -> LogLine:
            return LogLine.model_construct(
                seq=seq, age_seconds=age, path=item.path, file=item.file, offset=item.offset, event=item.event
            )

        self.ring.add(at, make)

    def health(self) -> dict[str, SourceHealth]:
        out = {"nvml": self.gpus.health()}
        if self.follower is not None:
            age = None if self._logs_read_at is None else self.clock.monotonic() - self._logs_read_at
            late = self._reading_logs is not None
            problem = self.follower.problem or (
                "reading the logs hangs: is the file system there?" if late and age is not None else None
            )
            out["logs"] = SourceHealth(ok=problem is None, error=problem, age_seconds=age)
        return out

    def snapshot(self, since: str | None) -> Snapshot:
        now = self.clock.monotonic()
        page = self.ring.since(since, now)
        latest = self.gpus.latest
        age = None if latest is None else now - latest.read_at
        fresh = age is not None and age <= STALE_CYCLES * self.config.interval_seconds
        lag = 0.0 if self._logs_read_at is None else now - self._logs_read_at
        return Snapshot.model_construct(
            agent_version=__version__,
            node=self.config.node,
            boot_id=self.boot_id,
            stream=self.ring.stream,
            sent_at=self.clock.time(),
            interval_seconds=self.config.interval_seconds,
            gpus=latest.gpus if latest is not None and fresh else (),
            gpus_age_seconds=age,
            expected_gpus=self.expected_gpus,
            health=self.health(),
            logs=tuple(_older(status, lag) for status in self.statuses),
            events=page.events,
            next_seq=page.next_seq,
            lost_events=page.lost,
        )

    @property
    def is_healthy(self) -> bool:
        """The GPUs were read within the last few cycles."""
        latest = self.gpus.latest
        stale = STALE_CYCLES * self.config.interval_seconds
        return latest is not None and self.clock.monotonic() - latest.read_at <= stale


def _older(status: LogStatus, seconds: float) -> LogStatus:
    if status.last_line_age_seconds is None:
        return status
    return status.model_copy(update={"last_line_age_seconds": status.last_line_age_seconds + seconds})


def _boot_id() -> str | None:
    try:
        return BOOT_ID.read_text().strip()[:64]
    except OSError:
        return None
