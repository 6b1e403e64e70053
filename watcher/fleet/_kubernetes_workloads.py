"""The objects that start pods: JobSet, Kubeflow's PyTorchJob and TrainJob. What each calls its state. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from watcher.fleet._api import JobState
from watcher.fleet._kubernetes_json import Json, count, instant, part, rows, text

ENDS: dict[str, JobState] = {
    "Completed": "completed", "Complete": "completed", "Succeeded": "completed", "Failed": "failed",
}  # fmt: skip
QUEUE = "kueue.x-k8s.io/queue-name"  # what is suspended begins by itself
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """ended: state, instant, why. restarts: as far as the object itself counts them. kind: the key of `match`."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    created_at: float = 0.0
    ended: tuple[JobState, float | None, str] | None = None
    suspended: bool = False
    queued: bool = False
    deleted_at: float | None = None
    restarts: int = 0
    ends_by_at: float | None = None

    @property
    def id(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Kind:
    """`pod_label`: carried by its pods, the value is the object's name. limit: the end of its time, unix seconds."""

    key: str
    group: str
    plural: str
    pod_label: str
    suspends: Callable[[Json], object]
    limit: Callable[[Json], float | None]


def _no_limit(raw: Json) -> float | None:
    return None


def _pytorchjob_limit(raw: Json) -> float | None:
    return _after(part(raw, "status").get("startTime"), part(raw, "spec", "runPolicy"))


def _trainjob_limit(raw: Json) -> float | None:
    resumed = [row for row in rows(part(raw, "status").get("conditions")) if row.get("type") == "Suspended"]
    began = resumed[0].get("lastTransitionTime") if resumed else part(raw, "metadata").get("creationTimestamp")
    return _after(began, part(raw, "spec"))


def _after(began: object, policy: Json) -> float | None:
    at, seconds = instant(began), count(policy.get("activeDeadlineSeconds"))
    return at + seconds if at is not None and seconds else None


KINDS = (
    Kind(
        "jobset", "jobset.x-k8s.io", "jobsets", "jobset.sigs.k8s.io/jobset-name",
        lambda raw: part(raw, "spec").get("suspend"), _no_limit,
    ),
    Kind(
        "pytorchjob", "kubeflow.org", "pytorchjobs", "training.kubeflow.org/job-name",
        lambda raw: part(raw, "spec", "runPolicy").get("suspend"), _pytorchjob_limit,
    ),
    Kind(  # makes a JobSet of its own name
        "trainjob", "trainer.kubeflow.org", "trainjobs", "jobset.sigs.k8s.io/jobset-name",
        lambda raw: part(raw, "spec").get("suspend"), _trainjob_limit,
    ),
)  # fmt: skip


def workload_of(kind: Kind, namespace: str, raw: Json) -> Workload | None:
    """None: it has no name."""
    meta, status = part(raw, "metadata"), part(raw, "status")
    name = text(meta.get("name"))
    if not name:
        return None
    suspended = kind.suspends(raw) is True
    return Workload(
        kind=kind.key,
        namespace=namespace,
        name=name,
        uid=text(meta.get("uid")),
        created_at=instant(meta.get("creationTimestamp")) or 0.0,
        ended=_ended(status),
        suspended=suspended,
        queued=QUEUE in part(meta, "labels"),
        deleted_at=instant(meta.get("deletionTimestamp")),
        restarts=_restarts(status),
        ends_by_at=None if suspended else kind.limit(raw),
    )


def _ended(status: Json) -> tuple[JobState, float | None, str] | None:
    for row in rows(status.get("conditions")):
        state = ENDS.get(str(row.get("type")))
        if state is not None and row.get("status") == "True":
            reason, message = text(row.get("reason")), text(row.get("message"))
            if reason == "DeadlineExceeded" or "DeadlineExceeded" in message:
                state = "timeout"
            at = instant(status.get("completionTime")) or instant(row.get("lastTransitionTime"))
            return state, at, ": ".join(filter(None, (reason, message)))
    return None


def _restarts(status: Json) -> int:
    """Of a JobSet: as a whole, and of single jobs in it."""
    told = [row.get("jobRestarts") for row in rows(status.get("replicatedJobsStatus"))]
    single = [count(number) for numbers in told if isinstance(numbers, list) for number in numbers]
    return count(status.get("restarts")) + max(single, default=0)
