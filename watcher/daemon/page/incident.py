"""One incident as a person reads it: what is wrong, where, since when, what to do, what speaks for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alerts._evidence import evidence_rows
from alerts.incidents import Incident

MAX_GPUS = 64
SNOOZES = {"1800": "30 minutes", "3600": "1 hour", "14400": "4 hours", "28800": "8 hours", "86400": "1 day"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLine:
    """One GPU of the evidence; ratios 0..1, None = not known."""

    node: str
    index: Any
    power_watts: float | None
    power_ratio: float | None
    learnt_ratio: float | None
    utilization_ratio: float | None
    differs: bool


def where(incident: Incident) -> str:
    subject = incident.subject
    gpu = f" gpu {subject.gpu_index}" if subject.gpu_index is not None else ""
    place = f"{subject.node}{gpu}" if subject.node else ""
    return ", ".join(part for part in (incident.run or "", place) if part) or "the watchdog itself"


def title(incident: Incident) -> str:
    """A few words: who, and what is wrong."""
    if (
        incident.family == "stall" and incident.signature.endswith("stall")
    ) or incident.signature == "low_power_deadlock":
        return f"{incident.run or where(incident)} stands still"
    if incident.signature == "crash":
        return f"{incident.run or where(incident)} has crashed"
    return f"{where(incident)}: {incident.signature.replace('_', ' ')}"


def tone(incident: Incident) -> str:
    """Colours it: critical | warning | notice | good | quiet."""
    if incident.state == "resolved":
        return "good"
    if incident.state == "suspect" or incident.shadow:
        return "quiet"
    return {"critical": "critical", "warning": "warning"}.get(incident.severity.label, "notice")


def standing(incident: Incident, now: float) -> str:
    """Who has it."""
    if incident.state == "resolved":
        return "over"
    if incident.state == "suspect":
        return "suspected, nothing sent yet"
    if incident.shadow:
        return "on trial: recorded, never sent"
    if is_snoozed(incident, now):
        return "snoozed"
    return (
        f"acknowledged by {incident.acknowledged_by}" if incident.acknowledged_at is not None else "nobody has it yet"
    )


def is_snoozed(incident: Incident, now: float) -> bool:
    return incident.snoozed_until_at is not None and incident.snoozed_until_at > now


def evidence(incident: Incident) -> list[tuple[str, str]]:
    """The value says its unit: the label need not."""
    return [
        (label.removesuffix(" seconds").removesuffix(" at"), value) for label, value in evidence_rows(incident.evidence)
    ]


def tail(incident: Incident) -> list[str]:
    lines = incident.evidence.get("log_tail")
    return [str(line) for line in lines[-20:]] if isinstance(lines, list | tuple) else []


def gpus(incident: Incident) -> tuple[list[GpuLine], int]:
    """GPUs of the evidence, those that differ first, at most MAX_GPUS; and how many there are."""
    given = incident.evidence.get("gpus")
    rows = [row for row in given if isinstance(row, Mapping)] if isinstance(given, list | tuple) else []
    odd = incident.evidence.get("odd")
    named = " ".join(map(str, _listed(incident.evidence.get("who_differs"))))
    lines = [_gpu(row, odd, named) for row in rows]
    return sorted(lines, key=lambda line: not line.differs)[:MAX_GPUS], len(lines)


def _gpu(row: Mapping[str, Any], odd: object, named: str) -> GpuLine:
    node, index = str(row.get("node", "")), row.get("index", "")
    same = isinstance(odd, Mapping) and odd.get("node") == node and odd.get("gpu_index") in (None, index)
    power, limit, learnt = (_number(row.get(f"{n}_watts")) for n in ("power", "power_limit", "learnt_power"))
    return GpuLine(
        node=node,
        index=index,
        power_watts=power,
        power_ratio=power / limit if power is not None and limit else None,
        learnt_ratio=learnt / limit if learnt is not None and limit else None,
        utilization_ratio=_number(row.get("utilization_ratio")),
        differs=same or f"{node} gpu {index} " in f"{named} ",
    )


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value == value else None
