"""Kubernetes: JobSets, Kubeflow's PyTorchJobs and TrainJobs, or pods by label; one namespace each, asked by lists."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from pydantic import Field, model_validator

from watcher.clock import Clock
from watcher.fleet._api import FleetError, FleetPlugin, FleetSection, Job
from watcher.fleet._kubernetes_api import KubernetesApi
from watcher.fleet._kubernetes_launches import Launch, jobs_of
from watcher.fleet._kubernetes_pods import Pod, pod_of
from watcher.fleet._kubernetes_workloads import KINDS, Kind, Workload, workload_of

FORGOTTEN_SECONDS = 86_400.0  # after its end an object may stay for ever
NAME = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"


class KubernetesSettings(FleetSection):
    """kubeconfig: how to reach the training cluster; without it the account of the daemon's own pod. context: of that
    file, default the current one. timeout_seconds: for all lists of one poll."""

    kubeconfig: Path | None = None
    context: str | None = Field(default=None, min_length=1)
    poll_seconds: float = Field(default=15.0, ge=15, le=3600)
    timeout_seconds: float = Field(default=30.0, ge=1, le=120)

    @model_validator(mode="after")
    def _whose(self) -> KubernetesSettings:
        if self.context is not None and self.kubeconfig is None:
            raise ValueError("context is one of a kubeconfig: give that too")
        return self


class KubernetesMatch(FleetSection):
    """Which objects are the run: the name of one kind, shell-style, or a label selector of pods, as `kubectl -l`."""

    namespace: str = Field(pattern=NAME, max_length=63)
    jobset: str | None = Field(default=None, min_length=1)
    pytorchjob: str | None = Field(default=None, min_length=1)
    trainjob: str | None = Field(default=None, min_length=1)
    pods: str | None = Field(default=None, min_length=1, max_length=1000)

    @model_validator(mode="after")
    def _one(self) -> KubernetesMatch:
        if sum(getattr(self, name) is not None for name in (*(kind.key for kind in KINDS), "pods")) != 1:
            raise ValueError("give one of jobset, pytorchjob, trainjob and pods")
        return self

    def wants(self, kind: str, namespace: str, name: str) -> bool:
        pattern = getattr(self, kind, None)
        same = name == pattern if kind == "pods" else pattern is not None and fnmatchcase(name, pattern)
        return same and namespace == self.namespace


class KubernetesSource:
    def __init__(self, settings: KubernetesSettings, matches: Sequence[KubernetesMatch], clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._matches = list(dict.fromkeys(matches))
        self._api = KubernetesApi(settings.kubeconfig, settings.context)
        self._launches: dict[tuple[str, str], Launch] = {}

    async def jobs(self) -> Sequence[Job]:
        seconds = self._settings.timeout_seconds
        try:
            async with asyncio.timeout(self._clock.real_seconds(seconds)):
                found = await self._found()
        except TimeoutError:
            raise FleetError(f"the API server has not answered within {seconds:g} s") from None
        except FleetError:
            raise
        except Exception as error:  # the client lets those of its HTTP library through
            raise FleetError(f"the API server cannot be asked: {str(error) or repr(error)}"[:300]) from error
        return self._told(found)

    async def aclose(self) -> None:
        await self._api.aclose()

    async def _found(self) -> list[tuple[Workload, list[Pod]]]:
        """What the rules ask for. All of it or an error: half an answer would look like jobs that are gone."""
        found: list[tuple[Workload, list[Pod]]] = []
        for match in self._matches:
            if match.pods is not None:
                pods = await self._pods(match.namespace, match.pods)
                found.append((Workload(kind="pods", namespace=match.namespace, name=match.pods), pods))
        for kind in KINDS:
            of_kind = [match for match in self._matches if getattr(match, kind.key) is not None]
            for namespace in dict.fromkeys(match.namespace for match in of_kind):
                found += await self._workloads(kind, namespace, of_kind)
        return found

    async def _workloads(
        self, kind: Kind, namespace: str, matches: Sequence[KubernetesMatch]
    ) -> list[tuple[Workload, list[Pod]]]:
        listed = await self._api.objects(kind.group, namespace, kind.plural, partial(workload_of, kind, namespace))
        now = self._clock.time()
        wanted = [
            one
            for one in listed
            if any(match.wants(kind.key, namespace, one.name) for match in matches)
            and not (one.ended is not None and one.ended[1] is not None and now - one.ended[1] > FORGOTTEN_SECONDS)
        ]
        by_name: dict[str, list[Pod]] = {}
        if wanted:
            for pod in await self._pods(namespace, kind.pod_label):
                by_name.setdefault(str(pod.labels.get(kind.pod_label)), []).append(pod)
        return [(one, by_name.get(one.name, [])) for one in wanted]

    async def _pods(self, namespace: str, selector: str) -> list[Pod]:
        return await self._api.objects("", namespace, "pods", pod_of, selector)

    def _told(self, found: Sequence[tuple[Workload, list[Pod]]]) -> list[Job]:
        told: list[Job] = []
        launches: dict[tuple[str, str], Launch] = {}
        for workload, pods in found:
            key = (workload.kind, workload.id)
            jobs, launch = jobs_of(workload, pods, self._launches.get(key))
            told += jobs
            if launch is not None:
                launches[key] = launch
        self._launches = launches
        return told


def accepts(match: KubernetesMatch, job: Job) -> bool:
    return match.wants(job.labels.get("kind", ""), job.labels.get("namespace", ""), job.labels.get("name", ""))


PLUGIN = FleetPlugin(
    "kubernetes", KubernetesSettings, KubernetesMatch, KubernetesSource, accepts,
    labels=("name", "namespace", "kind"), needs="kubernetes",
)  # fmt: skip
