"""The job's own time-out for collectives against ours: who is first, and does the job end by itself at all?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from detectors._limits import agreeing_limit
from detectors._stall import duration
from detectors.frame import Phase
from watcher.doctor._api import Check, Line, RunScene, Scene

TIMES = (  # as programs print their own arguments; the group is a number, the factor makes it seconds
    (re.compile(r"distributed_timeout_minutes[ .=:]+([0-9]+)"), 60.0),
    (re.compile(r"\bddp_timeout\b[\"']?\s*[=:]\s*([0-9]+)"), 1.0),
    (re.compile(r"\b(?:nccl|dist)_timeout\b[\"']?\s*[=:]\s*([0-9]+)"), 1.0),
    (re.compile(r"\b(?:init|train)_timeout_seconds\b[\"']?\s*[=:]\s*([0-9]+)"), 1.0),
    (re.compile(r"\bTimeout\(ms\)=([0-9]+)"), 0.001),
)  # fmt: skip
LONGEST_LINE = 4096


def timeouts_in(line: str) -> list[float]:
    """Seconds; bounded work on any line."""
    text = line[:LONGEST_LINE]
    return [float(found) * factor for pattern, factor in TIMES for found in pattern.findall(text)[:2]]


def look(scene: Scene, run: RunScene) -> Iterator[Line]:
    frame = run.frame
    training = replace(frame, phase=Phase(name="training", since_at=frame.now, announced=True))
    ours = agreeing_limit(training, run.detectors["low_power_deadlock"]).seconds
    theirs = [seconds for log in run.logs for seconds in log.timeouts_seconds if seconds > 0]
    if not theirs:
        text = "the job prints no time-out for its collectives; PyTorch's own is 10 minutes for NCCL, where it fires"
        yield Line("note", "collectives", text, "TORCH_NCCL_ASYNC_ERROR_HANDLING=1 lets a hung job end by itself")
        return
    shortest = min(theirs)
    if shortest < ours:
        text = (
            f"the job gives up after {duration(shortest)}, before we would page ({duration(ours)}): you hear of a crash"
        )
        yield Line("note", "collectives", text)
    else:
        text = f"the job gives up after {duration(shortest)}, we page after {duration(ours)}"
        yield Line("ok", "collectives", text)


CHECK = Check(50, of_run=look)
