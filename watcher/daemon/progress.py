"""Log events -> where one run stands: attempt, phase, progress, and the gaps it has shown. Pure.

Progress is the step counter of any watched rank, or a phase's own counter or edge. Lines, heartbeats and bytes are
not. State belongs to an attempt: a new one drops open phases, gaps and errors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

from detectors.frame import Attempt, PastAttempt, Phase, Progress, RunError, StepRecord
from watcher.daemon.bursts import burst_seconds, is_one_lump
from watcher.daemon.gaps import Gaps
from watcher.daemon.pace import PaceKeeper
from watcher.daemon.saves import Saves
from watcher.events import LogEvent

RECORDS = 1024
ERRORS = 200
PAST = 50
ARRIVALS = 64
WARM_UP = 3  # records of an attempt that say nothing about its pace


@dataclass(slots=True)
class RunProgress:
    """`on_working(since, until)`: a stretch between two steps of training, free of other phases."""

    on_working: Callable[[float, float], None] = lambda since, until: None
    attempt: Attempt = field(default_factory=Attempt)
    past: deque[PastAttempt] = field(default_factory=lambda: deque(maxlen=PAST))
    phase: Phase = field(default_factory=lambda: Phase(since_at=0.0))
    gaps: dict[str, Gaps] = field(default_factory=dict)
    durations: dict[str, Gaps] = field(default_factory=dict)
    saves: Saves = field(default_factory=Saves)
    records: deque[StepRecord] = field(default_factory=lambda: deque(maxlen=RECORDS))
    pace: PaceKeeper = field(default_factory=PaceKeeper)
    arrivals: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=ARRIVALS))
    rank_steps: dict[int, int] = field(default_factory=dict)
    source: bool = False
    last_line_at: float | None = None
    last_step: int | None = None
    last_step_at: float | None = None
    first_step: int | None = None
    first_step_at: float | None = None
    last_progress_at: float | None = None
    steps_seen: int = 0
    total_steps: int | None = None
    between: bool = False  # a phase other than training lies since the last record
    stalled: bool = False  # a stall is open: how long it takes is nothing to learn from
    unseen: bool = False  # new steps could not be seen: how long that takes is nothing to learn from either
    implied_end: bool = False  # the end is only implied by the final step, no marker said so
    best_step: int | None = None  # over all attempts

    def line(self, at: float) -> None:
        """Any line at all arrived."""
        if self.last_line_at is None or at > self.last_line_at:
            self.last_line_at = at
        if self.attempt.started_at is None:
            self.begin(at)

    def event(self, at: float, event: LogEvent, node: str | None = None) -> None:
        """One event of a log, in order of arrival; `node`: whose own log it is, where logs are per node."""
        self.line(at)
        self.source = self.source or event.event in ("step", "phase", "progress")
        match event.event:
            case "step" if event.step is not None:
                self._step(at, event, event.step)
            case "phase":
                self._phase(at, event)
            case "progress":
                self._moved(at)
            case "error":
                self._error(at, event, node)
            case _:
                pass

    # -- attempts ------------------------------------------------------------------------------------------------

    def begin(self, at: float) -> None:
        """A new attempt, whatever the present one says."""
        if self.attempt.started_at is not None:
            self.past.append(self._summary(at))
        number = self.attempt.number + (self.attempt.started_at is not None)
        self.attempt = Attempt(number=number, started_at=at)
        self.phase = Phase(name="startup", since_at=at)
        self.gaps.clear()
        for forgotten in (self.records, self.arrivals, self.rank_steps):
            forgotten.clear()
        self.last_step = self.last_step_at = self.first_step = self.first_step_at = None
        self.last_progress_at = None
        self.steps_seen = 0
        self.total_steps = None
        self.between = self.implied_end = False
        self.saves.new_attempt()

    def _summary(self, at: float) -> PastAttempt:
        attempt = self.attempt
        cause = root_cause(attempt.errors)
        if attempt.stopped or attempt.ended_early:
            ends = "stopped"
        elif attempt.end_marker_at is not None:
            ends = "completed"
        else:
            ends = "crashed" if attempt.errors else "unknown"
        ended = max(filter(None, (self.last_progress_at, *(e.at for e in attempt.errors[:1]))), default=at)
        return PastAttempt(
            number=attempt.number,
            started_at=attempt.started_at if attempt.started_at is not None else at,
            ended_at=ended,
            first_step=self.first_step,
            last_step=self.last_step,
            ends=ends,
            nodes=attempt.nodes,
            cause=cause,
        )

    @property
    def over(self) -> bool:
        """Something in this attempt says that it ended; the next launch is a new one."""
        attempt = self.attempt
        return bool(attempt.errors or attempt.stopped or attempt.end_marker_at is not None)

    def new_launch(self, at: float) -> None:
        """A launch is seen (banner, new process set, requeue). Within a start-up it is still the same one."""
        if self.attempt.started_at is None or self.steps_seen or self.over:
            self.begin(at)

    def another_file(self, at: float) -> None:
        """The log's path leads to another file: a rotation while the run goes on, a new launch after its end."""
        if self.over:
            self.begin(at)

    # -- steps ---------------------------------------------------------------------------------------------------

    def _step(self, at: float, event: LogEvent, step: int) -> None:
        if self._is_restart(step, event):
            self.begin(at)
        if event.rank is not None:
            self.rank_steps[event.rank] = max(step, self.rank_steps.get(event.rank, step))
        if event.total_steps is not None:
            self.total_steps = event.total_steps
        self._world(event)
        if self.last_step is not None and step <= self.last_step:
            return  # another rank's or file's line of a step that is known
        self._resume_training(at)
        self.saves.stepped(at, self.last_step, self.attempt.started_at)
        self.arrivals.append((at, step))
        previous, before_at = self.last_step, self.last_progress_at
        self._moved(at)
        if previous is not None and before_at is not None and not self.between:
            self.on_working(before_at, at)
        record = self._record(at, event, step)
        self.records.append(record)
        self.pace.add(record, self.attempt.number, warm=self.steps_seen >= WARM_UP)
        self.between = False
        self.steps_seen += 1
        self.last_step, self.last_step_at = step, at
        self.best_step = step if self.best_step is None else max(self.best_step, step)
        if self.first_step_at is None:
            self.first_step, self.first_step_at = step, at
        if self.total_steps is not None and step >= self.total_steps:
            self._finished(at)
            self.implied_end = True

    def _is_restart(self, step: int, event: LogEvent) -> bool:
        if self.last_step is None:
            return False
        if step >= self.last_step:  # goes on from the last save without a banner
            return self.attempt.end_marker_at is not None and not self.implied_end and step > self.last_step
        if event.rank is not None and step > self.rank_steps.get(event.rank, -1):
            return False  # this rank is only behind
        usual = [b.step - a.step for a, b in pairwise(self.records)]
        stride = max(usual[-8:], default=1)
        return self.over or self.last_step - step > 3 * stride

    def _world(self, event: LogEvent) -> None:
        batch, world = event.batch_size, event.world_size
        if batch is not None and batch != self.attempt.batch_size:
            self.attempt = replace(self.attempt, batch_size=batch)
        if world is not None and world != self.attempt.world_size:
            self.attempt = replace(self.attempt, world_size=world)

    def _record(self, at: float, event: LogEvent, step: int) -> StepRecord:
        step_seconds = event.step_seconds
        if step_seconds is None and event.iterations_per_second:
            step_seconds = 1.0 / event.iterations_per_second
        if step_seconds is None and self.records and not self.between and step > self.records[-1].step:
            step_seconds = (at - self.records[-1].at) / (step - self.records[-1].step)
        return StepRecord(
            at=at,
            step=step,
            loss=event.loss,
            grad_norm=event.grad_norm,
            loss_scale=event.loss_scale,
            step_seconds=step_seconds,
            step_seconds_printed=event.step_seconds is not None or event.iterations_per_second is not None,
            rates=_rates(event),
            skipped_steps=event.skipped_steps,
            nan_steps=event.nan_steps,
            phase_between=self.between,
            world_size=self.attempt.world_size,
            batch_size=self.attempt.batch_size,
        )

    def _moved(self, at: float) -> None:
        """Something moved: note the gap under the phase in which it was waited for."""
        known = self.last_progress_at is not None and not (self.stalled or self.unseen) and self.phase.name != "startup"
        if known and self.last_progress_at is not None and at >= self.last_progress_at:
            self.gaps.setdefault(self.phase.name, Gaps()).add(at - self.last_progress_at)
        if self.last_progress_at is None or at > self.last_progress_at:
            self.last_progress_at = at

    # -- phases --------------------------------------------------------------------------------------------------

    def _phase(self, at: float, event: LogEvent) -> None:
        name, edge = event.phase, event.edge
        if name is None:
            return
        if name == "startup":
            if edge == "start":
                self.new_launch(at)
                self._world(event)
            return
        if name == "finished":
            self._finished(at)
            return
        if name == "checkpoint" and edge == "start":
            self.saves.started(at)
        if edge == "end":
            self._phase_end(at, name)
        elif name == "training":
            self._moved(at)  # an announcement; the first step line makes it true
        elif self.phase.name != name:
            self._moved(at)
            self._close_phase(at)
            self.between = True
            self.phase = Phase(name=name, since_at=at, announced=True, max_seconds=event.max_seconds)
        else:
            self._moved(at)

    def _phase_end(self, at: float, name: str) -> None:
        self.between = self.between or name != "training"
        self._moved(at)
        if self.phase.name == name and self.phase.announced:
            self._close_phase(at)
        elif name == "evaluation" and self.last_step is not None:
            # a result without a start: further data sets may follow, the next step line tells
            self.phase = Phase(name="evaluation", since_at=at)
        if name == "checkpoint":
            self.saves.ended(at, self.last_step, self.attempt.started_at)

    def _close_phase(self, at: float) -> None:
        """The open phase ends; how long an announced one took is kept. Only a step ends a start-up."""
        if self.phase.announced and not self.stalled and self.phase.name in ("evaluation", "checkpoint"):
            self.durations.setdefault(self.phase.name, Gaps()).add(at - self.phase.since_at)
        if self.last_step is None:
            self.phase = Phase(name="startup", since_at=self.attempt.started_at or at)
        elif self.phase.name != "training":
            self.phase = Phase(name="training", since_at=at)

    def _resume_training(self, at: float) -> None:
        """A step line ends any open phase, whatever marker was lost."""
        self._close_phase(at)
        if self.phase.name != "training":
            self.phase = Phase(name="training", since_at=at)
        if self.implied_end:  # the total was not the whole run's
            self.attempt = replace(self.attempt, end_marker_at=None)
            self.implied_end = False

    def _finished(self, at: float) -> None:
        early = self.total_steps is not None and self.last_step is not None and self.last_step < self.total_steps
        self._moved(at)
        self._close_phase(at)
        self.implied_end = False
        if self.attempt.end_marker_at is None:
            self.attempt = replace(self.attempt, end_marker_at=at, ended_early=early)
        self.phase = Phase(name="finished", since_at=at, announced=True)

    # -- errors --------------------------------------------------------------------------------------------------

    def _error(self, at: float, event: LogEvent, node: str | None) -> None:
        kind = event.kind or "other"
        if kind in ("slurm_cancelled", "slurm_time_limit") and not self._killed_by_its_own_error(event):
            stopped = "cancelled" if kind == "slurm_cancelled" else "time_limit"
            self.attempt = replace(self.attempt, stopped=stopped)
        error = RunError(
            at=at,
            kind=kind,
            message=event.message or "",
            rank=event.rank,
            host=event.host,
            node=node,
            cascade=event.cascade,
        )
        if len(self.attempt.errors) < ERRORS:
            self.attempt = replace(self.attempt, errors=(*self.attempt.errors, error))

    def _killed_by_its_own_error(self, event: LogEvent) -> bool:
        """srun ends a whole step when one task of it fails, and words that as a cancellation."""
        return "STEP" in (event.message or "") and any(not error.cascade for error in self.attempt.errors)

    def failed(self, error: RunError) -> None:
        """An end that somebody else tells of than the log."""
        self.attempt = replace(self.attempt, stopped=None)  # the log's own words were about a part of it
        if len(self.attempt.errors) < ERRORS:
            self.attempt = replace(self.attempt, errors=(*self.attempt.errors, error))

    def exited(self, at: float, goes_on: bool) -> None:
        """The launch left with exit code 0 at `at`. `goes_on`: another one waits, so it was not the end of the run."""
        if self.over:
            return
        target = self.total_steps is None or (self.last_step is not None and self.last_step >= self.total_steps)
        self.attempt = replace(self.attempt, end_marker_at=at, ended_early=goes_on or not target)

    # -- what is seen of it --------------------------------------------------------------------------------------

    def progress(self, busy_since_at: float | None = None) -> Progress:
        """`busy_since_at`: since when the GPUs work; before a second lump it tells how late the first one came."""
        bursts = burst_seconds(self.arrivals, self.records)
        if not bursts and busy_since_at is not None and is_one_lump(self.arrivals, self.steps_seen):
            bursts = max(0.0, self.arrivals[0][0] - busy_since_at)
        return Progress(
            source=self.source,
            last_step=self.last_step,
            last_step_at=self.last_step_at,
            first_step_at=self.first_step_at,
            last_progress_at=self.last_progress_at,
            total_steps=self.total_steps,
            steps_seen=self.steps_seen,
            records=tuple(self.records),
            pace=self.pace.view(),
            last_line_at=self.last_line_at,
            burst_seconds=bursts,
            rank_steps=dict(self.rank_steps),
        )


def root_cause(errors: tuple[RunError, ...]) -> RunError | None:
    """The first in time that is no consequence; where all are, the first."""
    ordered = sorted(errors, key=lambda error: error.at)
    return next((error for error in ordered if not error.cascade), ordered[0] if ordered else None)


def _rates(event: LogEvent) -> dict[str, float]:
    """Every rate that the line says, by its unit; the first is the one to show."""
    named = {
        "tokens_per_second": event.tokens_per_second,
        "samples_per_second": event.samples_per_second,
        "tflops_per_gpu": event.tflops_per_gpu,
        event.throughput_unit or "throughput": event.throughput,
        "iterations_per_second": event.iterations_per_second,
    }
    return {unit: value for unit, value in named.items() if value is not None}
