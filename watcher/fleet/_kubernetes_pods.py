"""A pod as the API server tells it -> what matters of it to a run. Pure.

Only containers that ask for GPUs are looked at, where any does: a sidecar that restarts or runs on says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from watcher.fleet._api import JobState
from watcher.fleet._kubernetes_json import Json, count, instant, part, rows, text

# a person must do something, or wait for an image server
STUCK = frozenset({
    "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError",
    "CreateContainerError",
})  # fmt: skip
# why a pod was ended from outside: of the condition DisruptionTarget, or of the pod itself
DISRUPTED: dict[str, JobState] = {
    "PreemptionByScheduler": "preempted", "EvictionByEvictionAPI": "preempted", "DeletionByTaintManager": "node_fail",
    "DeletionByPodGC": "node_fail", "Preempting": "preempted", "Preempted": "preempted", "Shutdown": "node_fail",
    "NodeShutdown": "node_fail", "Terminated": "node_fail", "NodeLost": "node_fail", "DeadlineExceeded": "timeout",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a pod, or the last life of its container, ended. `text`: one line for people, with the node."""

    at: float | None
    state: JobState
    text: str
    node: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """`started_at`: of the containers' present life, of the last one where it is over. last_exit: of the life before.

    exit: it is over, or told to go: one on a dead node stays so for ever. waits: why it does not run. stuck: it will
    not run by itself.
    """

    name: str
    labels: Json = field(default_factory=dict)
    node: str | None = None
    created_at: float = 0.0
    has_gpus: bool = False
    running: bool = False
    started_at: float | None = None
    restarts: int = 0
    exit: Exit | None = None
    last_exit: Exit | None = None
    waits: str = ""
    stuck: bool = False

    @property
    def born_at(self) -> float:
        """When its present life began for the job: a pod that is slow to start is no new launch, a restart is one."""
        return self.started_at if self.restarts and self.started_at is not None else self.created_at


def pod_of(raw: Json) -> Pod | None:
    """None: it has no name."""
    meta, spec, status = part(raw, "metadata"), part(raw, "spec"), part(raw, "status")
    name = text(meta.get("name"))
    if not name:
        return None
    with_gpus = {text(one.get("name")) for one in rows(spec.get("containers")) if _asks_for_gpus(one)}
    told = rows(status.get("containerStatuses"))
    lives = [one for one in told if text(one.get("name")) in with_gpus] or told
    deleted_at = _deleted_at(meta)
    over = status.get("phase") in ("Succeeded", "Failed") or deleted_at is not None
    node = text(spec.get("nodeName")) or None
    started = [at for one in lives if (at := _started_at(one)) is not None]
    return Pod(
        name=name,
        labels=part(meta, "labels"),
        node=node,
        created_at=instant(meta.get("creationTimestamp")) or 0.0,
        has_gpus=bool(with_gpus) or bool(rows(spec.get("resourceClaims"))),
        running=not over and bool(lives) and all(part(one, "state", "running") for one in lives),
        started_at=max(started, default=None),
        restarts=max((count(one.get("restartCount")) for one in lives), default=0),
        exit=_exit(name, node, status, lives, deleted_at) if over else None,
        last_exit=_last_exit(name, node, lives, over),
        waits=_waits(status, lives),
        stuck=any(text(part(one, "state", "waiting").get("reason")) in STUCK for one in lives),
    )


def _asks_for_gpus(container: Json) -> bool:
    wanted = {**part(container, "resources", "requests"), **part(container, "resources", "limits")}
    names = [name for name, number in wanted.items() if str(number) != "0"]
    return any(name.endswith("/gpu") or name.startswith(("nvidia.com/gpu", "nvidia.com/mig-")) for name in names)


def _started_at(life: Json) -> float | None:
    running, ended = part(life, "state", "running"), part(life, "state", "terminated")
    return instant(running.get("startedAt")) if running else instant(ended.get("startedAt"))


def _deleted_at(meta: Json) -> float | None:
    """When it was told to go; what stands there is when its time is up."""
    at = instant(meta.get("deletionTimestamp"))
    return at - count(meta.get("deletionGracePeriodSeconds")) if at is not None else None


def _exit(name: str, node: str | None, status: Json, lives: Sequence[Json], deleted_at: float | None) -> Exit:
    """Of a pod that is over."""
    ends = [end for one in lives if (end := part(one, "state", "terminated"))]
    times = [at for end in ends if (at := instant(end.get("finishedAt"))) is not None]
    at = max(times, default=deleted_at)
    if status.get("phase") == "Succeeded":
        return Exit(at=at, state="completed", text=f"pod {name} completed")
    for row in rows(status.get("conditions")):
        if row.get("type") == "DisruptionTarget" and row.get("status") == "True":
            reason, message = text(row.get("reason")), text(row.get("message"))
            at = at if at is not None else instant(row.get("lastTransitionTime"))
            if state := DISRUPTED.get(reason):
                return Exit(at=at, state=state, text=_line(name, node, reason, message), node=node)
    reason, message = text(status.get("reason")), text(status.get("message"))
    if reason:  # Evicted, UnexpectedAdmissionError ...
        return Exit(at=at, state=DISRUPTED.get(reason, "failed"), text=_line(name, node, reason, message), node=node)
    if deleted_at is not None and (at is None or at >= deleted_at):  # its exit code is the signal's
        return Exit(at=deleted_at, state="cancelled", text=_line(name, node, "deleted", ""), node=node)
    bad = [exit for end in ends if (exit := _of_container(name, node, end)).state != "completed"]
    return bad[0] if bad else Exit(at=at, state="failed", text=_line(name, node, "failed", ""), node=node)


def _last_exit(name: str, node: str | None, lives: Sequence[Json], over: bool) -> Exit | None:
    """Of the life before the present one; of a pod that goes on also of one that has ended and is to begin anew."""
    ends = [
        (part(one, "state", "terminated") if not over else None) or part(one, "lastState", "terminated")
        for one in lives
    ]
    exits = [_of_container(name, node, end) for end in ends if end]
    bad = [exit for exit in exits if exit.state != "completed"]
    return next(iter(sorted(bad or exits, key=lambda exit: exit.at or 0.0)), None)


def _of_container(name: str, node: str | None, end: Json) -> Exit:
    at, code, reason = instant(end.get("finishedAt")), end.get("exitCode"), text(end.get("reason"))
    if code == 0:
        return Exit(at=at, state="completed", text=f"pod {name} completed")
    state: JobState = "out_of_memory" if reason == "OOMKilled" else "failed"
    why = f"exit code {count(code)}" + (f" ({reason})" if reason not in ("", "Error") else "")
    return Exit(at=at, state=state, text=_line(name, node, why, text(end.get("message"))), node=node)


def _waits(status: Json, lives: Sequence[Json]) -> str:
    for life in lives:
        if waiting := part(life, "state", "waiting"):
            return ": ".join(filter(None, (text(waiting.get("reason")), text(waiting.get("message")))))
    for row in rows(status.get("conditions")):
        if row.get("type") == "PodScheduled" and row.get("status") == "False":
            return ": ".join(filter(None, (text(row.get("reason")), text(row.get("message")))))
    return text(status.get("reason"))


def _line(name: str, node: str | None, why: str, message: str) -> str:
    where = f" on {node}" if node is not None else ""
    return f"pod {name}{where}: {why}" + (f": {message}" if message else "")
