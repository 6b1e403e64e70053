"""A workload and its pods -> jobs: the present launch, and how the one before it ended. Pure.

Kubernetes counts the restarts of each container and of each object apart. To a training they are one thing: when one
rank begins anew, all do. So starts that follow one another closely are one launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from watcher.fleet._api import Job, Place
from watcher.fleet._kubernetes_pods import Exit, Pod
from watcher.fleet._kubernetes_workloads import STEP, Workload

WAVE_SECONDS = 180.0  # between the starts of two ranks of one launch
NAMED = 3  # pods, in one line


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The one that ran last. counted: the restarts that Kubernetes told of by then. before: how it was replaced."""

    uid: str
    restarts: int
    counted: int
    started_at: float
    before: Job | None = None


def jobs_of(workload: Workload, pods: Sequence[Pod], last: Launch | None) -> tuple[list[Job], Launch | None]:
    """The jobs, and what to hand in at the next poll. There is none of a label that no pod carries."""
    ranks = ranks_of([pod for pod in pods if pod.created_at >= workload.created_at])
    live = [pod for pod in ranks if pod.exit is None]
    job = Job(
        id=workload.id,
        state="pending",
        name=workload.name,
        labels={"kind": workload.kind, "namespace": workload.namespace, "name": workload.name},
        places=_places(live or ranks),
        submitted_at=workload.created_at or min((pod.created_at for pod in ranks), default=None),
        log_names={"%x": workload.name},
    )
    launch = _launch(job, workload, ranks, last)
    if launch is not None:
        job = replace(job, restarts=launch.restarts, started_at=launch.started_at)
    exit = _exit(ranks, launch.started_at if launch is not None else None, None)
    present = _present(job, workload, live, exit)
    told = [present] if present is not None else []
    if launch is not None and launch.before is not None:
        told.append(launch.before)
    crashed = exit is not None and exit.state != "cancelled"  # of those that are deleted the object will tell why
    if present is not None and present.state == "pending" and launch is not None and exit is not None and crashed:
        told.append(_ended(job, exit))  # all have ended, none has begun anew
    return told, launch


def ranks_of(pods: Sequence[Pod]) -> list[Pod]:
    """The pods that train: not those that fetch the data before, and of the others those with GPUs where any has."""
    training = [pod for pod in pods if not str(pod.labels.get(STEP, "")).endswith("-initializer")]
    return [pod for pod in training if pod.has_gpus] or training


def _present(job: Job, workload: Workload, live: Sequence[Pod], exit: Exit | None) -> Job | None:
    running = [pod for pod in live if pod.running]
    if workload.ended is not None:
        state, at, said = workload.ended
        if state == "failed" and exit is not None and exit.state not in ("completed", "cancelled"):
            job = _ended(job, exit)
            said = f"{job.reason}; {said}" if said else job.reason
        else:
            job = replace(job, state=state)
        return replace(job, ended_at=at if at is not None else job.ended_at, reason=said, releasing=bool(live))
    if workload.deleted_at is not None:
        return replace(job, state="cancelled", ended_at=workload.deleted_at, reason="deleted", releasing=bool(live))
    if running:
        idle = [pod for pod in live if not pod.running]
        why = f"{len(running)} of {len(live)} pods run; {_waiting(idle)}" if idle else ""
        return replace(job, state="running", ends_by_at=workload.ends_by_at, reason=why)
    if workload.suspended:
        why = "suspended, waits in a queue" if workload.queued else "suspended"
        return replace(job, held=not workload.queued, reason=why)
    if live or workload.uid:
        return replace(job, held=any(pod.stuck for pod in live), reason=_waiting(live))
    return _ended(job, exit) if exit is not None else None


def _launch(job: Job, workload: Workload, ranks: Sequence[Pod], last: Launch | None) -> Launch | None:
    """The same as last, or a new one. Where none is known yet also of pods that are over."""
    counted = workload.restarts + max((pod.restarts for pod in ranks), default=0)
    began = _began([pod for pod in ranks if pod.running] or ([] if last is not None else ranks))
    if began is None:
        return last
    if last is None:
        before = replace(job, restarts=counted - 1)
        exit = _exit(ranks, None, began) if counted else None
        return Launch(
            uid=workload.uid, restarts=counted, counted=counted, started_at=began,
            before=_ended(before, exit) if exit is not None else None,
        )  # fmt: skip
    same_object = workload.uid == last.uid
    if same_object and began <= last.started_at + WAVE_SECONDS and counted <= last.counted:
        return last
    before = replace(job, restarts=last.restarts, started_at=last.started_at)
    exit = _exit(ranks, last.started_at, began + WAVE_SECONDS)
    unclear = exit is None or exit.state == "cancelled"
    if unclear and same_object and workload.restarts and counted > last.counted:
        exit = Exit(at=began, state="failed", text=f"all its pods were made anew ({workload.restarts} times by now)")
    return Launch(
        uid=workload.uid,
        restarts=max(last.restarts + 1, counted),
        counted=counted,
        started_at=began,
        before=_ended(before, exit) if exit is not None else None,
    )


def _began(pods: Sequence[Pod]) -> float | None:
    """When the last wave of starts began."""
    started = sorted((pod.born_at, pod.started_at) for pod in pods if pod.started_at is not None)
    first = 0
    for number in range(1, len(started)):
        if started[number][0] - started[number - 1][0] > WAVE_SECONDS:
            first = number
    return min((at for _, at in started[first:]), default=None)


def _exit(ranks: Sequence[Pod], after_at: float | None, until_at: float | None) -> Exit | None:
    """What ended a launch in that time: the first that went wrong, else one that was deleted, else the last done."""
    exits = [exit for pod in ranks for exit in (pod.exit, pod.last_exit) if exit is not None]
    after = after_at if after_at is not None else float("-inf")
    until = until_at if until_at is not None else float("inf")
    inside = sorted((e for e in exits if e.at is None or after < e.at <= until), key=lambda exit: exit.at or 0.0)
    deleted = [exit for exit in inside if exit.state == "cancelled"]
    bad = [exit for exit in inside if exit.state not in ("completed", "cancelled")]
    return next(iter(bad or deleted or inside[-1:]), None)


def _ended(job: Job, exit: Exit) -> Job:
    """The node of a pod that failed is no culprit by that; one that was lost, or ran out of memory, is."""
    return replace(
        job,
        state=exit.state,
        ended_at=exit.at,
        reason="" if exit.state == "completed" else exit.text,
        failed_node=exit.node if exit.state in ("node_fail", "out_of_memory") else None,
    )


def _waiting(pods: Sequence[Pod]) -> str:
    """What they wait for, each reason with the pods that give it."""
    by_reason: dict[str, list[str]] = {}
    for pod in pods:
        by_reason.setdefault(pod.waits or "starts", []).append(pod.name)
    lines = []
    for reason, names in list(by_reason.items())[:NAMED]:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        lines.append(f"{', '.join(names[:NAMED])}{more}: {reason}")
    return "; ".join(lines)


def _places(pods: Sequence[Pod]) -> tuple[Place, ...]:
    return tuple(Place(node=node) for node in dict.fromkeys(pod.node for pod in pods if pod.node is not None))
