"""GPUs that the run holds do nothing while the rest of it works: paid for and not used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from detectors._shape import HELD_RATIO
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.telemetry import GpuRef
from detectors.verdict import CLEAR, Finding, Severity, Subject, Unknown, Verdict, firing

HINT = "Does the launch ask for fewer processes than GPUs (nproc_per_node, CUDA_VISIBLE_DEVICES)? Who holds them?"
NAMED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuIdleConfig:
    """Never above `idle_ratio` of utilization for `idle_seconds`, at most what the history holds (half an hour)."""

    idle_seconds: float = 1800.0
    idle_ratio: float = 0.01


@dataclass(frozen=True, slots=True)
class GpuIdle:
    config: GpuIdleConfig

    def check(self, frame: Frame) -> Verdict:
        attempt, progress, history = frame.attempt, frame.progress, frame.history
        if attempt.stopped or attempt.end_marker_at is not None:
            return CLEAR
        waits = attempt.started_at is None and frame.scheduler is not None and frame.scheduler.state == "running"
        if not waits and progress.last_progress_at is None:
            return Unknown("the run makes no progress that could be compared with")
        seconds = self.config.idle_seconds
        if not len(history) or frame.now - float(history.at[0]) < seconds - 2 * frame.interval_seconds:
            return Unknown("the GPUs were not watched for long enough")
        if not waits and frame.now - (progress.last_progress_at or 0.0) > seconds / 2:
            return CLEAR  # it stands still: the stall family speaks of that
        rows = history.rows_since(frame.now - seconds)
        used = history.utilization_ratio[rows]
        known = ~np.isnan(used)
        held = history.memory_used_ratio[-2:]
        with np.errstate(invalid="ignore"):
            idle = (known.sum(axis=0) * 2 >= len(used)) & ~(used > self.config.idle_ratio).any(axis=0)
            idle &= known[-3:].any(axis=0)
            if not waits:  # without a process it is not this run's
                idle &= (held > HELD_RATIO).any(axis=0)
        places = np.flatnonzero(idle)
        if not len(places) or (len(places) == len(frame.gpus) and not waits):
            return CLEAR
        return firing([self._finding(frame, [frame.gpus[i] for i in places])])

    def _finding(self, frame: Frame, idle: Sequence[GpuRef]) -> Finding:
        minutes = self.config.idle_seconds / 60
        named = ", ".join(map(str, idle[:3])) + (", ..." if len(idle) > 3 else "")
        alone = idle[0] if len(idle) == 1 else None
        return Finding(
            signature="gpu_idle",
            subject=Subject(run=frame.run),
            severity=Severity.WARNING,
            summary=f"{len(idle)} of {len(frame.gpus)} GPUs held and idle for {minutes:.0f} min: {named}",
            evidence={
                "gpus_idle": len(idle),
                "gpus_total": len(frame.gpus),
                "idle_seconds": self.config.idle_seconds,
                "gpus_named": [str(ref) for ref in idle[:NAMED]],
                "node": alone.node if alone is not None else None,
                "gpu_uuid": alone.uuid if alone is not None else None,
            },
            hint=HINT,
            since_at=frame.now - self.config.idle_seconds,
        )


PLUGIN = Plugin("gpu_idle", GpuIdleConfig, GpuIdle)
