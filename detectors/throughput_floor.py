"""The run is slower than the floor that its owner set, for ten minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from detectors.frame import Frame, StepRecord
from detectors.registry import Plugin
from detectors.verdict import CLEAR, Finding, Severity, Subject, Unknown, Verdict, firing

UNITS = ("tokens_per_second", "samples_per_second", "tflops_per_gpu", "iterations_per_second")
SHORT = {
    "tokens": "tokens_per_second",
    "samples": "samples_per_second",
    "tflops": "tflops_per_gpu",
    "steps": "iterations_per_second",
    "steps_per_second": "iterations_per_second",
}
HINT = "Look at what changed at that time: data no longer cached, a slower file system, a GPU that lost its clock."


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputFloorConfig:
    """`floor` in `unit`: tokens, samples, tflops, steps (per second) or the unit as the log names it; default: the
    first of these that the log prints. Without a floor nothing is judged."""

    floor: float | None = None
    unit: str | None = None
    window_seconds: float = 600.0
    records: int = 3


@dataclass(frozen=True, slots=True)
class ThroughputFloor:
    config: ThroughputFloorConfig

    def check(self, frame: Frame) -> Verdict:
        floor = self.config.floor
        if floor is None:
            return CLEAR
        records = frame.progress.records
        unit = self._unit(records)
        if unit is None:
            return Unknown("the log prints no throughput")
        if frame.attempt.stopped or frame.attempt.end_marker_at is not None:
            return CLEAR
        values = self._values(frame, unit)
        if values is None:
            return Unknown("too few records within the window")
        middle = median(values)
        if middle >= floor:
            return CLEAR
        name = unit.replace("_", " ")
        return firing(
            [
                Finding(
                    signature="throughput_floor",
                    subject=Subject(run=frame.run),
                    severity=Severity.WARNING,
                    summary=f"{middle:.4g} {name} over {self.config.window_seconds / 60:.0f} min, floor {floor:g}",
                    evidence={
                        "throughput_median": middle,
                        "unit": unit,
                        "floor": floor,
                        "records_count": len(values),
                        "last_step": frame.progress.last_step,
                    },
                    hint=HINT,
                )
            ]
        )

    def _values(self, frame: Frame, unit: str) -> list[float] | None:
        """Rates over the window. A log of few lines gives its last ones, one of very many its pace by the minute."""
        since, known = frame.now - self.config.window_seconds, []
        for record in frame.progress.records:
            value = rate(record, unit)
            if value is not None:
                known.append((record.at, value))
        if not known or known[-1][0] < since:
            return None
        if known[0][0] > since:
            return _by_pace(frame, unit, since)
        values = [value for at, value in known if at >= since]
        if len(values) < self.config.records:
            values = [value for _, value in known[1:][-self.config.records :]]  # the first one holds the start-up
        return values if len(values) >= self.config.records else None

    def _unit(self, records: Sequence[StepRecord]) -> str | None:
        if self.config.unit is not None:
            return SHORT.get(self.config.unit, self.config.unit)
        known = {unit for record in records[-8:] for unit in record.rates}
        named = next((unit for unit in UNITS if unit in known), None)
        return named or ("iterations_per_second" if any(r.step_seconds for r in records[-8:]) else None)


def _by_pace(frame: Frame, unit: str, since: float) -> list[float] | None:
    """Records that reach back less than the window: what a step does, over the step times of its minutes."""
    pace = frame.progress.pace
    work = [
        value * record.step_seconds
        for record in frame.progress.records
        if record.step_seconds and (value := rate(record, unit)) is not None
    ]
    alike = [
        (at, s) for at, s, world in zip(pace.at, pace.step_seconds, pace.world, strict=True) if world == pace.world[-1]
    ]
    if not work or not alike or alike[0][0] > since:
        return None
    step = median(work)
    return [step / seconds for at, seconds in alike if at >= since and seconds > 0] or None


def rate(record: StepRecord, unit: str) -> float | None:
    value = record.rates.get(unit)
    if value is None and unit == "iterations_per_second" and record.step_seconds:
        return 1.0 / record.step_seconds
    return value


PLUGIN = Plugin("throughput_floor", ThroughputFloorConfig, ThroughputFloor)
