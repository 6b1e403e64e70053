"""What a detector sees: everything known of one run at `now`, read-only. Instants are the daemon's unix seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from detectors.telemetry import GpuReading, GpuRef, History, NodeView, empty_history

__all__ = [
    "Attempt", "Frame", "GapStats", "GpuReading", "GpuRef", "Learnt", "LogSource", "NodeView", "Pace", "PastAttempt",
    "Phase", "PowerBand", "Progress", "RunError", "Scheduler", "StepRecord", "Strike", "World",
]  # fmt: skip

World = tuple[int, int | None, int | None]  # attempt, world size, batch size: what a pace belongs to
ENDED_STATES = frozenset({"completed", "cancelled", "timeout", "failed", "node_fail", "preempted", "out_of_memory"})
PhaseName = Literal["startup", "training", "evaluation", "checkpoint", "finished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Where the run stands. `announced`: a marker said so (else it is what the last step line implies)."""

    name: PhaseName = "startup"
    since_at: float
    announced: bool = False
    max_seconds: float | None = None  # the user's own limit


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One record of the step counter; `at` = when its line was written, as well as that is known."""

    at: float
    step: int
    loss: float | None = None  # NaN and infinities are kept
    grad_norm: float | None = None
    loss_scale: float | None = None
    step_seconds: float | None = None  # as printed, else derived from the record before
    step_seconds_printed: bool = False  # else derived from arrivals, which a buffer may bend
    rates: Mapping[str, float] = field(default_factory=dict)  # unit -> what the line says
    skipped_steps: int | None = None
    nan_steps: int | None = None
    phase_between: bool = False  # an evaluation, save or pause lies between this record and the one before
    world_size: int | None = None
    batch_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Step times over hours, one point a minute at most: the median of the records in it. Equal lengths, oldest first.

    Records next to an evaluation or a save, and the first ones of an attempt, are left out.
    """

    at: tuple[float, ...] = ()
    step_seconds: tuple[float, ...] = ()
    records: tuple[int, ...] = ()  # in each point
    world: tuple[World, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The step counter of this attempt. A heartbeat, log growth or 100 % utilization is not progress."""

    source: bool = False  # a step or phase counter has ever been read for this run
    last_step: int | None = None
    last_step_at: float | None = None
    first_step_at: float | None = None
    last_progress_at: float | None = None  # step or a phase's own counter or edge
    total_steps: int | None = None
    steps_seen: int = 0
    records: tuple[StepRecord, ...] = ()  # of this attempt, oldest first, bounded
    pace: Pace = field(default_factory=Pace)  # over all attempts
    last_line_at: float | None = None  # any line at all
    burst_seconds: float = 0.0  # lines arrive in lumps this far apart (a buffer, a forwarding launcher); 0 = they don't
    rank_steps: Mapping[int, int] = field(default_factory=dict)  # last step per rank, where ranks print
    hidden: str | None = None  # why new steps could not be seen now; their absence then says nothing

    @property
    def bursty(self) -> bool:
        return self.burst_seconds > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GapStats:
    """Gaps between progress events, or whole lengths of a phase, as this run has shown them."""

    longest_seconds: float
    median_seconds: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerBand:
    """Working power per GPU, learnt only while steps advance. Order of the tuples = history columns."""

    median_watts: tuple[float, ...]
    spread_watts: tuple[float, ...]  # 1.48 MAD over time
    run_median_watts: float
    run_spread_watts: float
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """What this run has shown of itself (attempt, world size and batch size alike)."""

    gaps: Mapping[str, GapStats] = field(default_factory=dict)  # phase -> between progress events
    durations: Mapping[str, GapStats] = field(default_factory=dict)  # phase -> start to end
    power: PowerBand | None = None
    spin_while_stepping_seconds: float = 0.0  # longest low-power stretch seen while steps went on
    save_interval: GapStats | None = None  # between completed checkpoints
    saves_implied: bool = False  # the log tells no end of a save; the step after its start stands for it
    save_length: GapStats | None = None  # from start to end, where the log tells both
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunError:
    """An error line of this attempt. `cascade` = a consequence, never the cause."""

    at: float
    kind: str
    message: str
    rank: int | None = None
    host: str | None = None
    node: str | None = None  # the run's node it is tied to, where that is known
    cascade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One launch of the run."""

    number: int = 1
    started_at: float | None = None  # None: no launch of this run has been seen yet
    nodes: tuple[str, ...] = ()
    world_size: int | None = None
    batch_size: int | None = None
    announced_restart_at: float | None = None  # the launcher said it starts again
    stopped: str | None = None  # cancelled | time_limit | preempted | requeued: ended on purpose
    end_marker_at: float | None = None  # end-of-run marker or final step
    ended_early: bool = False  # the end marker came before the target: an exit on purpose, not a completion
    errors: tuple[RunError, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAttempt:
    number: int
    started_at: float
    ended_at: float
    first_step: int | None
    last_step: int | None
    ends: str  # completed | crashed | stopped | unknown
    nodes: tuple[str, ...] = ()
    cause: RunError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSource:
    path: str
    node: str | None = None
    format: str | None = None
    steps: int = 0
    lines: int = 0
    last_line_at: float | None = None
    error: str | None = None
    hidden: bool = False  # whoever reads it cannot look: silence says nothing about the run


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """What the scheduler says; the whole object is None where there is no such source.

    state: running | pending | completed | cancelled | timeout | failed | node_fail | preempted | out_of_memory of the
    job that runs, else of the next that waits, else of the last; gone: the job is no longer listed, how it ended is
    not known; none: no job of this run was ever listed; unknown: the scheduler does not answer.
    """

    state: str
    job_id: str | None = None
    restarts: int = 0
    ends_by_at: float | None = None
    successor_waits: bool = False
    nodes: tuple[str, ...] = ()
    started_at: float | None = None  # when the job got its nodes
    ended_at: float | None = None
    held: bool = False  # what waits will not start by itself
    reason: str = ""  # in the scheduler's own words
    note: str = ""  # what a person should know of how the job was chosen

    @property
    def over(self) -> bool:
        """The last job has ended, and none waits that would start by itself."""
        return self.state in ENDED_STATES or self.state == "gone"

    @property
    def has_left(self) -> bool:
        """No job of the run has nodes now."""
        return self.over or self.state == "pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One hardware event in the ledger of a node; outlives attempts, jobs, reboots and the daemon."""

    at: float
    node: str
    kind: str  # ecc_uncorrectable | remap_failed | xid_48 | ... | ecc_text | crash_start
    gpu_uuid: str | None = None
    gpu_index: int | None = None
    serial: str | None = None
    pci_bus_id: str | None = None
    run: str | None = None
    detail: str = ""
    counted: bool = True
    attempt: int | None = None  # of `run`, where it is sure


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One run at `now`."""

    now: float
    run: str
    interval_seconds: float = 10.0  # of polls
    attempt: Attempt
    past_attempts: tuple[PastAttempt, ...] = ()
    phase: Phase
    progress: Progress = field(default_factory=Progress)
    learnt: Learnt = field(default_factory=Learnt)
    nodes: tuple[NodeView, ...] = ()
    history: History = field(default_factory=empty_history)
    log_sources: tuple[LogSource, ...] = ()
    log_tail: tuple[str, ...] = ()
    strikes: tuple[Strike, ...] = ()
    scheduler: Scheduler | None = None
    last_checkpoint_at: float | None = None
    last_checkpoint_step: int | None = None
    save_started_at: float | None = None  # one began then and has not been completed
    gpu_hour_price: float | None = None
    currency: str = "USD"
    expected_start_at: float | None = None

    @property
    def gpus(self) -> tuple[GpuRef, ...]:
        return tuple(self.history.gpus)
