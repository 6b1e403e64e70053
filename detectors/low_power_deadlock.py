"""Most busy GPUs of the run spin at low, flat power and nothing progresses: the signature of a hung collective."""

from __future__ import annotations

from dataclasses import dataclass

from detectors._limits import AgreeingLimits, SingleLimits
from detectors._stall import Stall, assess, finding
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Severity, Verdict, firing

HINT = (
    "Take stacks before you restart: py-spy dump --pid PID on the node that differs, else on every node. "
    "Then restart from the last checkpoint; leave out a node that differs again."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LowPowerDeadlockConfig(AgreeingLimits):
    """Limits where power agrees; see `_shape` for the thresholds of power."""


@dataclass(frozen=True, slots=True)
class LowPowerDeadlock:
    config: LowPowerDeadlockConfig

    def check(self, frame: Frame) -> Verdict:
        stall = assess(frame, SingleLimits(), self.config)
        if isinstance(stall, Stall):
            if stall.kind != "low_power_deadlock":
                return CLEAR
            shape = stall.shape
            title = f"Spin signature: {shape.low} of {shape.gpus} GPUs at 100 % utilization and low, flat power"
            return firing([finding(frame, stall, Severity.CRITICAL, title, HINT)])
        return stall


PLUGIN = Plugin("low_power_deadlock", LowPowerDeadlockConfig, LowPowerDeadlock, family="stall")
