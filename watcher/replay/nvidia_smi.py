"""`nvidia-smi --query-gpu=... --format=csv -l N` as people have it: any columns in any order, by their header.

`[N/A]` and `[Not Supported]` are absent, `[GPU is lost]` is a lost GPU, any other bracket an unreadable value.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from detectors.telemetry import GpuReading

MIB = 1024 * 1024
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
ABSENT = ("[n/a]", "n/a", "[not supported]", "")


class ReadingsError(Exception):
    """The file is no such CSV; the text says why."""


@dataclass(frozen=True, slots=True)
class Reading:
    at: float  # unix seconds
    gpu: GpuReading


def _same(value: float) -> float:
    return value


def _ratio(value: float) -> float:
    return value / 100


def _bytes(value: float) -> int:
    return int(value * MIB)


def _count(value: float) -> int:
    return int(value)


Convert = Callable[[float], float]
COLUMNS: dict[str, tuple[str, Convert]] = {
    "power.draw": ("power_watts", _same),
    "power.draw.average": ("power_watts", _same),
    "enforced.power.limit": ("power_limit_watts", _same),
    "power.limit": ("power_limit_watts", _same),
    "utilization.gpu": ("utilization_ratio", _ratio),
    "utilization.memory": ("memory_utilization_ratio", _ratio),
    "memory.used": ("memory_used_bytes", _bytes),
    "memory.total": ("memory_total_bytes", _bytes),
    "temperature.gpu": ("temperature_celsius", _same),
    "temperature.memory": ("memory_temperature_celsius", _same),
    "clocks.sm": ("sm_clock_mhz", _same),
    "clocks.current.sm": ("sm_clock_mhz", _same),
    "clocks.max.sm": ("sm_clock_max_mhz", _same),
    "ecc.errors.uncorrected.volatile.total": ("ecc_volatile_uncorrected_count", _count),
    "ecc.errors.corrected.volatile.total": ("ecc_volatile_corrected_count", _count),
    "ecc.errors.uncorrected.aggregate.total": ("ecc_aggregate_uncorrected_count", _count),
    "ecc.errors.corrected.aggregate.total": ("ecc_aggregate_corrected_count", _count),
}
TEXT = {"name": "name", "gpu_name": "name", "serial": "serial", "gpu_serial": "serial", "pci.bus_id": "pci_bus_id"}


def read_csv(lines: Iterable[str], zone: tzinfo, where: str) -> Iterator[Reading]:
    """Rows in the order of the file; a row that cannot be read is left out. Raises ReadingsError on the header."""
    rows = csv.reader(lines, skipinitialspace=True)
    header = next(rows, None)
    if header is None:
        raise ReadingsError(f"{where}: the file is empty")
    names = [cell.split(" [")[0].strip().lower() for cell in header]
    if "timestamp" not in names or not {"index", "uuid", "gpu_uuid"} & set(names):
        raise ReadingsError(f"{where}:1: needs the columns timestamp and index or uuid, as nvidia-smi prints them")
    for row in rows:
        if len(row) < len(names) or row[0] == header[0]:
            continue  # a cut last line, or the header of a second run appended
        reading = _reading(dict(zip(names, row, strict=False)), zone)
        if reading is not None:
            yield reading


def _reading(row: dict[str, str], zone: tzinfo) -> Reading | None:
    at, gpu = _instant(row["timestamp"], zone), gpu_of(row)
    return None if at is None or gpu is None else Reading(at, gpu)


def gpu_of(row: dict[str, str]) -> GpuReading | None:
    """A GPU from the cells of one row, by the names of its columns; None where nothing says which GPU."""
    index = NUMBER.fullmatch(row.get("index", "").strip())
    uuid = (row.get("uuid") or row.get("gpu_uuid") or "").strip()
    if index is None and not uuid:
        return None
    number = int(float(index[0])) if index and math.isfinite(float(index[0])) else 0
    values: dict[str, Any] = {}
    errors: list[str] = []
    for column, raw in row.items():
        text = raw.strip()
        if column in TEXT and not text.startswith("["):
            values[TEXT[column]] = text
        elif column in COLUMNS and text.lower() not in ABSENT:
            found = NUMBER.match(text)
            field, convert = COLUMNS[column]
            if found and math.isfinite(value := float(found[0])):
                values[field] = convert(value)
            else:
                errors.append(text.strip("[]"))
    lost = any("lost" in error.lower() for error in errors)
    measured = "power_watts" in values or "utilization_ratio" in values
    values["state"] = "lost" if lost else "unreadable" if errors and not measured else "ok"
    if errors:
        values["error"] = errors[0][:80]
    if not uuid or uuid.startswith("["):
        uuid = f"index-{number}"
    return GpuReading(uuid=uuid, index=number, **values)


def _instant(text: str, zone: tzinfo) -> float | None:
    for shape in ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S"):
        try:
            return datetime.strptime(text.strip(), shape).replace(tzinfo=zone).timestamp()
        except ValueError:
            continue
    return None
