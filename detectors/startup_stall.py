"""An attempt has begun and makes no first step: weights that do not load, a rendezvous that never meets."""

from __future__ import annotations

from dataclasses import dataclass

from detectors._differs import who_differs
from detectors._ending import ending_of
from detectors._hosts import hosts_quiet
from detectors._limits import Limit
from detectors._shape import shape_of
from detectors._stall import FAMILY, PRECISION, evidence, summary
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Finding, Severity, Subject, Unknown, Verdict, firing

HINT = "Look at the last lines of every rank and at the file system: a rank that still loads, or one that never came."


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupStallConfig:
    """From the start of the attempt to its first step. `quiet_seconds`: of processes on all nodes that use neither
    CPU nor disk nor network, after which it is critical at once."""

    warning_seconds: float = 900.0
    critical_seconds: float = 1800.0
    quiet_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class StartupStall:
    config: StartupStallConfig

    def check(self, frame: Frame) -> Verdict:
        attempt, progress = frame.attempt, frame.progress
        if attempt.started_at is None:
            return Unknown("no launch of this run has been seen yet")
        if progress.first_step_at is not None or attempt.stopped or attempt.end_marker_at is not None:
            return CLEAR
        if progress.hidden is not None:
            return Unknown(progress.hidden)
        if not progress.source and not frame.learnt.gaps and not any(s.steps for s in frame.log_sources):
            return self._without_steps(frame)
        return self._judge(frame)

    def _without_steps(self, frame: Frame) -> Verdict:
        """A log that never held a step may be one that nobody can read: then only silence counts."""
        last = frame.progress.last_line_at
        if last is not None and frame.now - last > self.config.critical_seconds:
            return self._judge(frame)
        return Unknown("no line of the log could be read as a step so far")

    def _judge(self, frame: Frame) -> Verdict:
        if ending_of(frame) is not None:
            return Unknown("the attempt has ended")
        started = frame.attempt.started_at
        assert started is not None
        limit, origin = frame.phase.max_seconds or self.config.critical_seconds, "start-up limit"
        if frame.phase.max_seconds is None and hosts_quiet(frame, self.config.quiet_seconds):
            limit, origin = self.config.quiet_seconds, "the hosts do nothing either"
        seconds = frame.now - started
        if seconds <= min(limit, self.config.warning_seconds):
            return Unknown(f"attempt {frame.attempt.number} has not made a step yet")
        shape = shape_of(frame)
        critical = seconds > limit
        differs = who_differs(frame, shape)
        title = f"No first step in attempt {frame.attempt.number}"
        return firing(
            [
                Finding(
                    signature="startup_stall",
                    subject=Subject(run=frame.run),
                    severity=Severity.CRITICAL if critical else Severity.WARNING,
                    summary=summary(frame, seconds, title, differs),
                    family=FAMILY,
                    precision=PRECISION["startup_stall"],
                    evidence=evidence(frame, shape, seconds, Limit(limit, origin), differs),
                    hint=HINT,
                    since_at=started,
                )
            ]
        )


PLUGIN = Plugin("startup_stall", StartupStallConfig, StartupStall, family="stall")
