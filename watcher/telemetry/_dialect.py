"""What an exporter calls things, as data; one reader for all of them. Pure.

What an exporter does not say is None. Blank values, NaN and numbers that no card can show are dropped.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from detectors.telemetry import GpuReading
from watcher.snapshot import MAX_GPUS, clean_gpu
from watcher.telemetry._samples import Sample

MIB = 1 << 20
MAX_UUID = 120
MAX_REASONS = 16
# DCGM's words for "no value", "not found", "not supported", "not permitted" in each of its number types
BLANKS = frozenset({0x7FFF_FFF0 + n for n in range(4)} | {140_737_488_355_328 + n for n in range(4)})
BLANK_INT64 = 0x7FFF_FFFF_FFFF_FFF0
MEASURED = ("power_watts", "utilization_ratio", "memory_used_bytes", "temperature_celsius", "sm_clock_mhz")


def percent(value: float) -> float:
    return value / 100


def mebibytes(value: float) -> int:
    return int(value * MIB)


def milli(value: float) -> float:
    return value / 1000


def hertz(value: float) -> float:
    return value / 1e6


def plain(value: float) -> float:
    return value


def flag(value: float) -> bool:
    return value != 0


count: Callable[[float], int] = int


@dataclass(frozen=True, slots=True)
class Into:
    """A metric, the field of GpuReading that it fills, and how. `when`: only series with these labels."""

    metric: str
    field: str
    convert: Callable[[float], Any] = plain
    when: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One exporter's words.

    into: of several metrics for one field the first that is there counts.
    uuid, index, model, bus: names of labels; `info` is a series whose labels name a GPU where the others only
    carry its UUID. uuid_prefix: what this exporter cuts off. mig: labels that only slices of a GPU carry.
    free, reserved: memory in MiB that makes up the total with what is used, where no total is told.
    reasons: 0/1 metrics of throttling; reason_bits: metrics that are the driver's bit mask; reason_label: (metric,
    label) where the reason is a label.
    xid_last: holds the last code; xid_count: (metric, label) counts by code; xid_at: when the last of a code came.
    heartbeat: changes with each round of the exporter itself. success: 0 = its last round failed.
    """

    into: tuple[Into, ...]
    anchor: str  # a metric that each GPU has that is there
    node: str  # the label that names the node, in an engine that has scraped it
    uuid: str
    index: str | None = None
    model: str | None = None
    bus: str | None = None
    info: str | None = None
    uuid_prefix: str = ""
    mig: tuple[str, ...] = ()
    free: str | None = None
    reserved: str | None = None
    reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)
    reason_bits: tuple[str, ...] = ()
    reason_label: tuple[str, str] | None = None
    xid_last: str | None = None
    xid_count: tuple[str, str] | None = None
    xid_at: str | None = None
    heartbeat: str | None = None
    success: str | None = None
    notes: tuple[str, ...] = ()  # what it cannot tell, for `check-config`

    def metrics(self) -> tuple[str, ...]:
        """All that is worth asking for, each once."""
        single = (self.info, self.free, self.reserved, self.xid_last, self.xid_at, self.heartbeat, self.success)
        pairs = (self.reason_label, self.xid_count)
        names = [
            self.anchor,
            *(into.metric for into in self.into),
            *self.reasons,
            *self.reason_bits,
            *(name for name in single if name is not None),
            *(pair[0] for pair in pairs if pair is not None),
        ]
        return tuple(dict.fromkeys(names))

    def uuid_of(self, labels: Mapping[str, str]) -> str | None:
        """Which GPU a series is about; None for series about the node, or about a slice that does not say."""
        uuid = labels.get(self.uuid, "")[:MAX_UUID]
        if not uuid:
            index = labels.get(self.index, "") if self.index is not None else ""
            return f"index-{index}" if index.isdecimal() else None
        if uuid.startswith("MIG-"):
            return None
        return uuid if uuid.startswith("GPU-") or not self.uuid_prefix else f"{self.uuid_prefix}{uuid}"


# the driver's bits of what holds the clocks down
REASON_BITS = {
    "sw_power_cap": 0x4, "hw_slowdown": 0x8, "sw_thermal": 0x20, "hw_thermal": 0x40, "hw_power_brake": 0x80,
}  # fmt: skip


def known(value: float) -> bool:
    return math.isfinite(value) and value not in BLANKS and abs(value) < BLANK_INT64 - 1024


@dataclass(frozen=True, slots=True)
class Read:
    """What one look at a node gave. `rejected`: what no card can show, a line each."""

    gpus: tuple[GpuReading, ...]
    rejected: tuple[str, ...] = ()


def read_gpus(dialect: Dialect, samples: Sequence[Sample], power_limit_watts: float | None = None) -> Read:
    """One node's samples as readings, in the order of their index. `power_limit_watts`: where none is told."""
    raw: dict[str, dict[str, Any]] = {}
    by_metric: dict[str, list[tuple[str, Sample]]] = {}
    for sample in samples:
        uuid = dialect.uuid_of(sample.labels)
        if uuid is None or (uuid not in raw and len(raw) >= MAX_GPUS):
            continue
        if uuid not in raw or sample.name == dialect.info:
            _name(raw.setdefault(uuid, {"uuid": uuid}), dialect, sample.labels)
        if dialect.mig and any(sample.labels.get(label) for label in dialect.mig):
            raw[uuid]["mig"] = True
        by_metric.setdefault(sample.name, []).append((uuid, sample))
    for into in dialect.into:
        for uuid, sample in by_metric.get(into.metric, ()):
            if known(sample.value) and (not into.when or all(sample.labels.get(k) == v for k, v in into.when.items())):
                raw[uuid].setdefault(into.field, into.convert(sample.value))
    _memory(raw, dialect, by_metric)
    _reasons(raw, dialect, by_metric)
    told = {key for gpu in raw.values() for key in gpu}
    unsupported = tuple(dict.fromkeys(into.field for into in dialect.into if into.field not in told))
    gpus, rejected = [], []
    for uuid, values in raw.items():
        cleaned, dropped = clean_gpu({"index": _index_of(uuid), **values})
        rejected += dropped
        gpus.append(_reading(cleaned, unsupported, power_limit_watts))
    return Read(tuple(sorted(gpus, key=lambda gpu: (gpu.index, gpu.uuid))), tuple(rejected))


def _index_of(uuid: str) -> int:
    tail = uuid.removeprefix("index-")
    return int(tail) if tail.isdecimal() and len(tail) < 6 else 0


def _name(gpu: dict[str, Any], dialect: Dialect, labels: Mapping[str, str]) -> None:
    index = labels.get(dialect.index or "", "")
    if index.isdecimal() and len(index) < 6:
        gpu["index"] = int(index)
    for key, label in (("name", dialect.model), ("pci_bus_id", dialect.bus)):
        if label is not None and labels.get(label):
            gpu[key] = labels[label][:200]


def _memory(raw: dict[str, Any], dialect: Dialect, by_metric: Mapping[str, list[tuple[str, Sample]]]) -> None:
    if dialect.free is None:
        return
    for uuid, sample in by_metric.get(dialect.free, ()):
        gpu = raw[uuid]
        if "memory_total_bytes" not in gpu and "memory_used_bytes" in gpu and known(sample.value):
            reserved = [s.value for u, s in by_metric.get(dialect.reserved or "", ()) if u == uuid and known(s.value)]
            gpu["memory_total_bytes"] = gpu["memory_used_bytes"] + mebibytes(sample.value + sum(reserved[:1]))


def _reasons(raw: dict[str, Any], dialect: Dialect, by_metric: Mapping[str, list[tuple[str, Sample]]]) -> None:
    def note(uuid: str, reason: str, value: float) -> None:
        ratios = raw[uuid].setdefault("throttle_ratios", {}) if known(value) else {}
        if known(value) and len(ratios) < MAX_REASONS:
            ratios.setdefault(reason, min(1.0, max(0.0, value)))

    for metric, reason in dialect.reasons.items():
        for uuid, sample in by_metric.get(metric, ()):
            note(uuid, reason, sample.value)
    for metric in dialect.reason_bits:
        for uuid, sample in by_metric.get(metric, ()):
            if known(sample.value) and sample.value >= 0:
                for reason, bit in REASON_BITS.items():
                    note(uuid, reason, float(bool(int(sample.value) & bit)))
    if dialect.reason_label is not None:
        metric, label = dialect.reason_label
        for uuid, sample in by_metric.get(metric, ()):
            note(uuid, sample.labels.get(label, "")[:40], sample.value)


def _reading(values: dict[str, Any], unsupported: tuple[str, ...], power_limit_watts: float | None) -> GpuReading:
    values = {**values}
    if values.pop("lost", False):
        return GpuReading(**values, state="lost", error="the driver says that it is lost", unsupported=unsupported)
    if values.get("mig"):  # what a slice says is not said of the card; power and heat are the card's
        values = {**values, "utilization_ratio": None, "memory_utilization_ratio": None}
        values = {**values, "memory_used_bytes": None, "memory_total_bytes": None}
    if values.get("power_limit_watts") is None:
        values = {**values, "power_limit_watts": power_limit_watts}
    if not values.get("mig") and all(values.get(key) is None for key in MEASURED):
        values = {**values, "state": "unreadable", "error": "the exporter has no value of it"}
    return GpuReading(**values, unsupported=unsupported)
