"""The shape of a run's GPUs: spinning at low power, idle with their memory held, or at work.

Spin = 100 % utilization at little more than the power of an open context. Thresholds and where they come from:
a spinning collective draws 14-28 % of the limit on data-centre cards and 27-59 % on cards of 200 W and less; its
power varies by 0.4-4 W where training varies by 10 W and more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from detectors.frame import Frame
from detectors.telemetry import GpuRef, History

BUSY_RATIO = 0.9
LOW_OF_LIMIT = 0.30  # the prior, data-centre cards only
LOW_OF_SMALL_LIMIT = 0.65
SMALL_LIMIT_WATTS = 200.0
LOW_OF_MEDIAN = 0.50
SURELY_BELOW_MEDIAN = 0.70  # with the prior saying the same
WORKS_ABOVE_LIMIT_RATIO = 0.30  # a working median below this is too near to the context level to judge by
HELD_RATIO = 0.02  # of its memory: a context alone takes about 1 %
FLAT_WATTS = 8.0
FLAT_OF_LIMIT = 0.015
FLAT_OF_SPREAD = 0.5
CONSUMER = re.compile(r"GeForce|TITAN|RTX\s?[234]0\d0", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Shape:
    """Over a window that ends at `now`. Ratios are of the GPUs whose utilization is known; `known` of all."""

    rows: int
    gpus: int
    known: int
    busy: int
    low: int  # busy, and low and flat through the whole window
    held: int  # memory in use
    held_known: int
    power_known: int
    busy_mask: npt.NDArray[np.bool_]
    low_mask: npt.NDArray[np.bool_]
    held_mask: npt.NDArray[np.bool_]
    power_watts: npt.NDArray[np.float64]  # median of the window per GPU
    utilization_ratio: npt.NDArray[np.float64]
    threshold_watts: npt.NDArray[np.float64]
    origin: str  # where the threshold comes from

    @property
    def spinning(self) -> bool:
        return self.known > 0 and self.busy * 2 >= self.known and self.low >= 0.8 * self.busy

    @property
    def idle(self) -> bool:
        return self.known > 0 and self.busy < 0.1 * self.known

    @property
    def memory_held(self) -> bool | None:
        """Do processes still hold most of the GPUs? None = not known."""
        return None if self.held_known == 0 else self.held * 2 >= self.held_known

    @property
    def memory_free(self) -> bool:
        """No GPU is known to be held."""
        return self.held_known > 0 and self.held == 0


def shape_of(frame: Frame, window_seconds: float = 60.0) -> Shape:
    """The shape that held in every sample of the window. Needs two samples at least; `rows` says how many it saw."""
    history = frame.history
    rows = history.rows_since(frame.now - window_seconds - 0.5)
    power = history.power_watts[rows].astype(np.float64)
    utilization = history.utilization_ratio[rows].astype(np.float64)
    count, gpus = power.shape
    threshold, origin = low_threshold(frame)
    with np.errstate(invalid="ignore"):
        known = ~np.isnan(utilization).all(axis=0) if count else np.zeros(gpus, np.bool_)
        busy = known & (_quantile(utilization, 0.25) >= BUSY_RATIO)
        power_known = ~np.isnan(power).all(axis=0) if count else np.zeros(gpus, np.bool_)
        highest = _nanmax(power)
        spread = highest - _nanmin(power)
        flat = spread <= flat_limit(frame)
        low = busy & power_known & (highest < threshold) & flat
        memory = history.memory_used_ratio[rows].astype(np.float64)
        latest = _last_known(memory)
        held = latest > HELD_RATIO
    return Shape(
        rows=count,
        gpus=gpus,
        known=int(known.sum()),
        busy=int(busy.sum()),
        low=int(low.sum()),
        held=int(held.sum()),
        held_known=int((~np.isnan(latest)).sum()),
        power_known=int(power_known.sum()),
        busy_mask=busy,
        low_mask=low,
        held_mask=held,
        power_watts=_quantile(power, 0.5),
        utilization_ratio=_quantile(utilization, 0.5),
        threshold_watts=threshold,
        origin=origin,
    )


def spins_now(frame: Frame) -> bool:
    """The signature in the latest samples alone (two polls)."""
    return shape_of(frame, 1.5 * frame.interval_seconds).spinning


def held_share(history: History, rows: int = 2) -> float | None:
    """Share of the GPUs whose memory is in use in the latest rows; None where fewer than half are known."""
    latest = _last_known(history.memory_used_ratio[-rows:].astype(np.float64))
    known = ~np.isnan(latest)
    if not known.any() or known.sum() * 2 < len(latest):
        return None
    return float((latest[known] > HELD_RATIO).mean())


def busy_share(history: History) -> float | None:
    """Share of the GPUs that are busy in the latest row; None where none is known."""
    latest = history.utilization_ratio[-1:].astype(np.float64)
    known = ~np.isnan(latest)
    return float((latest[known] >= BUSY_RATIO).mean()) if known.any() else None


def low_threshold(frame: Frame) -> tuple[npt.NDArray[np.float64], str]:
    """Watts per GPU below which a busy one counts as spinning; NaN = cannot be judged by power."""
    limit = frame.history.power_limit_watts.astype(np.float64)
    prior = _prior(frame.gpus, limit)
    band = frame.learnt.power
    if band is None or len(band.median_watts) != len(limit):
        return prior, "prior: share of the power limit"
    median = band.run_median_watts
    with np.errstate(invalid="ignore"):
        learnt = np.full(len(limit), LOW_OF_MEDIAN * median)
        surely = np.minimum(prior, SURELY_BELOW_MEDIAN * median)
        both = np.fmax(learnt, surely)
        near_context = median < WORKS_ABOVE_LIMIT_RATIO * limit
        usable = np.where(near_context, surely, both)
    return usable, f"learnt: the run works at {median:.0f} W"


def _prior(gpus: tuple[GpuRef, ...], limit: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    consumer = np.array([_is_consumer(gpu.name) for gpu in gpus], np.bool_)
    small = limit <= SMALL_LIMIT_WATTS
    share = np.where(small, LOW_OF_SMALL_LIMIT, np.where(consumer, np.nan, LOW_OF_LIMIT))
    return share * limit


@lru_cache(maxsize=256)
def _is_consumer(name: str) -> bool:
    return CONSUMER.search(name) is not None


def flat_limit(frame: Frame) -> npt.NDArray[np.float64]:
    """How far a GPU's power may move within the window and still count as flat, watts per GPU."""
    limit = frame.history.power_limit_watts.astype(np.float64)
    by_limit = np.fmax(FLAT_WATTS, FLAT_OF_LIMIT * np.nan_to_num(limit))
    band = frame.learnt.power
    if band is None:
        return by_limit
    return np.fmax(by_limit, FLAT_OF_SPREAD * band.run_spread_watts)


def _quantile(values: npt.NDArray[np.float64], q: float) -> npt.NDArray[np.float64]:
    """Per column, NaN ignored, NaN where nothing is known; lower of the two neighbours."""
    count, columns = values.shape
    if count == 0:
        return np.full(columns, np.nan)
    ordered = np.sort(values, axis=0)  # NaN goes last
    known = (~np.isnan(values)).sum(axis=0)
    place = np.maximum(0, np.floor(q * (known - 1)).astype(np.intp))
    return np.asarray(ordered[place, np.arange(columns)])


def _nanmax(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.fmax.reduce(values, axis=0, initial=-np.inf) if len(values) else np.full(values.shape[1], np.nan)


def _nanmin(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.fmin.reduce(values, axis=0, initial=np.inf) if len(values) else np.full(values.shape[1], np.nan)


def _last_known(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Per column the newest value that is known, NaN where none is."""
    out = np.full(values.shape[1], np.nan)
    for row in values:
        known = ~np.isnan(row)
        out[known] = row[known]
    return out
