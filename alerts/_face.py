"""What a key stands for on the other side, from its first message to its last.

Some sides know an alert by its labels alone. Whatever becomes of the incident meanwhile (it gets worse, the first of
its group recovers), the end must carry the labels of the beginning, or it ends nothing there. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alerts._incident import Incident
from detectors.verdict import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """None: not one for all that the key stands for."""

    family: str
    severity: Severity
    run: str | None = None
    node: str | None = None
    gpu: str | None = None


def face_of(incidents: Sequence[Incident]) -> Face:
    """Of one incident, or of a group told under one key."""
    return Face(
        family=_common([one.family for one in incidents]) or "several",
        severity=max(one.severity for one in incidents),
        run=_common([one.run for one in incidents]),
        node=_common([one.subject.node for one in incidents]),
        gpu=_common([one.subject.gpu for one in incidents]),
    )


def _common(values: Sequence[str | None]) -> str | None:
    return values[0] if len(set(values)) == 1 else None
