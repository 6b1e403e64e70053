"""What happened to the machines just before a run stopped: a node fault and the stop it makes are one page."""

from __future__ import annotations

from dataclasses import dataclass

from detectors.frame import Frame

BEFORE_SECONDS = 600.0  # a fault up to this long before the stop, or
AFTER_SECONDS = 300.0  # this long after it, belongs to it
SILENT_POLLS = 3


@dataclass(frozen=True, slots=True)
class Cause:
    """`text` for people; `key` of the incident that says it."""

    text: str
    key: str
    at: float


def causes_of(frame: Frame, stopped_at: float) -> tuple[Cause, ...]:
    """Faults of nodes of the run around the moment of its last progress, the earliest first."""
    first, last = stopped_at - BEFORE_SECONDS, stopped_at + AFTER_SECONDS
    found = []
    for node in frame.nodes:
        for uuid, at in node.lost_at.items():
            index = node.inventory.get(uuid)
            found.append(Cause(f"GPU {index} of {node.name} was lost", f"{node.name}/gpu_lost/{uuid}", at))
        if node.failures_running >= SILENT_POLLS and node.answered_at is not None:
            found.append(Cause(f"{node.name} stopped answering", f"{node.name}/node_unreachable", node.answered_at))
    for strike in frame.strikes:
        if strike.gpu_uuid is not None and strike.kind == "ecc_uncorrectable":
            text = f"GPU {strike.gpu_index} of {strike.node} had an uncorrectable ECC error"
            found.append(Cause(text, f"{strike.node}/ecc_uncorrectable/{strike.gpu_uuid}", strike.at))
    return tuple(sorted((c for c in found if first <= c.at <= last), key=lambda cause: cause.at))
