"""What was understood of a log: the one event type that formats produce, agents send and the fold consumes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

Kind = Literal["step", "phase", "progress", "error"]
PhaseName = Literal["startup", "training", "evaluation", "checkpoint", "finished"]
ErrorKind = Literal[
    "oom_gpu", "oom_host", "nccl_timeout", "nccl_error", "cuda_error", "ecc", "xid", "gpu_lost", "segfault",
    "bus_error", "slurm_cancelled", "slurm_time_limit", "node_fail", "disk_full", "filesystem", "dataloader",
    "python_exception", "divergence", "other",
]  # fmt: skip
ERROR_KINDS: tuple[ErrorKind, ...] = ErrorKind.__args__  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """One event of one log. `None` = the line does not say.

    step      a record of the step counter with what stands beside it; rates are what the line says, never converted
    phase     an edge of a phase; phase `startup` start = the log of a new launch begins, `finished` start = the end
              marker of the run
    progress  a counter inside a phase moved (evaluation batch, data set, bar): progress, but no record
    error     one error per rank and place; `cascade` = a consequence (time-out, peer closed, summary, advice), never
              the root cause
    """

    event: Kind
    line: int = 0  # counted as `\n` ends lines, from 1
    format: str | None = None
    rank: int | None = None
    host: str | None = None
    logged_at: float | None = None  # unix seconds, where the line carries a time

    step: int | None = None
    total_steps: int | None = None
    epoch: float | None = None
    step_seconds: float | None = None  # per step, whatever the log interval
    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    iterations_per_second: float | None = None
    tflops_per_gpu: float | None = None
    throughput: float | None = None  # any other rate, with its unit
    throughput_unit: str | None = None
    throughput_scope: Literal["per_device", "global"] | None = None
    loss: float | None = None
    grad_norm: float | None = None
    learning_rate: float | None = None
    loss_scale: float | None = None
    batch_size: int | None = None  # global, in samples
    world_size: int | None = None
    skipped_steps: int | None = None
    nan_steps: int | None = None

    phase: PhaseName | None = None
    edge: Literal["start", "end"] | None = None
    max_seconds: float | None = None  # the user's own limit for this phase
    counter: float | None = None
    counter_total: float | None = None

    kind: ErrorKind | None = None
    message: str | None = None
    cascade: bool = False

    def to_json(self) -> dict[str, Any]:
        """The promised object: unknown fields left out."""
        out: dict[str, Any] = {}
        for name in FIELD_ORDER:
            value = getattr(self, name)
            if value is not None and value is not False:
                out[name] = value
        return out


FIELD_ORDER = ("line", "event", *(f.name for f in fields(LogEvent) if f.name not in ("line", "event")))
