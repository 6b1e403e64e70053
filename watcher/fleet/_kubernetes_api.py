"""Lists of the API server through the official client: bounded, with a deadline, nothing of it kept.

The objects stay plain JSON: a field that this client does not know, or that is null, must not cost the whole answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from watcher.aside import aside
from watcher.fleet._api import FleetError
from watcher.fleet._kubernetes_json import Json, part, rows, text

PAGE = 500
MAX_OBJECTS = 20_000
MAX_PAGES = 200  # a server may send fewer than it was asked for
MAX_BYTES = 128 << 20  # of one list; a pod is some 10 kB
CHUNK = 1 << 16


class RefusedError(FleetError):
    """It answered, and said no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class KubernetesApi:
    """kubeconfig: None is the account of this pod. Raises FleetError, or what the client raises: see `jobs`."""

    def __init__(self, kubeconfig: Path | None, context: str | None) -> None:
        self._kubeconfig, self._context = kubeconfig, context
        self._client: Any = None
        self._versions: dict[str, str] = {}

    async def objects(self, group: str, namespace: str, plural: str, selector: str | None = None) -> list[Json]:
        """All of one kind in one namespace; group "" is the core."""
        base = f"/apis/{group}/{await self._version(group, plural)}" if group else "/api/v1"
        query = [("limit", str(PAGE))] + ([("labelSelector", selector)] if selector is not None else [])
        found: list[Json] = []
        more: Any = None
        size = 0
        for _ in range(MAX_PAGES):
            page, read = await self._get(
                f"{base}/namespaces/{{namespace}}/{plural}", {"namespace": namespace},
                [*query, ("continue", more)] if more else query, MAX_BYTES - size,
            )  # fmt: skip
            size += read
            if not isinstance(page.get("items"), list):
                raise FleetError(f"the API server's list of {plural} holds no items: is its address right?")
            found += rows(page["items"])
            if len(found) > MAX_OBJECTS:
                raise FleetError(f"more than {MAX_OBJECTS} {plural} in namespace {namespace}: match by narrower labels")
            more = part(page, "metadata").get("continue")
            if not isinstance(more, str) or not more:
                return found
        raise FleetError(f"the API server's list of {plural} in namespace {namespace} does not come to an end")

    async def aclose(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()

    async def _version(self, group: str, plural: str) -> str:
        """The one that the server prefers: those of young kinds change."""
        if group not in self._versions:
            try:
                told, _ = await self._get("/apis/{group}", {"group": group}, [], 1 << 20)
            except RefusedError as error:
                if error.status != 404:
                    raise
                raise FleetError(f"this cluster knows no {plural}.{group}: is its controller installed?") from None
            version = part(told, "preferredVersion").get("version")
            if not isinstance(version, str):
                raise FleetError(f"the API server tells no version of {group}")
            self._versions[group] = version
        return self._versions[group]

    async def _get(
        self, path: str, fills: Mapping[str, str], query: Sequence[tuple[str, str]], max_bytes: int
    ) -> tuple[Json, int]:
        renewed = self._client is None
        status, body = await self._ask(path, fills, query, max_bytes)
        if status == 401 and not renewed:  # tokens run out: those of the file may be newer
            await self.aclose()
            status, body = await self._ask(path, fills, query, max_bytes)
        if status != 200:
            if status in (404, 410):
                self._versions.clear()
            raise _refused(status, path.format(**fills), body)
        try:
            page = await aside(lambda: json.loads(body))
        except (ValueError, RecursionError) as error:
            raise FleetError(f"the API server's answer is no JSON: {error!r}"[:200]) from None
        return (page if isinstance(page, dict) else {}), len(body)

    async def _ask(
        self, path: str, fills: Mapping[str, str], query: Sequence[tuple[str, str]], max_bytes: int
    ) -> tuple[int, bytes]:
        if self._client is None:
            self._client = await _client(self._kubeconfig, self._context)
        asked = await self._client.param_serialize(
            "GET", path, path_params=dict(fills), query_params=list(query),
            header_params={"Accept": "application/json"}, auth_settings=["BearerToken"],
        )  # fmt: skip
        answer = (await self._client.call_api(*asked)).response
        body = bytearray()
        try:
            async for chunk in answer.content.iter_chunked(CHUNK):
                body += chunk
                if len(body) > max_bytes:
                    raise FleetError(f"the API server's list is larger than {MAX_BYTES >> 20} MiB: match more narrowly")
        finally:
            answer.close() if len(body) > max_bytes else answer.release()
        return answer.status, bytes(body)


async def _client(kubeconfig: Path | None, context: str | None) -> Any:
    """Raises FleetError where the client is not installed or its configuration cannot be used."""
    try:
        from kubernetes.aio import client, config
    except ImportError as error:
        raise FleetError(f"needs the Kubernetes client: pip install 'runwatch[kubernetes]' ({error})") from None
    settings = client.Configuration()
    try:
        if kubeconfig is not None:
            await config.load_kube_config(str(kubeconfig), context, settings, persist_config=False)
        else:
            config.load_incluster_config(settings)
    except Exception as error:  # whatever a file of other people's making, or their program for tokens, leads to
        where = (
            f"{kubeconfig}" if kubeconfig is not None else "the account of this pod (set fleet.kubernetes.kubeconfig)"
        )
        raise FleetError(f"{where} cannot be used: {str(error) or repr(error)}"[:300]) from error
    return client.ApiClient(settings)


def _refused(status: int, path: str, body: bytes) -> RefusedError:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        told = {}
    said = text(told.get("message")) if isinstance(told, dict) else ""
    hint = {
        401: ": its token is not valid (any more)",
        403: ": give its account the Role of deploy/kubernetes/fleet-reader",
        410: ": the list changed while it was read",
        429: ": it asks for patience",
    }.get(status, "")
    return RefusedError(status, f"the API server answers {status} to {path}{hint}" + (f" ({said})" if said else ""))
