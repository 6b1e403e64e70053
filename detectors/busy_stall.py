"""100 % utilization at zero throughput, whatever the power: a livelock, an endless loop, one kernel for ever."""

from __future__ import annotations

from dataclasses import dataclass

from detectors._limits import AgreeingLimits, SingleLimits
from detectors._stall import Stall, assess, finding
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Severity, Verdict, firing

HINT = "Take stacks before you restart: py-spy dump --pid PID, cuda-gdb on one rank; then restart from the last save."


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyStallConfig(SingleLimits):
    """Limits on the step counter alone."""


@dataclass(frozen=True, slots=True)
class BusyStall:
    config: BusyStallConfig

    def check(self, frame: Frame) -> Verdict:
        stall = assess(frame, self.config, AgreeingLimits())
        if not isinstance(stall, Stall):
            return stall
        if stall.kind != "busy_stall":
            return CLEAR
        shape = stall.shape
        if shape.known:
            title = f"GPUs busy at zero throughput: {shape.busy} of {shape.known} at 100 % utilization"
        else:
            title = "No progress, and no GPU readings to tell why"
        return firing([finding(frame, stall, Severity.CRITICAL, title, HINT)])


PLUGIN = Plugin("busy_stall", BusyStallConfig, BusyStall, family="stall")
