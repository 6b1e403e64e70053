"""History as a picture that a browser can draw: a byte a cell, one row a GPU or group, one column a moment. Pure."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from detectors.telemetry import GpuRef, History

MAX_COLUMNS = 180
LEAST_SECONDS = 600.0
MAX_ROWS = 256  # a screen has no more lines to give; beyond that a row is a node or several
UNKNOWN = 255
FULL = 200  # the byte of 100 %; more than the limit goes up to 254
STEP_MARKS = 2_000


@dataclass(frozen=True, slots=True)
class Row:
    """`first`..`last` are places in the columns of the history, the last one included."""

    label: str
    first: int
    last: int


def strip(history: History, now: float, interval: float, step_instants: Sequence[float] = ()) -> dict[str, Any]:
    """JSON-ready: `power` (share of the limit) and `busy` are base64 of rows x columns bytes.

    Columns are an even division of the time shown, so that a gap in the history is a gap in the picture. Where a row
    stands for several GPUs it shows the one furthest from the middle of all: the odd one must not drown in a mean.
    """
    order, rows = _rows(history.gpus)
    times = _columns(np.asarray(history.at), now, interval)
    seconds = times.seconds
    limit = history.power_limit_watts if len(history.power_limit_watts) == len(history.gpus) else np.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.asarray(history.power_watts, np.float32) / limit
    tables = {"power": power, "busy": np.asarray(history.utilization_ratio, np.float32)}
    recent = [t for t in step_instants[-STEP_MARKS:] if now - seconds < t <= now]
    return {
        "from": now - seconds,
        "to": now,
        "columns": times.count,
        "rows": [row.label for row in rows],
        "gpus": len(history.gpus),
        "grouped": any(row.last > row.first for row in rows),
        "full": FULL,
        "unknown": UNKNOWN,
        "steps": sorted({int((t - now + seconds) / seconds * 1000) for t in recent}),  # in thousandths of the width
        **{name: _packed(table[:, order], times, rows) for name, table in tables.items()},
    }


@dataclass(frozen=True, slots=True)
class Times:
    """`source`: for each column the row of the history that it shows, or -1."""

    seconds: float
    source: npt.NDArray[np.int_]

    @property
    def count(self) -> int:
        return len(self.source)


def _columns(at: npt.NDArray[np.float64], now: float, interval: float) -> Times:
    """One column a look, all that is kept, at least ten minutes: a young run is no wall of colour.

    The usual distance of two looks is the width of a column, so that a slow daemon makes no gaps; a single look that
    is missing is filled from the one before.
    """
    usual = max(interval, float(np.median(np.diff(at)))) if len(at) > 1 else interval
    shown = max(LEAST_SECONDS, now - float(at[0]) + usual) if len(at) else LEAST_SECONDS
    count = int(min(MAX_COLUMNS, max(1, -(-shown // usual))))
    source = np.full(count, -1)
    place = count - 1 - np.rint((now - at) / usual).astype(int)
    inside = (place >= 0) & (place < count)
    source[place[inside]] = np.flatnonzero(inside)
    alone = (source[1:] < 0) & (source[:-1] >= 0)
    source[1:][alone] = source[:-1][alone]
    return Times(count * usual, source)


def _rows(gpus: Sequence[GpuRef]) -> tuple[list[int], list[Row]]:
    """Columns in the order of nodes and GPUs, and which of them share a row."""
    order = sorted(range(len(gpus)), key=lambda place: (_natural(gpus[place].node), gpus[place].index))
    if len(order) <= MAX_ROWS:
        return order, [Row(str(gpus[place]), number, number) for number, place in enumerate(order)]
    starts = [n for n, place in enumerate(order) if n == 0 or gpus[place].node != gpus[order[n - 1]].node]
    per_row = -(-len(starts) // MAX_ROWS)
    cuts = [*starts[::per_row], len(order)]
    rows = []
    for first, end in itertools.pairwise(cuts):
        names = gpus[order[first]].node, gpus[order[end - 1]].node
        rows.append(Row(names[0] if names[0] == names[1] else f"{names[0]} to {names[1]}", first, end - 1))
    return order, rows


def _natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """node2 before node10."""
    parts, digits, word = [], "", ""
    for letter in f"{name}\0":
        if letter.isdecimal() and letter.isascii():
            digits += letter
            continue
        if digits:
            parts.append((False, int(digits[:18]), word))
            digits, word = "", ""
        word += letter
    return (*parts, (True, 0, word))


def _packed(values: npt.NDArray[np.float32], times: Times, rows: Sequence[Row]) -> str:
    """[T, G] ratios -> bytes, row after row."""
    sampled = np.full((times.count, values.shape[1]), np.nan, np.float32)
    known = times.source >= 0
    sampled[known] = values[times.source[known]]
    grid = _grouped(sampled, rows)
    cells = np.where(np.isfinite(grid), np.clip(np.nan_to_num(grid, posinf=0) * FULL, 0, UNKNOWN - 1), UNKNOWN)
    return base64.b64encode(np.ascontiguousarray(np.round(cells).astype(np.uint8).T).tobytes()).decode()


def _grouped(sampled: npt.NDArray[np.float32], rows: Sequence[Row]) -> npt.NDArray[np.float32]:
    if all(row.first == row.last for row in rows):
        return sampled
    known = np.isfinite(sampled)
    middle = np.zeros((len(sampled), 1), np.float32)
    some = known.any(axis=1)
    middle[some, 0] = np.nanmedian(sampled[some], axis=1)
    distance = np.where(known, np.abs(sampled - middle), -1.0)
    chosen = [row.first + distance[:, row.first : row.last + 1].argmax(axis=1) for row in rows]
    return np.take_along_axis(sampled, np.stack(chosen, axis=1), axis=1)
