"""Strips and plots are bounded, show gaps as gaps, and lose neither the odd GPU nor the peak."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from detectors.frame import StepRecord
from detectors.telemetry import GpuRef, History
from tests.support.runs import START, ScriptedRun
from watcher.daemon.page.plots import MAX_POINTS, plots
from watcher.daemon.page.strip import MAX_COLUMNS, MAX_ROWS, strip

NOW = 1_700_000_000.0


def history(at: list[float], gpus: int = 8, per_node: int = 8) -> History:
    """All at 300 of 400 W and fully busy."""
    refs = tuple(GpuRef(f"node{n // per_node}", f"GPU-{n}", n % per_node) for n in range(gpus))
    shape = (len(at), gpus)
    full = {
        name: np.ones(shape, np.float32)
        for name in ("utilization_ratio", "memory_utilization_ratio", "memory_used_ratio", "temperature_celsius")
    }
    return History(
        gpus=refs, at=np.array(at), progressing=np.zeros(len(at), np.bool_),
        power_watts=np.full(shape, 300, np.float32),
        sm_clock_mhz=np.ones(shape, np.float32), power_limit_watts=np.full(gpus, 400, np.float32), **full,
    )  # fmt: skip


def cells(drawn: dict[str, Any], what: str = "power") -> np.ndarray:
    flat = np.frombuffer(base64.b64decode(drawn[what]), np.uint8)
    return flat.reshape(len(drawn["rows"]), drawn["columns"])


def test_a_gap_in_the_history_is_a_gap_in_the_picture_and_one_missed_look_is_not():
    ages = [age for age in range(1200, -10, -10) if not 300 < age < 600 and age != 100]
    drawn = strip(history([NOW - age for age in ages]), NOW, 10.0)
    known = cells(drawn)[0] != drawn["unknown"]
    assert 28 <= (~known).sum() <= 30
    assert known[-20:].all()


@pytest.mark.parametrize("every", [10.0, 10.7, 13.0, 45.0])
def test_a_daemon_slower_than_its_interval_makes_no_gaps(every):
    drawn = strip(history([NOW - every * n for n in range(120, -1, -1)]), NOW, 10.0)
    shown = cells(drawn)[:, 1:]
    assert (shown == round(0.75 * drawn["full"])).all()
    assert drawn["columns"] <= MAX_COLUMNS


def test_without_history_or_readings_nothing_is_known():
    assert (cells(strip(history([]), NOW, 10.0)) == 255).all()
    dark = history([NOW - 10, NOW])
    dark.power_watts[:] = np.nan
    dark.utilization_ratio[:] = np.inf
    drawn = strip(dark, NOW, 10.0)
    assert (cells(drawn) == 255).all()
    assert (cells(drawn, "busy") == 255).all()
    assert strip(history([NOW], gpus=0), NOW, 10.0)["rows"] == []


@pytest.mark.parametrize("gpus", [2048, 16_384])
def test_a_large_fleet_is_bounded_and_its_one_odd_gpu_is_seen(gpus):
    fleet = history([NOW - 10 * n for n in range(179, -1, -1)], gpus)
    fleet.utilization_ratio[:, 777] = 0.0
    drawn = strip(fleet, NOW, 10.0)
    assert len(drawn["rows"]) <= MAX_ROWS
    busy = cells(drawn, "busy")[:, -1]
    (odd,) = np.flatnonzero(busy == 0)
    assert drawn["rows"][odd].split()[0] in ("node97", "node96", "node64")
    assert (np.delete(busy, odd) == drawn["full"]).all()


def test_nodes_stand_in_the_order_of_their_numbers():
    drawn = strip(history([NOW], 12, per_node=1), NOW, 10.0)
    assert [row.split()[0] for row in drawn["rows"]] == [f"node{n}" for n in range(12)]


def test_power_beyond_the_limit_does_not_wrap_around():
    hot = history([NOW])
    hot.power_watts[:] = 4000
    assert (cells(strip(hot, NOW, 10.0))[:, -1] == 254).all()


def test_plots_are_thinned_and_keep_their_peak_and_both_ends():
    run = ScriptedRun()
    run.play(20)
    frame = run.fold.frame(START + 20)
    records = tuple(
        StepRecord(at=START + n, step=n, loss=9.0 if n == 777 else float("nan") if n == 5 else 2.0) for n in range(1000)
    )
    frame = replace(frame, progress=replace(frame.progress, records=records))
    drawn = plots(frame)
    by_title = {plot["title"]: plot for plot in drawn["plots"]}
    assert all(len(plot["at"]) == len(plot["values"]) <= MAX_POINTS + 2 for plot in drawn["plots"])
    assert 9.0 in by_title["Loss"]["values"]
    assert (by_title["Step"]["values"][0], by_title["Step"]["values"][-1]) == (0, 999)
    assert "Seconds a step" not in by_title  # nothing is known of it
    assert drawn["now"] == frame.now
