"""A small PNG of the last half hour: power and utilization per GPU over time, with a mark at every step. Pure.

Two heat maps, one row a GPU in the order of the page, time to the right. Dark blue = 0, yellow = half, red = the
limit (or 100 %), grey = not known. White marks on the strip above are steps.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from detectors.telemetry import History

COLUMNS = 180
CELL_WIDTH = 3
PANEL_HEIGHT = 240  # pixels at most
ROW_HEIGHT = 12  # pixels at most
STRIP = 8
GAP = 6
_STOPS = np.array([0.0, 0.5, 0.8, 1.0])
_COLOURS = np.array([[20, 30, 90], [235, 200, 60], [230, 110, 40], [200, 25, 35]], float)
_UNKNOWN = np.array([128, 128, 128])

Image = npt.NDArray[np.uint8]


def draw(history: History, step_instants: Sequence[float] = ()) -> bytes | None:
    """A PNG, or None where there are no GPUs or fewer than two moments."""
    if len(history) < 2 or not len(history.gpus):
        return None
    limits = history.power_limit_watts if len(history.power_limit_watts) == len(history.gpus) else np.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        power = history.power_watts / limits
    panels = [_panel(np.asarray(values, np.float64)) for values in (power, history.utilization_ratio)]
    width = panels[0].shape[1]
    gap = np.full((GAP, width, 3), 255, np.uint8)
    strip = _strip(history, step_instants, width)
    return _png(np.concatenate([strip, panels[0], gap, panels[1]]))


def _panel(values: npt.NDArray[np.float64]) -> Image:
    """[T, G] ratios -> pixels, at most PANEL_HEIGHT high: many GPUs share a line by their mean."""
    grid = _binned(_binned(values, COLUMNS).T, PANEL_HEIGHT // 2)
    height = max(2, min(ROW_HEIGHT, PANEL_HEIGHT // grid.shape[0]))
    return np.repeat(np.repeat(_coloured(grid), height, axis=0), CELL_WIDTH, axis=1)


def _binned(values: npt.NDArray[np.float64], bins: int) -> npt.NDArray[np.float64]:
    """Means over the first axis, NaN where nothing is known."""
    edges = np.linspace(0, len(values), min(bins, len(values)) + 1).astype(int)
    known = np.isfinite(values)
    sums = np.add.reduceat(np.where(known, values, 0.0), edges[:-1], axis=0)
    counts = np.add.reduceat(known.astype(float), edges[:-1], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(sums / counts, np.float64)


def _coloured(grid: npt.NDArray[np.float64]) -> Image:
    level = np.clip(np.nan_to_num(grid, nan=0.0), 0.0, 1.0)
    colours = np.stack([np.interp(level, _STOPS, _COLOURS[:, channel]) for channel in range(3)], axis=-1)
    return np.where(np.isfinite(grid)[..., None], colours, _UNKNOWN).astype(np.uint8)


def _strip(history: History, step_instants: Sequence[float], width: int) -> Image:
    strip = np.zeros((STRIP, width, 3), np.uint8)
    first, last = float(history.at[0]), float(history.at[-1])
    for at in step_instants:
        if first <= at <= last and last > first:
            strip[:, int((width - 1) * (at - first) / (last - first))] = 255
    return strip


def _png(pixels: Image) -> bytes:
    height, width, _ = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)  # filter 0
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
