"""Attempt after attempt dies young, or none gets further than one before: starting again does not help."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from detectors._ending import ending_of
from detectors.frame import Frame, PastAttempt
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Finding, Severity, Subject, Unknown, Verdict, firing

FAILED = ("crashed", "unknown")
HINT = "Stop the restarts. Read the first error of each attempt; start once without the nodes that all of them share."


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashLoopConfig:
    """`attempts` failures running that lasted less than `short_seconds`, or made no new best step. The loop is over
    when an attempt outlives `short_seconds` with steps, or makes a new best step."""

    attempts: int = 3
    short_seconds: float = 900.0


@dataclass(frozen=True, slots=True)
class CrashLoop:
    config: CrashLoopConfig

    def check(self, frame: Frame) -> Verdict:
        if frame.attempt.started_at is None:
            return Unknown("no launch of this run has been seen yet")
        if frame.attempt.end_marker_at is not None or frame.attempt.stopped:
            return CLEAR
        best = _best_step(frame.past_attempts)
        if best is not None and frame.progress.last_step is not None and frame.progress.last_step > best:
            return CLEAR
        failed = _failed_running(frame)
        if len(failed) < self.config.attempts:
            return CLEAR
        before = frame.past_attempts[: len(frame.past_attempts) - sum(a in frame.past_attempts for a in failed)]
        short = _tail(failed, self.config.short_seconds)
        if len(short) >= self.config.attempts and not self._outlives(frame):
            what = f"{len(short)} attempts running died within {self.config.short_seconds / 60:.0f} min"
            return firing([self._finding(frame, short, before, what)])
        stuck = failed[-self.config.attempts :]
        reached = _best_step((*before, *failed[: -len(stuck)]))
        if reached is not None and all(a.last_step is None or a.last_step <= reached for a in stuck):
            what = f"{len(stuck)} attempts running made no step beyond {reached}"
            return firing([self._finding(frame, stuck, before, what)])
        return CLEAR

    def _outlives(self, frame: Frame) -> bool:
        """The present attempt makes steps and lives longer than those that died young."""
        started = frame.attempt.started_at
        if started is None or frame.progress.last_step is None or ending_of(frame) is not None:
            return False
        return frame.now - started > self.config.short_seconds

    def _finding(
        self, frame: Frame, failed: Sequence[PastAttempt], before: Sequence[PastAttempt], what: str
    ) -> Finding:
        suspects = _shared_nodes(failed, before)
        kinds = list(dict.fromkeys(a.cause.kind for a in failed if a.cause is not None))
        why = f" ({', '.join(kinds[:3])})" if kinds else ""
        nodes = f"; all of them used {', '.join(suspects[:4])}" if suspects else ""
        return Finding(
            signature="crash_loop",
            subject=Subject(run=frame.run),
            severity=Severity.CRITICAL,
            summary=f"Crash loop: {what}{why}{nodes}",
            evidence={
                "attempts": [a.number for a in failed],
                "lasted_seconds": [round(a.ended_at - a.started_at, 1) for a in failed],
                "last_steps": [a.last_step for a in failed],
                "causes": [f"{a.cause.kind}: {a.cause.message[:160]}" for a in failed if a.cause is not None],
                "suspect_nodes": suspects[:16],
                "slurm_exclude": f"--exclude={','.join(suspects[:16])}" if suspects else None,
            },
            hint=HINT,
            since_at=failed[0].started_at,
        )


def _failed_running(frame: Frame) -> list[PastAttempt]:
    """The failures up to now without one between that ended well; the present attempt counts once it has ended."""
    failed: list[PastAttempt] = []
    for attempt in reversed(frame.past_attempts):
        if attempt.ends not in FAILED:
            break
        failed.append(attempt)
    failed.reverse()
    ending, attempt_now = ending_of(frame), frame.attempt
    if ending is not None and attempt_now.started_at is not None:
        failed.append(
            PastAttempt(
                number=attempt_now.number,
                started_at=attempt_now.started_at,
                ended_at=ending.since_at,
                first_step=None,
                last_step=frame.progress.last_step,
                ends="crashed",
                nodes=attempt_now.nodes,
                cause=ending.cause,
            )
        )
    return failed


def _best_step(attempts: Iterable[PastAttempt]) -> int | None:
    return max((a.last_step for a in attempts if a.last_step is not None), default=None)


def _tail(failed: Sequence[PastAttempt], seconds: float) -> list[PastAttempt]:
    """The newest failures that were all shorter than this."""
    tail: list[PastAttempt] = []
    for attempt in reversed(failed):
        if attempt.ended_at - attempt.started_at >= seconds:
            break
        tail.append(attempt)
    return tail[::-1]


def _shared_nodes(failed: Sequence[PastAttempt], before: Sequence[PastAttempt]) -> list[str]:
    """Nodes of every failed attempt and of no good one. Empty where all attempts have the same nodes anyway."""
    sets = [set(a.nodes) for a in failed if a.nodes]
    if len(sets) < len(failed):
        return []
    good = {node for a in before if a.ends not in FAILED for node in a.nodes}
    shared = set.intersection(*sets) - good
    return sorted(shared) if shared != set.union(*sets) else []


PLUGIN = Plugin("crash_loop", CrashLoopConfig, CrashLoop)
