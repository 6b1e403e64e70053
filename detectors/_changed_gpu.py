"""Whose readings changed when the pace did: GPUs that moved away from their peers at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from detectors._odd_gpu import FEW_RATIO
from detectors.frame import Frame
from detectors.telemetry import GpuRef

BEFORE_SECONDS = 900.0
AWAY_SECONDS = 60.0  # around the change itself
LEAST_ROWS = 6
LEAST_GPUS = 4
SIGMAS = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """What counts as moved, beyond what the peers did: a share of its own value before, or an amount."""

    column: str
    name: str
    share: float = 0.0
    amount: float = 0.0
    shown: str


SIGNALS = (
    Signal(column="sm_clock_mhz", name="clock", share=0.04, shown="{:+.0f} MHz"),
    Signal(column="power_watts", name="power", share=0.10, shown="{:+.0f} W"),
    Signal(column="temperature_celsius", name="temperature", amount=6.0, shown="{:+.0f} C"),
    Signal(column="utilization_ratio", name="utilization", amount=0.15, shown="{:+.0%}"),
)


@dataclass(frozen=True, slots=True)
class ChangedGpu:
    """`text`: what changed against its peers, e.g. "clock -200 MHz, temperature +12 C"."""

    ref: GpuRef
    text: str


def changed_gpus(frame: Frame, at: float) -> tuple[ChangedGpu, ...]:
    """A few at most; empty where no one stands out, or the history does not reach back to the change."""
    history = frame.history
    first, last = history.at.searchsorted([at - BEFORE_SECONDS, at - AWAY_SECONDS])
    before, after = slice(first, last), history.rows_since(at + AWAY_SECONDS)
    if last - first < LEAST_ROWS or len(history) - after.start < LEAST_ROWS or len(frame.gpus) < LEAST_GPUS:
        return ()
    told: dict[int, list[str]] = {}
    for signal in SIGNALS:
        values = getattr(history, signal.column)
        then, now = _medians(values[before]), _medians(values[after])
        moved = now - then
        known = ~np.isnan(moved)
        if known.sum() < LEAST_GPUS:
            continue
        away = moved - np.median(moved[known])
        sigma = 1.4826 * float(np.median(np.abs(away[known])))
        least = np.maximum(signal.amount, signal.share * np.abs(then))
        with np.errstate(invalid="ignore"):
            places = np.flatnonzero(np.abs(away) > np.maximum(least, SIGMAS * sigma))
        for place in places:
            told.setdefault(int(place), []).append(f"{signal.name} {signal.shown.format(away[place])}")
    if not told or len(told) > max(1, FEW_RATIO * len(frame.gpus)):
        return ()
    return tuple(ChangedGpu(frame.gpus[i], ", ".join(parts)) for i, parts in sorted(told.items()))


def _medians(values: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
    """Of each GPU over time; NaN where half of its readings are missing."""
    wide = values.astype(np.float64)
    missing = np.isnan(wide).sum(axis=0) * 2 > len(wide)
    wide[:, missing] = 0.0
    out = np.asarray(np.nanmedian(wide, axis=0))
    out[missing] = np.nan
    return out
