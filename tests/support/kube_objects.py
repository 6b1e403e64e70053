"""Objects of a Kubernetes cluster as its API server sends them, as short as the readers need them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

START = 1_700_000_000.0
Json = dict[str, Any]


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(at: float) -> Json:
    return {"running": {"startedAt": stamp(at)}}


def waiting(reason: str, message: str = "") -> Json:
    return {"waiting": {"reason": reason, "message": message}}


def ended(at: float, code: int = 1, reason: str = "Error", began: float = START) -> Json:
    end = {"exitCode": code, "reason": reason, "finishedAt": stamp(at), "startedAt": stamp(began)}
    return {"terminated": end}


def pod(
    name: str, node: str | None = "n1", state: Json | None = None, *, phase: str = "Running", created: float = START,
    restarts: int = 0, last: Json | None = None, labels: Json | None = None, gpus: int = 8, status: Json | None = None,
    deleted: float | None = None,
) -> Json:  # fmt: skip
    """A pod whose container `trainer` is in that state; a sidecar without GPUs runs beside it.

    deleted: since when it has 30 s to go.
    """
    going = {} if deleted is None else {"deletionTimestamp": stamp(deleted + 30), "deletionGracePeriodSeconds": 30}
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    trainer = {
        "name": "trainer", "state": state or running(created + 5), "restartCount": restarts, "lastState": last or {},
    }  # fmt: skip
    sidecar = {"name": "sidecar", "state": running(created), "restartCount": 7, "lastState": {}}
    return {
        "metadata": {"name": name, "creationTimestamp": stamp(created), "labels": labels or {}} | going,
        "spec": {
            "nodeName": node,
            "containers": [{"name": "sidecar", "resources": {}}, {"name": "trainer", "resources": resources}],
        },
        "status": {"phase": phase, "containerStatuses": [sidecar, trainer]} | (status or {}),
    }


def unscheduled(name: str, message: str, *, created: float = START, labels: Json | None = None) -> Json:
    """One that has no node yet."""
    why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    told = {"containerStatuses": None, "conditions": [why]}
    return pod(name, None, phase="Pending", created=created, labels=labels, status=told)


def workload(
    name: str, *conditions: tuple[str, float, str], created: float = START, uid: str = "u1", spec: Json | None = None,
    status: Json | None = None, meta: Json | None = None,
) -> Json:  # fmt: skip
    """A JobSet, PyTorchJob or TrainJob with these conditions: type, since when, reason."""
    told = [
        {"type": kind, "status": "True", "lastTransitionTime": stamp(at), "reason": reason, "message": ""}
        for kind, at, reason in conditions
    ]
    return {
        "metadata": {"name": name, "uid": uid, "creationTimestamp": stamp(created)} | (meta or {}),
        "spec": spec or {},
        "status": {"conditions": told} | (status or {}),
    }
