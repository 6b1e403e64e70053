"""The training is over and its processes do not go: nothing is lost, but the GPUs are held."""

from __future__ import annotations

from dataclasses import dataclass

from detectors._differs import who_differs
from detectors._limits import Limit
from detectors._shape import shape_of
from detectors._stall import FAMILY, PRECISION, evidence, summary
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Finding, Severity, Subject, Unknown, Verdict, firing

HINT = "The result is safe. End the job by hand: scancel, or kill the processes on the nodes that still hold GPUs."


@dataclass(frozen=True, slots=True, kw_only=True)
class TeardownStallConfig:
    """After the last progress, phase end or end marker, whichever is later."""

    held_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class TeardownStall:
    config: TeardownStallConfig

    def check(self, frame: Frame) -> Verdict:
        end = frame.attempt.end_marker_at
        if end is None or frame.phase.name != "finished":
            return CLEAR
        shape = shape_of(frame)
        if not shape.held_known:
            return Unknown("memory of the GPUs is not known")
        if not shape.held:
            return CLEAR
        last = max(end, frame.progress.last_progress_at or end, frame.phase.since_at)
        seconds = frame.now - last
        if seconds <= self.config.held_seconds:
            return CLEAR
        differs = who_differs(frame, shape)
        limit = Limit(self.config.held_seconds, "tear-down limit")
        title = f"Finished, but {shape.held} of {shape.held_known} GPUs are still held"
        return firing(
            [
                Finding(
                    signature="teardown_stall",
                    subject=Subject(run=frame.run),
                    severity=Severity.WARNING,
                    summary=summary(frame, seconds, title, differs),
                    family=FAMILY,
                    precision=PRECISION["teardown_stall"],
                    evidence=evidence(frame, shape, seconds, limit, differs),
                    hint=HINT,
                    since_at=last,
                )
            ]
        )


PLUGIN = Plugin("teardown_stall", TeardownStallConfig, TeardownStall, family="stall")
