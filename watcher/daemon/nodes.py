"""Answers of one node's agent -> what is known of the node. Pure; a silent agent changes nothing but its silence."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from detectors.telemetry import GpuReading, NodeView, XidEvent
from watcher.daemon.host_trend import HostTrend
from watcher.daemon.link_errors import LinkErrors
from watcher.daemon.throttling import Throttling
from watcher.snapshot import Snapshot, XidLine

XIDS = 200
SAME_XID_SECONDS = 3.0
FRESH_POLLS = 2.5  # readings older than this many polls are not live
SLOWEST_SECONDS = 60.0
USUAL_SECONDS = 3 * 3600.0
FORGET_SECONDS = 86_400.0  # a GPU that was replaced is missed for a day, then no longer expected


@dataclass(slots=True)
class NodeFold:
    """One node of a run. `expected`: from the config; else the inventory says how many there were."""

    name: str
    expected: int | None = None
    snapshot: Snapshot | None = None
    read_at: float | None = None  # when the GPUs were read, on our clock
    answered_at: float | None = None
    failures: int = 0
    error: str | None = None
    silent: dict[str, int] = field(default_factory=dict)  # of the sources that were merged: polls running
    inventory: dict[str, int] = field(default_factory=dict)
    last_seen: dict[str, float] = field(default_factory=dict)
    lost_at: dict[str, float] = field(default_factory=dict)
    ecc_baseline: dict[str, int] = field(default_factory=dict)
    ecc_last: dict[str, int] = field(default_factory=dict)
    remap_failed: dict[str, bool] = field(default_factory=dict)
    corrected: dict[str, tuple[float, int]] = field(default_factory=dict)  # uuid -> when, volatile corrected errors
    corrected_rates: dict[str, tuple[float, float]] = field(default_factory=dict)
    host_trend: HostTrend = field(default_factory=HostTrend)
    link_errors: LinkErrors = field(default_factory=LinkErrors)
    throttling: Throttling = field(default_factory=Throttling)
    xids: deque[XidEvent] = field(default_factory=lambda: deque(maxlen=XIDS))

    def failed(self, error: str) -> None:
        self.failures += 1
        self.error = error

    def answered(self, at: float, snapshot: Snapshot) -> list[tuple[str, GpuReading]]:
        """Take a snapshot; answers the GPUs that were struck since the last one: their volatile uncorrectable ECC
        count went up, or a row remapping failed."""
        self.failures, self.error, self.answered_at = 0, None, at
        self.snapshot = snapshot
        self.silent = {k: self.silent.get(k, 0) + 1 for k, health in snapshot.health.items() if health.kind == "silent"}
        if snapshot.host is not None:
            self.host_trend.add(at, snapshot.host, len(snapshot.gpus))
        self.read_at = None if snapshot.gpus_age_seconds is None else at - snapshot.gpus_age_seconds
        for event in snapshot.events:
            if isinstance(event, XidLine):
                self._note_xid(at - event.age_seconds, event)
        struck = []
        for gpu in snapshot.gpus:
            if gpu.state != "lost":
                self.inventory[gpu.uuid] = gpu.index
                self.last_seen[gpu.uuid] = at
            self._corrected(at, gpu)
            self.link_errors.add(at, gpu)
            self.throttling.add(at, gpu)
            if self._ecc(gpu):
                struck.append(("ecc_uncorrectable", gpu))
            if self._remap_failed_now(gpu):
                struck.append(("remap_failed", gpu))
        self._note_lost(at, snapshot)
        for uuid in [u for u, seen in self.last_seen.items() if at - seen > FORGET_SECONDS]:
            del self.inventory[uuid], self.last_seen[uuid]
        return struck

    def _note_xid(self, at: float, event: XidLine) -> None:
        """A restarted agent tells the last minutes of the kernel log again."""
        place = (event.code, event.gpu_uuid, event.pci_bus_id)
        if any((x.code, x.gpu_uuid, x.pci_bus_id) == place and abs(x.at - at) < SAME_XID_SECONDS for x in self.xids):
            return
        self.xids.append(
            XidEvent(
                at=at,
                code=event.code,
                gpu_uuid=event.gpu_uuid,
                pci_bus_id=event.pci_bus_id,
                message=event.message,
            )
        )

    def _note_lost(self, at: float, snapshot: Snapshot) -> None:
        """Since when each known GPU is lost or missing from readings that are there."""
        if not snapshot.gpus:
            return
        well = {gpu.uuid for gpu in snapshot.gpus if gpu.state != "lost"}
        for uuid in self.inventory:
            if uuid not in well:
                self.lost_at.setdefault(uuid, at)
        self.lost_at = {uuid: since for uuid, since in self.lost_at.items() if uuid not in well}

    def _corrected(self, at: float, gpu: GpuReading) -> None:
        """Corrected errors per second now, and what is usual: a mean that forgets over hours and learns no storm."""
        count = gpu.ecc_volatile_corrected_count
        if count is None:
            return
        before = self.corrected.get(gpu.uuid)
        self.corrected[gpu.uuid] = (at, count)
        if before is None or at <= before[0] or count < before[1]:
            return
        rate = (count - before[1]) / (at - before[0])
        usual = self.corrected_rates.get(gpu.uuid, (0.0, rate))[1]
        learnt = min(rate, 10 * usual + 0.01)
        self.corrected_rates[gpu.uuid] = (rate, usual + (learnt - usual) * min(1.0, (at - before[0]) / USUAL_SECONDS))

    def _ecc(self, gpu: GpuReading) -> bool:
        """Volatile counters fall with a reset or a reboot: then they start anew."""
        count = gpu.ecc_volatile_uncorrected_count
        if count is None:
            return False
        before = self.ecc_last.get(gpu.uuid)
        self.ecc_last[gpu.uuid] = count
        if before is None:
            self.ecc_baseline.setdefault(gpu.uuid, count)
            return False
        if count < before:
            self.ecc_baseline[gpu.uuid] = count
        return count > before

    def _remap_failed_now(self, gpu: GpuReading) -> bool:
        """It went from well to failed; how it was found at first is no event."""
        if gpu.remap_failed is None:
            return False
        before = self.remap_failed.get(gpu.uuid)
        self.remap_failed[gpu.uuid] = gpu.remap_failed
        return before is False and gpu.remap_failed

    def is_fresh(self, now: float, interval: float) -> bool:
        """A source that looks more rarely than we ask is judged by its own rhythm, within a bound."""
        if self.snapshot is not None:
            interval = max(interval, min(self.snapshot.interval_seconds, SLOWEST_SECONDS))
        return self.read_at is not None and now - self.read_at <= FRESH_POLLS * interval

    def view(self, now: float, interval: float) -> NodeView:
        fresh = self.is_fresh(now, interval)
        snapshot = self.snapshot
        gpus = snapshot.gpus if snapshot is not None and fresh else ()
        present = {gpu.uuid for gpu in gpus}
        expected = self.expected
        if expected is None and snapshot is not None:
            expected = snapshot.expected_gpus
        return NodeView(
            name=self.name,
            reachable=None if self.answered_at is None and not self.failures else self.failures == 0,
            failures_running=self.failures,
            error=self.error,
            silent_polls=dict(self.silent),
            answered_at=self.answered_at,
            skew_seconds=None if snapshot is None or self.answered_at is None else snapshot.sent_at - self.answered_at,
            agent_version=snapshot.agent_version if snapshot is not None else None,
            gpus=gpus,
            gpus_fresh=fresh,
            expected_gpus=expected if expected is not None else len(self.inventory) or None,
            missing_uuids=tuple(u for u in self.inventory if u not in present) if fresh else (),
            lost_at=dict(self.lost_at),
            corrected_rates=dict(self.corrected_rates) if fresh else {},
            inventory=dict(self.inventory),
            ecc_baseline=dict(self.ecc_baseline),
            health=snapshot.health if snapshot is not None else {},
            host=snapshot.host if snapshot is not None and self.failures == 0 else None,
            xids=tuple(self.xids),
            memory_ratios=tuple(self.host_trend.memory),
            quiet_since_at=self.host_trend.quiet_since if snapshot is not None and snapshot.host is not None else None,
            link_error_rates=dict(self.link_errors.rates) if fresh else {},
            throttled=dict(self.throttling.shares) if fresh else {},
            flaps_at={port: tuple(times) for port, times in self.host_trend.flaps.items()},
        )
