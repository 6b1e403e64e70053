"""The run has died: an error and processes gone, or all processes gone without a word."""

from __future__ import annotations

from dataclasses import dataclass

from detectors._cause import causes_of
from detectors._ending import Ending, ending_of
from detectors._shape import shape_of
from detectors._stall import cost, duration
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Finding, Severity, Subject, Unknown, Verdict, firing

HINT = "Read the cause first, not the last error. A node named here twice should be left out of the next launch."


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashConfig:
    """`restart_hold_seconds`: a restart that begins within this is not paged. 0: every crash is paged at once, also
    one after which a new attempt has begun, until that makes a step."""

    restart_hold_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Crash:
    config: CrashConfig

    def check(self, frame: Frame) -> Verdict:
        attempt = frame.attempt
        if attempt.started_at is None:
            return Unknown("no launch of this run has been seen yet")
        if attempt.stopped or attempt.end_marker_at is not None:
            return CLEAR
        ending = ending_of(frame) or (_ended_before(frame) if not self.config.restart_hold_seconds else None)
        if ending is None:
            if frame.progress.first_step_at is None:
                return Unknown(f"attempt {attempt.number} has not made a step yet")
            return CLEAR
        return firing([self._finding(frame, ending)])

    def _finding(self, frame: Frame, ending: Ending) -> Finding:
        seconds = frame.now - ending.since_at
        cause, last = ending.cause, frame.progress.last_step
        where = "" if last is None else f" after step {last}"
        if cause is None:
            what = "all processes have let go of their GPUs and no error was read"
        else:
            at = ", ".join(
                part
                for part in (
                    f"node {cause.node or cause.host}" if cause.node or cause.host else "",
                    f"rank {cause.rank}" if cause.rank is not None else "",
                )
                if part
            )
            what = f"{cause.kind}{f' on {at}' if at else ''}: {cause.message[:160]}"
        gone = (
            f"processes gone from {', '.join(ending.dark_nodes[:3])}"
            if ending.dark_nodes and not ending.all_gone
            else "processes gone" if ending.gone else "processes not known"
        )  # fmt: skip
        evidence = {
            "attempt": frame.attempt.number,
            "cause": None if cause is None else {"kind": cause.kind, "message": cause.message[:500]},
            "cause_node": None if cause is None else cause.node or cause.host,
            "cause_rank": None if cause is None else cause.rank,
            "last_step": last,
            "total_steps": frame.progress.total_steps,
            "last_progress_at": frame.progress.last_progress_at,
            "ended_seconds_ago": round(seconds, 1),
            "errors_count": len(ending.errors),
            "gpus_released": ending.gone,
            "dark_nodes": list(ending.dark_nodes[:8]),
            "log_tail": list(frame.log_tail),
            **cost(frame, seconds, shape_of(frame).gpus),
        }
        causes = causes_of(frame, frame.progress.last_progress_at or ending.since_at)
        began = f"; it began when {causes[0].text}" if causes else ""
        return Finding(
            signature="crash",
            subject=Subject(run=frame.run),
            severity=Severity.CRITICAL,
            summary=f"Crashed{where}, {duration(seconds)} ago; {what}; {gone}{began}",
            explained_by=tuple([cause.key for cause in causes[:4]] + _struck_again(ending)),
            stage="open" if seconds >= self.config.restart_hold_seconds else "suspect",
            evidence={key: value for key, value in evidence.items() if value not in (None, [])},
            hint=HINT,
            since_at=ending.since_at,
        )


def _ended_before(frame: Frame) -> Ending | None:
    """The attempt before this one crashed, and this one has not made a step."""
    past = frame.past_attempts[-1] if frame.past_attempts else None
    if past is None or past.ends != "crashed" or past.cause is None or frame.progress.first_step_at is not None:
        return None
    return Ending((past.cause,), past.cause, 0, (), False, past.cause.at)


def _struck_again(ending: Ending) -> list[str]:
    """A node that ends one attempt after the other says this already, with what to do."""
    cause = ending.cause
    return [] if cause is None or cause.node is None else [f"{cause.node}/repeated_ecc"]


PLUGIN = Plugin("crash", CrashConfig, Crash)
