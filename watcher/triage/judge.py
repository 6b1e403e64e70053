"""The shape of one look. A single look is never proof: progress is, and the answer says so. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from detectors._shape import (
    BUSY_RATIO,
    CONSUMER,
    LOW_OF_LIMIT,
    LOW_OF_SMALL_LIMIT,
    SMALL_LIMIT_WATTS,
)
from detectors.telemetry import GpuReading

State = Literal["spinning", "working", "idle", "fault", "unknown"]
Shape = Literal["spinning", "working", "idle", "mixed", "fault", "unknown"]
Confidence = Literal["high", "medium", "low"]
IDLE_RATIO = 0.10
MOST = 0.8
NO_MEMORY_TRAFFIC = 0.01  # 89 % of looks at a pure spin, 0.2 % of those at work
CERTAIN = "Certain only with progress: did a step, an evaluation batch or a save move in the last minutes?"


@dataclass(frozen=True, slots=True)
class Judgement:
    shape: Shape
    confidence: Confidence
    states: tuple[State, ...]  # in the order of the GPUs
    odd: tuple[int, ...]  # indices of the GPUs that are not like most
    why: str


def judge(gpus: Sequence[GpuReading]) -> Judgement:
    states = tuple(state_of(gpu) for gpu in gpus)
    count = Counter(states)
    known = len(gpus) - count["unknown"]
    shape, confidence, why = _shape(gpus, states, count, known)
    common = count.most_common(1)[0][0]
    odd = tuple(g.index for g, s in zip(gpus, states, strict=True) if s != common)
    few = odd if 0 < len(odd) <= max(1, len(gpus) // 4) else ()
    return Judgement(shape, confidence, states, few, f"{why} {CERTAIN}")


def state_of(gpu: GpuReading) -> State:
    """One GPU by itself, with the priors that hold before a run has taught anything."""
    if gpu.state != "ok":
        return "fault"
    busy, power, limit = gpu.utilization_ratio, gpu.power_watts, gpu.power_limit_watts
    if busy is None:
        return "unknown"
    if busy < IDLE_RATIO:
        at_work = power is not None and limit is not None and power > 0.5 * limit
        return "working" if at_work else "idle"
    if busy < BUSY_RATIO:
        return "working"
    if power is None or limit is None:
        return "unknown"
    return "spinning" if power < _low_share(gpu, limit) * limit else "working"


def _low_share(gpu: GpuReading, limit: float) -> float:
    if limit <= SMALL_LIMIT_WATTS:
        return LOW_OF_SMALL_LIMIT
    return 0.25 if CONSUMER.search(gpu.name) else LOW_OF_LIMIT


def _shape(
    gpus: Sequence[GpuReading], states: Sequence[State], count: Counter[State], known: int
) -> tuple[Shape, Confidence, str]:
    if count["fault"]:
        names = ", ".join(f"gpu {g.index} ({g.error or g.state})" for g in gpus if g.state != "ok")
        return "fault", "high", f"The driver cannot read {names}."
    if not known:
        return "unknown", "low", "Utilization or power is not shown."
    busy = count["spinning"] + count["working"]
    if count["spinning"] and count["spinning"] >= MOST * busy and 2 * busy >= known:
        return "spinning", _spin_confidence(gpus, states), (
            f"{count['spinning']} of {len(gpus)} GPUs at 100 % and little more than the power of an open context: "
            "they wait for each other, in a hang or for a moment in a save or a start."
        )  # fmt: skip
    if count["idle"] >= MOST * known and not count["spinning"]:
        held = sum((g.memory_used_bytes or 0) > 0.02 * (g.memory_total_bytes or 1 << 60) for g in gpus)
        what = (
            f"memory is held on {held}: a start, a data loader, or a hang of the host side" if held else "nothing runs"
        )
        return "idle", "high" if not held else "medium", f"{count['idle']} of {len(gpus)} GPUs do nothing; {what}."
    if count["working"] >= MOST * known:
        return "working", "high" if count["working"] == known else "medium", "Power is that of work."
    parts = ", ".join(f"{number} {state}" for state, number in count.most_common())
    return "mixed", "medium", f"The GPUs differ: {parts}."


def _spin_confidence(gpus: Sequence[GpuReading], states: Sequence[State]) -> Confidence:
    spinning = [g for g, s in zip(gpus, states, strict=True) if s == "spinning"]
    usual = all((g.power_limit_watts or 0) > SMALL_LIMIT_WATTS and not CONSUMER.search(g.name) for g in spinning)
    still = all(
        g.memory_utilization_ratio is not None and g.memory_utilization_ratio <= NO_MEMORY_TRAFFIC for g in spinning
    )
    if usual and still and len(spinning) > 1:
        return "high"
    return "medium" if usual else "low"
