"""No progress while (almost) all GPUs idle with their memory held: data loader, file system, dead main thread."""

from __future__ import annotations

from dataclasses import dataclass

from detectors._limits import AgreeingLimits, SingleLimits
from detectors._stall import Stall, assess, finding
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Severity, Verdict, firing

HINT = "Look at the data loader and the file system first: processes in state D, df and ls on the data path, dmesg."


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleStallConfig(SingleLimits):
    """Limits on the step counter alone."""


@dataclass(frozen=True, slots=True)
class IdleStall:
    config: IdleStallConfig

    def check(self, frame: Frame) -> Verdict:
        stall = assess(frame, self.config, AgreeingLimits())
        if not isinstance(stall, Stall):
            return stall
        if stall.kind != "idle_stall":
            return CLEAR
        shape = stall.shape
        held = "memory held" if shape.memory_held else "little memory held"
        title = f"GPUs idle: {shape.known - shape.busy} of {shape.known} below 90 % utilization, {held}"
        return firing([finding(frame, stall, Severity.CRITICAL, title, HINT)])


PLUGIN = Plugin("idle_stall", IdleStallConfig, IdleStall, family="stall")
