"""Frames made by hand: a run at step 100 on two nodes with one GPU each, all well; tests change what they are about."""

from __future__ import annotations

from typing import Any

import numpy as np

from detectors.frame import Attempt, Frame, GpuRef, Phase, Progress, StepRecord
from detectors.telemetry import GpuReading, History, NodeView, SourceHealth, empty_history

NOW = 1_700_000_000.0


def gpu(name: str = "n1", index: int = 0, **more: Any) -> GpuReading:
    return GpuReading(uuid=f"GPU-{name}-{index}", index=index, **more)


def node(name: str = "n1", gpus: tuple[GpuReading, ...] | None = None, **more: Any) -> NodeView:
    gpus = (gpu(name),) if gpus is None else gpus
    usual: dict[str, Any] = {
        "reachable": True,
        "answered_at": NOW - 1,
        "gpus_fresh": True,
        "skew_seconds": 0.1,
        "inventory": {reading.uuid: reading.index for reading in gpus},
        "health": {"nvml": SourceHealth(ok=True)},
    }
    return NodeView(name=name, gpus=gpus, **(usual | more))


def records(losses: list[float], every: float = 10.0, stride: int = 1, **more: Any) -> tuple[StepRecord, ...]:
    """One record per loss; the last one was just now."""
    first = NOW - every * (len(losses) - 1)
    return tuple(
        StepRecord(at=first + every * i, step=stride * (i + 1), loss=loss, **more) for i, loss in enumerate(losses)
    )


def frame(
    *nodes: NodeView, progress: dict[str, Any] | None = None, attempt: dict[str, Any] | None = None, **more: Any
) -> Frame:
    nodes = nodes or (node("n1"), node("n2"))
    moved: dict[str, Any] = {
        "source": True,
        "last_step": 100,
        "total_steps": 1000,
        "steps_seen": 100,
        "first_step_at": NOW - 1000,
        "last_step_at": NOW - 5,
        "last_progress_at": NOW - 5,
        "last_line_at": NOW - 5,
    }
    refs = [GpuRef(view.name, reading.uuid, reading.index) for view in nodes for reading in view.gpus]
    usual: dict[str, Any] = {
        "attempt": Attempt(**({"started_at": NOW - 1200, "nodes": tuple(n.name for n in nodes)} | (attempt or {}))),
        "phase": Phase(name="training", since_at=NOW - 1000),
        "progress": Progress(**(moved | (progress or {}))),
        "history": empty_history(refs),
    }
    return Frame(now=NOW, run="train", nodes=nodes, **(usual | more))


def history(gpus: int, seconds: float = 1800.0, names: str = "NVIDIA H100 80GB HBM3", **columns: Any) -> History:
    """Rows of ten seconds up to now over `gpus` GPUs of node n1; a column is a number, or one for each GPU."""
    rows = int(seconds / 10) + 1
    shape = (rows, gpus)
    usual = {
        "power_watts": 600.0, "utilization_ratio": 1.0, "memory_utilization_ratio": 0.5, "memory_used_ratio": 0.9,
        "temperature_celsius": 60.0, "sm_clock_mhz": 1700.0,
    }  # fmt: skip
    return History(
        gpus=tuple(GpuRef("n1", f"GPU-n1-{i}", i, names) for i in range(gpus)),
        at=NOW - 10.0 * np.arange(rows)[::-1],
        progressing=np.ones(rows, np.bool_),
        power_limit_watts=np.full(gpus, 700.0, np.float32),
        **{
            name: np.broadcast_to(np.asarray(columns.get(name, value), np.float32), shape)
            for name, value in usual.items()
        },
    )
