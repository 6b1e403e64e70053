"""The node agent's life: a cycle asks each source with a deadline, none can fail another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from detectors.telemetry import HostReading, SourceHealth
from watcher import __version__
from watcher.agent.beside import Beside
from watcher.agent.events import EventRing
from watcher.agent.follow import LogFollower
from watcher.agent.followed import FollowedEvent
from watcher.agent.heard import Heard
from watcher.agent.push_state import PushState
from watcher.agent.xids import Xid, XidJournal, find_gpu
from watcher.aside import aside
from watcher.clock import Clock
from watcher.config.agent import AgentSection
from watcher.snapshot import LogLine, LogStatus, Snapshot, XidLine
from watcher.sources.host import HostSource
from watcher.sources.kernel import XidSource
from watcher.sources.nvml import GpuReadings

if TYPE_CHECKING:
    from watcher.tls import ServerTls

log = logging.getLogger(__name__)
FILE_DEADLINE_SECONDS = 5.0
STALE_CYCLES = 4.5  # without a reading: the GPU data is stale, and /healthz says so
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class GpuSource(Protocol):
    """Where GPU readings come from: the NVML child, or a simulation of it."""

    latest: GpuReadings | None
    replacements_count: int
    reading_seconds: float | None

    async def poll(self, deadline_seconds: float) -> None: ...

    def health(self) -> SourceHealth: ...

    async def release(self) -> None: ...

    def resume(self) -> None: ...

    async def close(self) -> None: ...


class Agent:
    """State of the process. Everything that HTTP shows is in memory."""

    def __init__(
        self, config: AgentSection, clock: Clock, gpus: GpuSource, follower: LogFollower | None,
        host: HostSource | None = None, kernel_log: XidSource | None = None,
    ) -> None:  # fmt: skip
        self.config, self.clock, self.gpus, self.follower = config, clock, gpus, follower
        self.kernel_log = kernel_log
        self.ring = EventRing()
        self.xids = XidJournal()
        self.heard = Heard()
        self.push: PushState | None = None  # where it sends by itself
        self.tls: ServerTls | None = None  # of its listener
        self.statuses: tuple[LogStatus, ...] = ()
        self.host: HostReading | None = None
        self.cycles_count = 0
        self._cycle_at = clock.monotonic()
        self.asked_at: float | None = None  # unix seconds, by a daemon, or when one took what was sent
        self.expected_gpus = config.expected_gpus
        self.most_gpus: int | None = None  # seen at once since the start
        self.boot_id = _boot_id()
        self._xids_of: GpuReadings | None = None  # whose XIDs were taken
        self._logs_read_at: float | None = None  # monotonic
        self._host_read_at: float | None = None
        self._host_error: str | None = None
        self._log_reads = Beside(follower.poll, FILE_DEADLINE_SECONDS) if follower is not None else None
        self._host_reads = Beside(lambda: host.read(self._pids()), FILE_DEADLINE_SECONDS) if host is not None else None

    async def run(self, stop: asyncio.Event, on_cycle: Callable[[], None] = lambda: None) -> None:
        """Cycles at the interval until `stop`; `on_cycle` hears of each that has ended."""
        while not stop.is_set():
            began = self.clock.monotonic()
            await self.cycle()
            on_cycle()
            rest = self.config.interval_seconds - (self.clock.monotonic() - began)
            try:
                await asyncio.wait_for(stop.wait(), max(0.0, self.clock.real_seconds(rest)))
            except TimeoutError:
                continue
        await self.gpus.close()
        if self.kernel_log is not None:
            self.kernel_log.close()
        if self._log_reads is not None and not self._log_reads.hangs:  # else its positions are those of before
            assert self.follower is not None
            await asyncio.wait({aside(self.follower.close)}, timeout=FILE_DEADLINE_SECONDS)

    async def cycle(self) -> None:
        """Each source at the same time; what one does is of no matter to the others."""
        results = await asyncio.gather(
            self.gpus.poll(self.config.gpu_deadline_seconds), self._read_logs(), self._read_host(),
            return_exceptions=True,
        )  # fmt: skip
        for result in results:
            if isinstance(result, Exception):
                log.error("source failed err=%r", result)
        if self.gpus.latest is not None:
            latest = self.gpus.latest
            self.most_gpus = max(self.most_gpus or 0, len(latest.gpus), latest.devices_count or 0)
        self._take_xids()
        self.cycles_count += 1
        self._cycle_at = self.clock.monotonic()

    @property
    def log_reads_late_count(self) -> int:
        return self._log_reads.late_count if self._log_reads is not None else 0

    async def _read_logs(self) -> None:
        if self._log_reads is None:
            return
        assert self.follower is not None
        events = await self._log_reads.answer()
        if events is None:
            return
        now, tick = self.clock.time(), self.clock.monotonic()
        for event in events:
            self._add(event, tick - max(0.0, now - event.at))
            self.heard.note(event.at, event.event, again=event.again)
        self.statuses = self.follower.statuses(now)
        self._logs_read_at = tick

    async def _read_host(self) -> None:
        if self._host_reads is None:
            return
        try:
            reading = await self._host_reads.answer()
        except OSError as error:
            self._host_error = f"the node's own state cannot be read: {error}"
            return
        if reading is not None:
            self.host, self._host_read_at, self._host_error = reading, self.clock.monotonic(), None

    def _pids(self) -> frozenset[int]:
        return self.gpus.latest.pids if self.gpus.latest is not None else frozenset()

    def _take_xids(self) -> None:
        now, latest = self.clock.monotonic(), self.gpus.latest
        gpus = latest.gpus if latest is not None else ()
        found = []
        if latest is not None and latest is not self._xids_of:
            self._xids_of = latest
            found += [Xid("nvml", now, code, uuid, None) for code, uuid in latest.xids]
        if self.kernel_log is not None:
            found += [Xid("kernel_log", x.at, x.code, None, x.pci_bus_id, x.message) for x in self.kernel_log.read()]
        for xid in found:
            gpu = find_gpu(gpus, uuid=xid.gpu_uuid, pci=xid.pci_bus_id)
            if gpu is not None:
                xid = replace(xid, gpu_uuid=gpu.uuid, pci_bus_id=gpu.pci_bus_id)
            if self.xids.add(xid):
                log.warning("xid %d of %s", xid.code, xid.gpu_uuid or xid.pci_bus_id or "an unknown GPU")
                self.ring.add(xid.at, partial(_xid_line, xid))

    def _add(self, item: FollowedEvent, at: float) -> None:
        def make(seq: int, age: float) -> LogLine:
            return LogLine.model_construct(
                seq=seq, age_seconds=age, path=item.path, file=item.file, offset=item.offset, event=item.event
            )

        self.ring.add(at, make)

    def health(self) -> dict[str, SourceHealth]:
        out = {"nvml": self.gpus.health()}
        if self.follower is not None:
            assert self._log_reads is not None
            late = self._log_reads.hangs and self._logs_read_at is not None
            problem = self.follower.problem or ("reading the logs hangs: is the file system there?" if late else None)
            out["logs"] = SourceHealth(ok=problem is None, error=problem, age_seconds=self._age(self._logs_read_at))
        if self._host_reads is not None:
            late = self._host_reads.hangs and self._host_read_at is not None
            problem = self._host_error or ("reading the node hangs: a disk does not answer" if late else None)
            out["host"] = SourceHealth(ok=problem is None, error=problem, age_seconds=self._age(self._host_read_at))
        if self.kernel_log is not None:
            out["kernel_log"] = self.kernel_log.health()
        return out

    def _age(self, at: float | None) -> float | None:
        return None if at is None else self.clock.monotonic() - at

    def snapshot(self, since: str | None) -> Snapshot:
        now = self.clock.monotonic()
        page = self.ring.since(since, now)
        latest = self.gpus.latest
        age = None if latest is None else now - latest.read_at
        stale = STALE_CYCLES * self.config.interval_seconds
        host_age = self._age(self._host_read_at)
        lag = 0.0 if self._logs_read_at is None else now - self._logs_read_at
        return Snapshot.model_construct(
            agent_version=__version__,
            node=self.config.node,
            boot_id=self.boot_id,
            stream=self.ring.stream,
            sent_at=self.clock.time(),
            interval_seconds=self.config.interval_seconds,
            gpus=latest.gpus if latest is not None and age is not None and age <= stale else (),
            gpus_age_seconds=age,
            expected_gpus=self._expected(),
            host=self.host if host_age is not None and host_age <= stale else None,
            health=self.health(),
            logs=tuple(_older(status, lag) for status in self.statuses),
            events=page.events,
            next_seq=page.next_seq,
            lost_events=page.lost,
        )

    def _expected(self) -> int | None:
        """As configured; else what NVML counts, where it counts one that could never tell its name."""
        latest = self.gpus.latest
        if self.expected_gpus is not None or latest is None or latest.devices_count is None:
            return self.expected_gpus
        return latest.devices_count if latest.devices_count > len(latest.gpus) else None

    @property
    def is_live(self) -> bool:
        """Its cycles end, whatever the driver does."""
        return self.clock.monotonic() - self._cycle_at < self.config.patience_seconds

    @property
    def is_healthy(self) -> bool:
        """The GPUs were read within the last few cycles."""
        latest = self.gpus.latest
        stale = STALE_CYCLES * self.config.interval_seconds
        return latest is not None and self.clock.monotonic() - latest.read_at <= stale


def _xid_line(xid: Xid, seq: int, age: float) -> XidLine:
    return XidLine.model_construct(
        seq=seq,
        age_seconds=age,
        code=xid.code,
        gpu_uuid=xid.gpu_uuid,
        pci_bus_id=xid.pci_bus_id,
        message=xid.message,
    )


def _older(status: LogStatus, seconds: float) -> LogStatus:
    if status.last_line_age_seconds is None:
        return status
    return status.model_copy(update={"last_line_age_seconds": status.last_line_age_seconds + seconds})


def _boot_id() -> str | None:
    try:
        return BOOT_ID.read_text().strip()[:64]
    except OSError:
        return None
