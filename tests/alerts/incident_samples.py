"""Findings and judgements that the tests of this floor share."""

from __future__ import annotations

from typing import Any

from alerts.incidents import Hysteresis, Incident, Judged, Transition, step
from detectors.verdict import CLEAR, Finding, Severity, Subject, Verdict, firing

T0 = 1_700_000_000.0
RUN = "tr7"


def finding(signature: str = "low_power_deadlock", **changes: Any) -> Finding:
    given: dict[str, Any] = {
        "subject": Subject(run=RUN),
        "severity": Severity.CRITICAL,
        "summary": "no progress for 4 m 00 s, 16 GPUs spin",
        "family": "stall",
        "precision": 30,
    } | changes
    return Finding(signature=signature, **given)


def gpu_finding(node: str = "n3", gpu: str | None = "GPU-3", **changes: Any) -> Finding:
    given: dict[str, Any] = {
        "subject": Subject(run=RUN, node=node, gpu=gpu, gpu_index=3 if gpu else None),
        "severity": Severity.CRITICAL,
        "summary": f"GPU 3 of {node} is gone",
        "family": "gpu_lost",
    } | changes
    return Finding(signature="gpu_lost", **given)


def judged(verdict: Verdict, signature: str = "low_power_deadlock", family: str = "stall", **rest: Any) -> Judged:
    return Judged(**({"signature": signature, "family": family, "run": RUN, "verdict": verdict} | rest))


def fires(*findings: Finding, **rest: Any) -> Judged:
    first = findings[0]
    return judged(firing(findings), first.signature, first.group, **rest)


def clear(signature: str = "low_power_deadlock", family: str = "stall", **rest: Any) -> Judged:
    return judged(CLEAR, signature, family, **rest)


class Life:
    """Feeds evaluations one after the other and keeps what came out."""

    def __init__(self, **policy: Any) -> None:
        self.policy = Hysteresis(**policy)
        self.incidents: dict[str, Incident] = {}
        self.transitions: list[Transition] = []
        self.now = T0

    def at(self, seconds: float, *judged: Judged) -> list[str]:
        self.now = T0 + seconds
        result = step(self.incidents, judged, self.now, self.policy)
        self.incidents = dict(result.incidents)
        self.transitions += result.transitions
        return [transition.event for transition in result.transitions]
