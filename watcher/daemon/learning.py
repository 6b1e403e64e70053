"""What a run teaches about itself: its working power, and how long low power lasts while steps go on. Pure."""

from __future__ import annotations

import numpy as np

from detectors.frame import PowerBand
from detectors.telemetry import History

ENOUGH_ROWS = 12  # two minutes at work
USED_ROWS = 60  # of the working rows, evenly picked: bounds the cost at any size
MAD_TO_SIGMA = 1.4826


def power_band(history: History, since_at: float) -> PowerBand | None:
    """Working medians and spreads over the rows at or after `since_at` in which the run progressed."""
    rows = np.flatnonzero(history.progressing & (history.at >= since_at))
    if len(rows) < ENOUGH_ROWS:
        return None
    if len(rows) > USED_ROWS:
        rows = rows[np.linspace(0, len(rows) - 1, USED_ROWS).astype(np.intp)]
    power = history.power_watts[rows].astype(np.float64)
    known = ~np.isnan(power).all(axis=0)
    if not known.any():
        return None
    medians = np.full(power.shape[1], np.nan)
    spreads = np.full(power.shape[1], np.nan)
    medians[known] = np.nanmedian(power[:, known], axis=0)
    spreads[known] = MAD_TO_SIGMA * np.nanmedian(np.abs(power[:, known] - medians[known]), axis=0)
    return PowerBand(
        median_watts=tuple(medians.tolist()),
        spread_watts=tuple(spreads.tolist()),
        run_median_watts=float(np.nanmedian(medians)),
        run_spread_watts=float(np.nanmedian(spreads)),
        samples=len(rows),
    )


class SpinWhileStepping:
    """The longest stretch of low power at full utilization in which steps went on: what a bursty log may hide."""

    def __init__(self, longest_seconds: float = 0.0) -> None:
        self.longest_seconds = longest_seconds
        self._began_at: float | None = None

    def note(self, now: float, spinning: bool, last_step_at: float | None) -> None:
        if spinning:
            self._began_at = now if self._began_at is None else self._began_at
            return
        if self._began_at is not None and last_step_at is not None and last_step_at > self._began_at:
            self.longest_seconds = max(self.longest_seconds, now - self._began_at)
        self._began_at = None
