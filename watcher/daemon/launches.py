"""Launches that a scheduler tells of -> attempts of a run. Pure.

A launch is (job, restarts): a requeue keeps the job's number. The log may tell of a new launch before the scheduler
does, or after it; either way it is one attempt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from detectors.frame import RunError, Scheduler
from watcher.daemon.progress import RunProgress
from watcher.fleet._group import Ended

SAME_SECONDS = 5.0  # between the scheduler's clock and what a log tells
STOPPED = {"cancelled": "cancelled", "timeout": "time_limit", "preempted": "preempted"}
KINDS = {"node_fail": "node_fail", "out_of_memory": "oom_host"}
Key = tuple[str, int]


@dataclass(slots=True)
class Launches:
    """`key`: the launch that the present attempt is, once the scheduler has told it, and when that got its nodes.
    `over`: it has ended. `since_at`: when the scheduler first told anything. `unheard`: the end of a launch that came
    and went between two polls; it counts from the next one on, when its log has been read."""

    key: Key | None = None
    started_at: float | None = None
    over: bool = False
    since_at: float | None = None
    unheard: Ended | None = None

    def observe(self, progress: RunProgress, now: float, scheduler: Scheduler, ended: Iterable[Ended]) -> None:
        """What the scheduler says now. `ended`: launches of this run that are over."""
        if self.since_at is None:
            self.since_at = now
        if self.unheard is not None:
            self._end(progress, now, self.unheard, scheduler.state in ("running", "pending"))
            self.unheard = None
        for launch in sorted(ended, key=lambda one: one.started_at or 0.0):
            key = (launch.job_id, launch.restarts)
            if key != self.key and self._is_newer(launch):
                self._begin(progress, key, launch.started_at or now)
                self.unheard, self.over = launch, True
            elif key == self.key and not self.over:
                self._end(progress, now, launch, scheduler.successor_waits or scheduler.state in ("running", "pending"))
        if scheduler.job_id is None:
            return
        key = (scheduler.job_id, scheduler.restarts)
        self.over = self.over or (scheduler.state == "gone" and key == self.key)
        if self.key is not None and key[0] == self.key[0] and key[1] > self.key[1] and not self.over:
            self._requeued(progress, scheduler)
        if scheduler.state == "running" and (key != self.key or self.over):  # a name may be used again
            self._begin(progress, key, scheduler.started_at if scheduler.started_at is not None else now)

    def _is_newer(self, launch: Ended) -> bool:
        after = self.started_at if self.started_at is not None else self.since_at
        return launch.started_at is not None and after is not None and launch.started_at > after

    def _begin(self, progress: RunProgress, key: Key, started_at: float) -> None:
        attempt = progress.attempt
        earlier = attempt.started_at is not None and attempt.started_at < started_at - SAME_SECONDS
        if earlier and (self.key is not None or progress.over):
            progress.begin(started_at)
        self.key, self.started_at, self.over = key, started_at, False

    def _requeued(self, progress: RunProgress, scheduler: Scheduler) -> None:
        """It was given back to the queue; where the log tells no error it was no crash."""
        self.over = True
        begun, again = progress.attempt.started_at, scheduler.started_at
        if begun is None:
            return
        if scheduler.state == "running" and again is not None and begun >= again - SAME_SECONDS:
            return  # it runs again, and the log has told of that already
        if not progress.over:
            progress.attempt = replace(progress.attempt, stopped="requeued")

    def _end(self, progress: RunProgress, now: float, launch: Ended, goes_on: bool) -> None:
        self.over = True
        at = launch.at if launch.at is not None else now
        attempt = progress.attempt
        if attempt.started_at is None:
            progress.begin(at)  # it has come and gone without a line
            attempt = progress.attempt
        if attempt.started_at is not None and attempt.started_at > at + SAME_SECONDS:
            return  # the log has told of the next one already
        if launch.state == "requeued":
            if not progress.over:
                progress.attempt = replace(attempt, stopped="requeued")
        elif launch.state in STOPPED:
            if not attempt.stopped:
                progress.attempt = replace(attempt, stopped=STOPPED[launch.state])
        elif launch.state == "completed":
            progress.exited(at, goes_on)
        else:
            kind = KINDS.get(launch.state, "other")
            progress.failed(RunError(at=at, kind=kind, message=launch.text, node=launch.node, cascade=kind == "other"))

    def dump(self) -> dict[str, Any]:
        return {"key": self.key, "started_at": self.started_at, "over": self.over, "since_at": self.since_at}

    @classmethod
    def load(cls, raw: dict[str, Any]) -> Launches:
        key = raw["key"]
        return cls(None if key is None else (str(key[0]), int(key[1])), raw["started_at"], raw["over"], raw["since_at"])


def no_job(told: Scheduler) -> Scheduler:
    """It answers and lists no job of the run any more: what ran or waited is gone."""
    state = "gone" if told.state in ("running", "pending", "unknown") else told.state
    reason = "no longer listed" if state != told.state else told.reason
    return replace(told, state=state, reason=reason, nodes=(), successor_waits=False, held=False, ends_by_at=None)
