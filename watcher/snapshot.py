"""The wire between agent and daemon, version 1: a strict writer, a tolerant reader.

Ages are computed where the clock is: the agent sends ages, never instants to be compared with another clock.
Unknown fields are ignored (a newer agent), missing ones are unknown (an older one), impossible values are dropped
one by one and counted; nothing of that loses the rest of a snapshot.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from detectors.telemetry import GpuReading, HostReading, SourceHealth
from watcher.events import LogEvent

VERSION = 1
MAX_GPUS = 64
MAX_EVENTS = 20_000
MAX_TEXT = 4_096


class SnapshotError(Exception):
    """The answer is no snapshot at all; the text says why, in one line."""


class _Wire(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, ser_json_inf_nan="strings")


class LogLine(_Wire):
    """A line event with where it stood: (file, offset) lets the daemon drop what it has seen from another agent."""

    kind: Literal["log"] = "log"
    seq: int
    age_seconds: float
    path: str
    file: str  # "device:inode" or a hash that outlives renames
    offset: int
    event: LogEvent


class XidLine(_Wire):
    kind: Literal["xid"] = "xid"
    seq: int
    age_seconds: float
    code: int
    gpu_uuid: str | None = None
    pci_bus_id: str | None = None
    message: str = ""


Event = Annotated[LogLine | XidLine, Field(discriminator="kind")]


class LogStatus(_Wire):
    """One followed file: what the page and `status` say about it."""

    path: str
    file: str | None = None
    format: str | None = None
    size_bytes: int | None = None
    lines: int = 0
    steps: int = 0
    last_line_age_seconds: float | None = None
    error: str | None = None
    hidden: bool = False  # the error is the reader's own: that nothing comes says nothing about the run
    tail: tuple[str, ...] = ()


def _gpu_list(value: Any) -> Any:
    return value[:MAX_GPUS] if isinstance(value, list) else value


class Snapshot(_Wire):
    version: int = VERSION
    agent_version: str = ""
    node: str
    boot_id: str | None = None
    stream: str  # changes when the agent restarts; event sequence numbers are per stream
    sent_at: float  # the agent's clock, only to measure skew
    interval_seconds: float = 10.0
    gpus: Annotated[tuple[GpuReading, ...], BeforeValidator(_gpu_list)] = ()
    gpus_age_seconds: float | None = None  # None: never read
    expected_gpus: int | None = None
    host: HostReading | None = None
    health: dict[str, SourceHealth] = Field(default_factory=dict)
    logs: tuple[LogStatus, ...] = ()
    events: tuple[Event, ...] = ()
    next_seq: int = 0  # ask again with since=STREAM:NEXT_SEQ
    lost_events: int = 0  # between `since` and the first event here
    rejected: tuple[str, ...] = ()  # what the reader dropped, for logs and metrics


# what a real card can say; outside = a fault of the reading (P045), dropped and counted
LIMITS: dict[str, tuple[float, float]] = {
    "power_watts": (0, 5_000), "power_instant_watts": (0, 5_000), "power_limit_watts": (1, 5_000),
    "utilization_ratio": (0, 1), "memory_utilization_ratio": (0, 1), "temperature_celsius": (-40, 150),
    "memory_temperature_celsius": (-40, 150),
    "sm_clock_mhz": (0, 10_000), "sm_clock_max_mhz": (0, 10_000), "memory_used_bytes": (0, 1e13),
    "memory_total_bytes": (0, 1e13), "pcie_width": (0, 64), "pcie_width_max": (0, 64), "pcie_generation": (0, 20),
    "nvlink_bytes_per_second": (0, 1e14), "pcie_bytes_per_second": (0, 1e13), "energy_joules": (0, 1e15),
}  # fmt: skip


def clean_gpu(raw: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A GPU object without its impossible numbers, and what was dropped."""
    dropped = []
    out = dict(raw)
    for key, (low, high) in LIMITS.items():
        value = out.get(key)
        if value is None:
            continue
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or not low <= value <= high:
            dropped.append(f"gpu {raw.get('index')}: {key} {str(value)[:40]} is impossible")
            out[key] = None
    used, total = out.get("memory_used_bytes"), out.get("memory_total_bytes")
    if used is not None and total is not None and used > total:
        dropped.append(f"gpu {raw.get('index')}: memory_used_bytes {used} is more than there is")
        out["memory_used_bytes"] = None
    for key, value in raw.items():
        if key.endswith("_count") and isinstance(value, int) and not 0 <= value < 2**63 - 1:
            dropped.append(f"gpu {raw.get('index')}: {key} {str(value)[:40]} is impossible")
            out[key] = None
    return out, dropped


def parse_snapshot(data: Any) -> Snapshot:
    """A decoded JSON value to a Snapshot. Raises SnapshotError only where nothing of it can be used."""
    if not isinstance(data, dict):
        raise SnapshotError("the answer is not a JSON object: is this a runwatch agent?")
    version = data.get("version")
    if version != VERSION:
        raise SnapshotError(
            f"the agent speaks snapshot version {version!r}, this daemon version {VERSION}: update the older of the two"
        )
    rejected: list[str] = []
    whole = dict(data)
    whole["gpus"] = _each(data.get("gpus"), _Gpu, "gpus", MAX_GPUS, rejected)
    whole["events"] = _each(data.get("events"), _EventItem, "events", MAX_EVENTS, rejected)
    whole["logs"] = _each(data.get("logs"), LogStatus, "logs", 1_000, rejected)
    whole["rejected"] = tuple(rejected)
    try:
        return Snapshot.model_validate(whole)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SnapshotError(f"the snapshot cannot be read: {where}: {first['msg']}") from None


class _Gpu(_Wire):
    value: GpuReading


class _EventItem(_Wire):
    value: Event


def _each(items: Any, model: type[_Wire], where: str, most: int, rejected: list[str]) -> list[Any]:
    """Every item of a list that can be read; the others are named in `rejected`."""
    if not isinstance(items, list):
        return []
    good: list[Any] = []
    for number, raw in enumerate(items[:most]):
        item = raw
        if model is _Gpu and isinstance(raw, dict):
            item, dropped = clean_gpu(raw)
            rejected.extend(dropped)
        try:
            if model in (_Gpu, _EventItem):
                good.append(model.model_validate({"value": item}).value)
            else:
                good.append(model.model_validate(item))
        except ValidationError as error:
            first = error.errors()[0]
            rejected.append(f"{where}[{number}]: {'.'.join(map(str, first['loc'][1:]))}: {first['msg']}"[:200])
    return good


def dump_snapshot(snapshot: Snapshot) -> bytes:
    """JSON with unknown values left out."""
    return snapshot.model_dump_json(exclude_none=True, exclude={"rejected"}).encode()
