"""What several sources say of one node in one cycle -> one answer a node. Pure.

An agent tells of logs, host, kernel log and, where it can, GPUs; telemetry tells of GPUs alone. GPUs are taken whole
from one of them: the agent where its readings are live, else telemetry. A silent part is named in `health` and hides
nothing of the other; the node counts as silent only when all that know of it are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from detectors.telemetry import SourceHealth
from watcher.daemon.answer import Answer
from watcher.snapshot import Snapshot, XidLine

AGENT, GPUS, NVML = "agent", "telemetry", "nvml"  # keys of `health`


def merge(told: Iterable[Sequence[Answer]]) -> dict[str, Answer]:
    """node -> its answer. `told`: what each source said; of two that tell of the same part, one that answered wins."""
    parts: dict[str, dict[str, Answer]] = {}
    for answers in told:
        for answer in answers:
            mine = parts.setdefault(answer.node, {})
            if answer.part not in mine or _better(answer, mine[answer.part]):
                mine[answer.part] = answer
    return {node: _of_node(mine.get("agent"), mine.get("gpus")) for node, mine in parts.items()}


def _better(new: Answer, old: Answer) -> bool:
    return new.snapshot is not None and (old.snapshot is None or (bool(new.snapshot.gpus) and not old.snapshot.gpus))


def _of_node(agent: Answer | None, gpus: Answer | None) -> Answer:
    if agent is None or gpus is None:
        only = agent if agent is not None else gpus
        assert only is not None, "a node is here because something was said of it"
        return only if only.part == "agent" else replace(only, part="agent")
    at = max(agent.received_at, gpus.received_at)
    if agent.snapshot is None and gpus.snapshot is None:
        return Answer(agent.node, at, None, f"{agent.error}; {gpus.error}")
    if gpus.snapshot is None:
        assert agent.snapshot is not None
        return replace(agent, received_at=at, snapshot=_without_telemetry(agent.snapshot, gpus.error))
    if agent.snapshot is None:
        lost = SourceHealth(ok=False, error=agent.error, kind="silent")
        health = {**gpus.snapshot.health, AGENT: lost}
        return Answer(agent.node, at, gpus.snapshot.model_copy(update={"health": health}))
    return Answer(agent.node, at, _both(agent.snapshot, gpus.snapshot))


def _without_telemetry(agent: Snapshot, error: str | None) -> Snapshot:
    silent = SourceHealth(ok=False, error=error, kind="silent")
    if _tells_gpus(agent):
        return agent.model_copy(update={"health": {**agent.health, GPUS: silent}})
    return agent.model_copy(update={"health": {**agent.health, NVML: silent, GPUS: silent}})


def _both(agent: Snapshot, gpus: Snapshot) -> Snapshot:
    if _tells_gpus(agent):
        return agent
    events = agent.events if _tells_xids(agent) else (*agent.events, *_xids(gpus))
    return agent.model_copy(
        update={
            "gpus": gpus.gpus,
            "gpus_age_seconds": gpus.gpus_age_seconds,
            "interval_seconds": max(agent.interval_seconds, gpus.interval_seconds),
            "health": {**agent.health, **gpus.health},
            "events": events,
            "rejected": (*agent.rejected, *gpus.rejected),
        }
    )


def _tells_gpus(agent: Snapshot) -> bool:
    """A driver that hangs is the agent's to tell: an exporter beside it hangs in the same driver."""
    health = agent.health.get(NVML)
    if health is not None and health.kind in ("stuck", "crashed"):
        return True
    return bool(agent.gpus) and (health is None or health.ok)


def _tells_xids(agent: Snapshot) -> bool:
    kernel = agent.health.get("kernel_log")
    return kernel is not None and kernel.ok


def _xids(snapshot: Snapshot) -> Iterable[XidLine]:
    return (event for event in snapshot.events if isinstance(event, XidLine))
