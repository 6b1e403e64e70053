"""An API server on loopback for the official client: kmock holds the objects, this selects and pages as a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import kmock
import yaml

TOKEN = "a-token-of-the-daemon"
PODS = "v1/pods"
JOBSETS = "jobset.x-k8s.io/v1alpha2/jobsets"
PYTORCHJOBS = "kubeflow.org/v1/pytorchjobs"
TRAINJOBS = "trainer.kubeflow.org/v1alpha1/trainjobs"


class ApiServer:
    """`api`: kmock itself. page: most objects of one answer. kubeconfig: the file that leads here."""

    def __init__(self, api: Any, kubeconfig: Path) -> None:
        self.api, self.kubeconfig = api, kubeconfig
        self.page = 500
        self._token = TOKEN
        self.api.override["get"] << self._admit
        self.api[kmock.action.LIST] << self._list
        for resource in (PODS, JOBSETS, PYTORCHJOBS, TRAINJOBS):
            self.serve(resource)

    def serve(self, resource: str) -> None:
        """From now on, as GROUP/VERSION/PLURAL."""
        self.api.resources[resource] = {"namespaced": True}

    def put(self, resource: str, *objects: dict[str, Any], namespace: str = "train") -> None:
        for one in objects:
            self.api.objects[resource, namespace, one["metadata"]["name"]] = one

    def remove(self, resource: str, name: str, namespace: str = "train") -> None:
        del self.api.objects[resource, namespace, name]

    def answers(self, status: int, message: str = "no") -> None:
        """From now on, to everything."""
        body = {"kind": "Status", "status": "Failure", "code": status, "message": message}
        self.api.override["get"] << status << body

    def says(self, body: bytes) -> None:
        """From now on, to everything."""
        self.api.override["get"] << body

    def only(self, token: str) -> None:
        """Any other is no longer valid."""
        self._token = token

    @property
    def asked(self) -> list[str]:
        return [str(request.url.path_qs) for request in self.api]

    def _admit(self, request: Any) -> None:
        if request.headers.get("Authorization") != f"Bearer {self._token}":
            raise kmock.KubernetesError(status=401, reason="Unauthorized", message="Unauthorized")
        raise NotImplementedError  # kmock goes on to the next that may answer

    def _list(self, request: Any) -> dict[str, Any]:
        if request.resource not in self.api.resources or "limit" not in request.params:
            raise NotImplementedError
        found = [
            dict(each.raw)
            for (resource, namespace, _), each in self.api.objects.items()
            if resource == request.resource and namespace == request.namespace
        ]
        if selector := request.params.get("labelSelector"):
            found = [one for one in found if _selected(one, selector)]
        first = int(request.params.get("continue") or 0)
        last = first + min(self.page, int(request.params["limit"]))
        more = {"continue": str(last)} if last < len(found) else {}
        return {"metadata": {"resourceVersion": "1", **more}, "items": found[first:last]}


@asynccontextmanager
async def api_server(folder: Path) -> AsyncIterator[ApiServer]:
    async with kmock.KubernetesEmulator() as api, kmock.Server(api) as server:
        file = folder / "kubeconfig"
        file.write_text(kubeconfig(str(server.url), TOKEN))
        yield ApiServer(api, file)


def kubeconfig(url: str, token: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "training",
            "clusters": [{"name": "training", "cluster": {"server": url}}],
            "users": [{"name": "runwatch", "user": {"token": token}}],
            "contexts": [{"name": "training", "context": {"cluster": "training", "user": "runwatch"}}],
        }
    )


def _selected(one: dict[str, Any], selector: str) -> bool:
    labels = one["metadata"].get("labels") or {}
    return all(
        labels.get(name) == value if "=" in term else name in labels
        for term in selector.split(",")
        for name, _, value in [term.partition("=")]
    )
