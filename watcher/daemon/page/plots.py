"""Steps, pace, loss and power of a run as bounded series for the plots. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from detectors.frame import Frame, StepRecord
from detectors.telemetry import History

MAX_POINTS = 300

Series = tuple[list[float], list[float | None]]


def plots(frame: Frame) -> dict[str, Any]:
    """JSON-ready. `now` ends every plot, so that a standstill is seen; a plot has `title`, `at` (unix seconds) and
    `values` of equal length.

    A plot without a point is left out. Thinned so that peaks stay.
    """
    records = frame.progress.records
    rate_unit = next((unit for record in reversed(records) for unit in record.rates), None)
    found: list[tuple[str, Series]] = [("Step", _of(records, lambda record: record.step))]
    if rate_unit is not None:
        title = rate_unit.replace("_", " ")
        found.append((f"Throughput, {title}", _of(records, lambda record: record.rates.get(rate_unit))))
    else:
        found.append(("Seconds a step", _of(records, lambda record: record.step_seconds)))
    found.append(("Loss", _of(records, lambda record: record.loss)))
    pace = frame.progress.pace
    if len(pace.at) > 2 and (not records or pace.at[0] < records[0].at - 600):
        found.append(("Seconds a step, over all attempts", (list(pace.at), list(pace.step_seconds))))
    found.append(("Power of the middle GPU, W", _power(frame.history)))
    shown = [
        {"title": title, "at": at, "values": values}
        for title, series in found
        for at, values in [_thin(*series)]
        if any(value is not None for value in values)
    ]
    return {"now": frame.now, "plots": shown}


def _of(records: Sequence[StepRecord], value: Any) -> Series:
    return [record.at for record in records], [_known(value(record)) for record in records]


def _power(history: History) -> Series:
    table = np.asarray(history.power_watts, np.float64)
    if not table.size:
        return [], []
    known = np.isfinite(table).any(axis=1)
    middle = np.full(len(table), np.nan)
    middle[known] = np.nanmedian(table[known], axis=1)
    return [float(at) for at in history.at], [_known(value) for value in middle]


def _known(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _thin(at: Sequence[float], values: Sequence[float | None]) -> Series:
    """At most MAX_POINTS: of each stretch the lowest and the highest, in their order; both ends stay."""
    if len(at) <= MAX_POINTS:
        return list(at), list(values)
    edges = np.linspace(0, len(at), MAX_POINTS // 2).astype(int)
    kept = {0, len(at) - 1}
    for first, end in itertools.pairwise(edges):
        some = [n for n in range(first, end) if values[n] is not None]
        if some:
            kept |= {min(some, key=lambda n: _at(values, n)), max(some, key=lambda n: _at(values, n))}
        else:
            kept.add(int(first))
    places = sorted(kept)
    return [at[n] for n in places], [values[n] for n in places]


def _at(values: Sequence[float | None], place: int) -> float:
    value = values[place]
    return 0.0 if value is None else value
