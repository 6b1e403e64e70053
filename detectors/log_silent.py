"""No lines while the GPUs work as they always do: the log is late or lost, not the run."""

from __future__ import annotations

from dataclasses import dataclass

from detectors._limits import AgreeingLimits, SingleLimits
from detectors._stall import Stall, assess, finding
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Severity, Verdict, firing

HINT = "Look at the log itself: a full disk, a moved file, a dead forwarder, or a buffer that is not flushed."


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSilentConfig(SingleLimits):
    """Limits on the step counter alone."""


@dataclass(frozen=True, slots=True)
class LogSilent:
    config: LogSilentConfig

    def check(self, frame: Frame) -> Verdict:
        stall = assess(frame, self.config, AgreeingLimits())
        if not isinstance(stall, Stall):
            return stall
        if stall.kind != "log_silent":
            return CLEAR
        return firing([finding(frame, stall, Severity.WARNING, "The log is silent while the GPUs work", HINT)])


PLUGIN = Plugin("log_silent", LogSilentConfig, LogSilent, family="stall")
