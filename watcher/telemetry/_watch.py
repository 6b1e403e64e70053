"""What one look cannot tell: whether an exporter only repeats itself, and which XIDs are new. Pure; one per node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from detectors.telemetry import GpuReading
from watcher.snapshot import XidLine
from watcher.telemetry._dialect import Dialect, known
from watcher.telemetry._samples import Sample

PULSE_SECONDS = 120.0  # a counter that moves by itself stood still for so long: exporters look every 1 to 60 s
ALIKE_SECONDS = 600.0  # without such a counter: every number of every GPU is exactly as before
MAX_KEYS = 4_096


@dataclass(slots=True)
class FreezeWatch:
    """An exporter whose driver hangs goes on telling the last values, with a fresh time on each."""

    changed_at: float | None = None
    _last: object = None
    _energy: dict[str, tuple[float, float]] = field(default_factory=dict)  # uuid -> joules, since when

    def frozen_seconds(self, now: float, gpus: Sequence[GpuReading], pulse: float | None) -> float | None:
        """How long the node tells the same; None while that is no longer than a live exporter may.

        `pulse`: a number that changes with each round of the exporter, where it has one.
        """
        energies = tuple(gpu.energy_joules for gpu in gpus if gpu.energy_joules is not None)
        self._note_energy(now, gpus)
        own = pulse if pulse is not None else energies or None
        limit = ALIKE_SECONDS if own is None else PULSE_SECONDS
        seen = own if own is not None else tuple(_numbers(gpu) for gpu in gpus)
        if self.changed_at is None or seen != self._last:
            self.changed_at, self._last = now, seen
        still = now - self.changed_at
        return still if still > limit and gpus else None

    def _note_energy(self, now: float, gpus: Sequence[GpuReading]) -> None:
        present = {gpu.uuid for gpu in gpus}
        self._energy = {uuid: last for uuid, last in self._energy.items() if uuid in present}
        for gpu in gpus:
            before = self._energy.get(gpu.uuid)
            if gpu.energy_joules is not None and (before is None or before[0] != gpu.energy_joules):
                self._energy[gpu.uuid] = (gpu.energy_joules, now)

    def without_frozen(self, now: float, gpus: Sequence[GpuReading]) -> tuple[GpuReading, ...]:
        """A GPU whose energy stands still while others of its node go on is one that cannot be read."""
        return tuple(_unreadable(gpu) if self._stands(now, gpu) else gpu for gpu in gpus)

    def _stands(self, now: float, gpu: GpuReading) -> bool:
        known_since = self._energy.get(gpu.uuid)
        return gpu.energy_joules is not None and known_since is not None and now - known_since[1] > PULSE_SECONDS


def _numbers(gpu: GpuReading) -> tuple[object, ...]:
    return (
        gpu.uuid, gpu.power_watts, gpu.utilization_ratio, gpu.memory_utilization_ratio, gpu.memory_used_bytes,
        gpu.temperature_celsius, gpu.memory_temperature_celsius, gpu.sm_clock_mhz,
    )  # fmt: skip


def _unreadable(gpu: GpuReading) -> GpuReading:
    bare = GpuReading(uuid=gpu.uuid, index=gpu.index, name=gpu.name, pci_bus_id=gpu.pci_bus_id)
    return replace(bare, state="unreadable", error="its exporter repeats old values of it")


@dataclass(slots=True)
class XidWatch:
    """Codes and counts as they were; what a first look finds is history, not news."""

    _last: dict[tuple[str, int], float] = field(default_factory=dict)
    _gpus: set[str] = field(default_factory=set)
    _seq: int = 0

    def news(self, now: float, dialect: Dialect, samples: Sequence[Sample], gpus: Iterable[str]) -> tuple[XidLine, ...]:
        """One line for each code that came since the last look. `gpus`: the UUIDs that are there now."""
        at = {_key(dialect, s, dialect.xid_count): s.value for s in samples if s.name == dialect.xid_at}
        fresh: list[tuple[str, int, float]] = []
        for uuid, code, value in self._told(dialect, samples):
            before = self._last.get((uuid, code))
            if before is None and len(self._last) >= MAX_KEYS:
                continue
            self._last[uuid, code] = value
            if value and uuid in self._gpus and value != (before or 0.0):
                came = at.get((uuid, code))
                fresh.append((uuid, code, min(3600.0, max(0.0, now - came)) if came is not None else 0.0))
        self._gpus.update(gpus)
        if len(self._gpus) > MAX_KEYS:
            self._gpus.clear()
        lines = [
            XidLine(seq=self._seq + n, age_seconds=age, code=code, gpu_uuid=uuid, message="told by an exporter")
            for n, (uuid, code, age) in enumerate(fresh)
        ]
        self._seq += len(lines)
        return tuple(lines)

    def _told(self, dialect: Dialect, samples: Iterable[Sample]) -> Iterable[tuple[str, int, float]]:
        """(uuid, code, count). A gauge of the last code counts as one of it, and none of those before.

        Of a GPU that two have scraped the first sample counts, which is the newest.
        """
        names = (dialect.xid_last, dialect.xid_count[0] if dialect.xid_count is not None else None)
        done: set[tuple[str, int]] = set()
        for sample in samples:
            if sample.name not in names or not known(sample.value) or sample.value < 0:
                continue
            uuid = dialect.uuid_of(sample.labels)
            which = (uuid or "", 0 if sample.name == dialect.xid_last else _key(dialect, sample, dialect.xid_count)[1])
            if uuid is None or which in done:
                continue
            done.add(which)
            if sample.name == dialect.xid_last:
                code = int(sample.value)
                for other in [key for key in self._last if key[0] == uuid and key[1] != code]:
                    self._last[other] = 0.0
                if 0 < code < 10_000:
                    yield uuid, code, 1.0
            elif dialect.xid_count is not None and sample.name == dialect.xid_count[0]:
                _, code = _key(dialect, sample, dialect.xid_count)
                if code:
                    yield uuid, code, sample.value


def _key(dialect: Dialect, sample: Sample, by: tuple[str, str] | None) -> tuple[str, int]:
    text = sample.labels.get(by[1], "") if by is not None else ""
    return dialect.uuid_of(sample.labels) or "", int(text) if text.isdecimal() and len(text) < 5 else 0
