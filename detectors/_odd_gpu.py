"""Who is slower than its peers while the run trains: a GPU that stands out alone, for minutes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from detectors.frame import Frame
from detectors.telemetry import GpuRef

FEW_RATIO = 0.05  # of the GPUs (at least one): more than these are no odd ones out
ROWS_RATIO = 0.8  # of the rows it has to stand out in
BUSY_RATIO = 0.5


@dataclass(frozen=True, slots=True)
class OddGpu:
    ref: GpuRef
    clock_mhz: float
    peers_mhz: float
    watts: float | None
    celsius: float | None


def slow_gpus(frame: Frame, window_seconds: float, below_ratio: float, sigmas: float) -> tuple[OddGpu, ...] | None:
    """GPUs whose clock lies below that of their peers throughout the window. None = cannot be told.

    Clocks of one card jump from reading to reading under a power cap; its median over the window does not.
    """
    history = frame.history
    rows = history.rows_since(frame.now - window_seconds)
    clock = history.sm_clock_mhz[rows].astype(np.float64)
    busy = history.utilization_ratio[rows] >= BUSY_RATIO
    if len(clock) < 2 or clock.shape[1] < 4 or np.isnan(clock).all():
        return None
    if history.at[rows][-1] - history.at[rows][0] < 0.9 * window_seconds - frame.interval_seconds:
        return None
    working = clock.copy()
    working[~busy] = np.nan
    counted = ~np.isnan(working).all(axis=1)
    if counted.sum() < 0.5 * len(clock):
        return None
    working = working[counted]
    seldom = np.isnan(working).sum(axis=0) > (1 - ROWS_RATIO) * len(working)
    if seldom.all():
        return None
    own = np.full(working.shape[1], np.nan)
    own[~seldom] = np.nanmedian(working[:, ~seldom], axis=0)
    middle = float(np.nanmedian(own))
    spread = 1.4826 * float(np.nanmedian(np.abs(own - middle)))
    with np.errstate(invalid="ignore"):
        apart = own < min(middle * (1 - below_ratio), middle - sigmas * spread)
        peers = np.nanmedian(working, axis=1, keepdims=True)
        lasting = (working < peers * (1 - below_ratio / 2)).sum(axis=0) >= ROWS_RATIO * len(working)
    places = np.flatnonzero(apart & lasting)
    if len(places) > max(1, FEW_RATIO * clock.shape[1]):
        return ()
    power, heat = history.power_watts[rows], history.temperature_celsius[rows]
    return tuple(
        OddGpu(
            frame.gpus[i],
            float(own[i]),
            middle,
            _median(power[:, i].astype(np.float64)),
            _median(heat[:, i].astype(np.float64)),
        )
        for i in places
    )


def _median(values: np.ndarray) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else None
