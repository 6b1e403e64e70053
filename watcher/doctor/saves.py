"""How often it saves against Young's and Daly's optimum for a job of this size."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

from detectors._stall import duration
from watcher.doctor._api import Check, Line, RunScene, Scene

GPU_HOURS_BETWEEN_FAILURES = 50_600.0  # Llama 3: 419 unexpected interruptions of 16,384 GPUs in 54 days
FAR_TIMES = 3.0


def optimum_seconds(save_seconds: float, gpus: int) -> float:
    """sqrt(2 C M): C = seconds that a save stops the job, M = mean time between its failures."""
    return sqrt(2 * save_seconds * GPU_HOURS_BETWEEN_FAILURES / gpus * 3600)


def look(scene: Scene, run: RunScene) -> Iterator[Line]:
    learnt, gpus = run.frame.learnt, run.gpus
    interval, length = learnt.save_interval, learnt.save_length or learnt.durations.get("checkpoint")
    if interval is None:
        yield Line("note", "saves", "how often the run saves is not known yet: two saves must have been seen")
        return
    text = f"every {duration(interval.median_seconds)}"
    if length is None or not gpus or length.median_seconds <= 0:
        yield Line("ok", "saves", text)
        return
    best = optimum_seconds(length.median_seconds, gpus)
    text += (
        f", a save takes {duration(length.median_seconds)}; Young/Daly for {gpus} GPUs: every {duration(best)} "
        f"(a failure in {GPU_HOURS_BETWEEN_FAILURES:,.0f} GPU-hours, as published for 16,384 H100)"
    )
    if interval.median_seconds > FAR_TIMES * best:
        yield Line("warn", "saves", text, "save more often: a crash now costs more than the saves would")
    elif interval.median_seconds * FAR_TIMES < best:
        yield Line("note", "saves", text, "saving less often would cost less")
    else:
        yield Line("ok", "saves", text)


CHECK = Check(60, of_run=look)
