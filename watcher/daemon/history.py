"""The last half hour of a run as columns: bounded, one row per evaluation, one column per GPU."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from detectors.telemetry import GpuReading, GpuRef, History

# half precision is enough for ratios and degrees; 16 bytes a row and GPU
COLUMNS = {
    "power_watts": np.float32,
    "sm_clock_mhz": np.float32,
    "utilization_ratio": np.float16,
    "memory_utilization_ratio": np.float16,
    "memory_used_ratio": np.float16,
    "temperature_celsius": np.float16,
}
ROWS = 180  # 30 min at 10 s; with the slack 3.6 kB a GPU
SLACK = 1.25  # rows kept beyond ROWS before they are moved to the front


class HistoryRing:
    """Append-only rows over a growing set of GPUs; views of it are never copied."""

    def __init__(self, rows: int = ROWS) -> None:
        self._rows = rows
        self._capacity = int(rows * SLACK)
        self._used = 0
        self._gpus: list[GpuRef] = []
        self._column: dict[tuple[str, str], int] = {}
        self._at = np.zeros(self._capacity, np.float64)
        self._progressing = np.zeros(self._capacity, np.bool_)
        self._limit: npt.NDArray[np.float32] = np.zeros(0, np.float32)
        self._data: dict[str, npt.NDArray[Any]] = {
            name: np.zeros((self._capacity, 0), kind) for name, kind in COLUMNS.items()
        }

    def expect(self, gpus: Iterable[GpuRef]) -> None:
        """Columns in a given order before their first reading, so that what was learnt per column fits again."""
        self._make_columns([(ref.node, GpuReading(uuid=ref.uuid, index=ref.index, name=ref.name)) for ref in gpus])

    def keep(self, nodes: Container[str]) -> None:
        """Drops the columns of all other nodes."""
        kept = [place for place, gpu in enumerate(self._gpus) if gpu.node in nodes]
        if len(kept) == len(self._gpus):
            return
        self._gpus = [self._gpus[place] for place in kept]
        self._column = {(gpu.node, gpu.uuid): place for place, gpu in enumerate(self._gpus)}
        self._data = {name: table[:, kept] for name, table in self._data.items()}
        self._limit = self._limit[kept]

    def append(self, at: float, readings: Iterable[tuple[str, Sequence[GpuReading]]]) -> None:
        """One row at `at` from the fresh readings of each node; what is absent is NaN."""
        fresh = [(node, gpu) for node, gpus in readings for gpu in gpus]
        self._make_columns(fresh)
        if self._used == self._capacity:
            self._compact()
        row = self._used
        self._at[row] = at
        self._progressing[row] = False
        for table in self._data.values():
            table[row] = np.nan
        if fresh:
            columns = [self._column[node, gpu.uuid] for node, gpu in fresh]
            for name in COLUMNS:
                self._data[name][row, columns] = [_value(gpu, name) for _, gpu in fresh]
            limits = [np.nan if gpu.power_limit_watts is None else gpu.power_limit_watts for _, gpu in fresh]
            known = ~np.isnan(limits)
            self._limit[np.asarray(columns)[known]] = np.asarray(limits, np.float32)[known]
        self._used += 1

    def mark_progressing(self, since_at: float, until_at: float) -> None:
        """Rows in [since, until] lie between two steps of a training phase: they show the run at work."""
        at = self._at[: self._used]
        first = np.searchsorted(at, since_at, side="left")
        last = np.searchsorted(at, until_at, side="right")
        self._progressing[first:last] = True

    def view(self) -> History:
        rows = slice(max(0, self._used - self._rows), self._used)
        return History(
            gpus=tuple(self._gpus),
            at=self._at[rows],
            progressing=self._progressing[rows],
            power_limit_watts=self._limit,
            **{name: table[rows] for name, table in self._data.items()},
        )

    def _make_columns(self, fresh: Sequence[tuple[str, GpuReading]]) -> None:
        new = [(node, gpu) for node, gpu in fresh if (node, gpu.uuid) not in self._column]
        if not new:
            return
        for node, gpu in new:
            self._column[node, gpu.uuid] = len(self._gpus)
            self._gpus.append(GpuRef(node, gpu.uuid, gpu.index, gpu.name))
        for name, table in self._data.items():
            wider = np.full((self._capacity, len(self._gpus)), np.nan, table.dtype)
            wider[:, : table.shape[1]] = table
            self._data[name] = wider
        self._limit = np.append(self._limit, np.full(len(new), np.nan, np.float32))

    def _compact(self) -> None:
        keep = slice(self._used - self._rows + 1, self._used)
        count = self._rows - 1
        for array in (self._at, self._progressing, *self._data.values()):
            array[:count] = array[keep].copy()
        self._used = count


def _value(gpu: GpuReading, name: str) -> float:
    if name == "memory_used_ratio":
        if gpu.memory_used_bytes is None or not gpu.memory_total_bytes:
            return np.nan
        return gpu.memory_used_bytes / gpu.memory_total_bytes
    value = getattr(gpu, name)
    return np.nan if value is None else value
