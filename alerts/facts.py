"""What a page says about the run besides the incident itself."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from detectors.frame import Frame
from detectors.telemetry import History

MAX_TAIL_LINES = 20


@dataclass(frozen=True, slots=True)
class GpuBar:
    """The latest reading of one GPU; None = not known."""

    node: str
    index: int
    power_watts: float | None
    power_limit_watts: float | None
    utilization_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """None = not known. `gpu_count` is what the run holds and pays for."""

    run: str
    gpu_count: int = 0
    gpu_hour_price: float | None = None
    currency: str = "USD"
    attempt: int | None = None
    phase: str | None = None
    last_step: int | None = None
    last_step_at: float | None = None
    total_steps: int | None = None
    step_seconds: float | None = None
    last_checkpoint_step: int | None = None
    last_checkpoint_at: float | None = None
    ends_by_at: float | None = None  # of the allocation
    log_tail: tuple[str, ...] = ()
    bars: tuple[GpuBar, ...] = ()
    history: History | None = None
    step_instants: tuple[float, ...] = ()

    @property
    def hourly_cost(self) -> float | None:
        return None if self.gpu_hour_price is None or not self.gpu_count else self.gpu_hour_price * self.gpu_count


def facts_from_frame(frame: Frame) -> RunFacts:
    progress, scheduler = frame.progress, frame.scheduler
    seconds = [record.step_seconds for record in progress.records[-64:] if record.step_seconds is not None]
    return RunFacts(
        run=frame.run,
        gpu_count=len(frame.gpus),
        gpu_hour_price=frame.gpu_hour_price,
        currency=frame.currency,
        attempt=frame.attempt.number,
        phase=frame.phase.name,
        last_step=progress.last_step,
        last_step_at=progress.last_step_at,
        total_steps=progress.total_steps,
        step_seconds=statistics.median(seconds) if seconds else None,
        last_checkpoint_step=frame.last_checkpoint_step,
        last_checkpoint_at=frame.last_checkpoint_at,
        ends_by_at=scheduler.ends_by_at if scheduler is not None else None,
        log_tail=frame.log_tail[-MAX_TAIL_LINES:],
        bars=_bars(frame),
        history=frame.history,
        step_instants=tuple(record.at for record in progress.records),
    )


def _bars(frame: Frame) -> tuple[GpuBar, ...]:
    history = frame.history
    if not len(history):
        return ()
    limits = history.power_limit_watts
    return tuple(
        GpuBar(
            gpu.node,
            gpu.index,
            _known(history.power_watts[-1, column]),
            _known(limits[column]) if len(limits) > column else None,
            _known(history.utilization_ratio[-1, column]),
        )
        for column, gpu in enumerate(history.gpus)
    )


def _known(value: float) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
