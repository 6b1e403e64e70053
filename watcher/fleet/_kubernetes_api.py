"""Lists of the API server through the official client: bounded, with a deadline, nothing of it kept.

The objects stay plain JSON: a field that this client does not know, or that is null, must not cost the whole answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from watcher.aside import aside
from watcher.fleet._api import FleetError
from watcher.fleet._kubernetes_json import Json, part, rows, text

T = TypeVar("T")
PAGE = 500
MAX_OBJECTS = 20_000
MAX_PAGES = 200  # a server may send fewer than it was asked for
MAX_BYTES = 128 << 20  # of one list; a pod is some 10 kB
MAX_PAGE_BYTES = 4 << 20  # of what the server says of itself
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
        self._versions: dict[tuple[str, str], str] = {}

    async def objects(
        self, group: str, namespace: str, plural: str, read: Callable[[Json], T | None], selector: str | None = None
    ) -> list[T]:
        """All of one kind in one namespace, as `read` makes them of their JSON; group "" is the core."""
        base = f"/apis/{group}/{await self._version(group, plural)}" if group else "/api/v1"
        query = [("limit", str(PAGE))] + ([("labelSelector", selector)] if selector is not None else [])
        found: list[T] = []
        more: Any = None
        size = 0
        for _ in range(MAX_PAGES):
            body = await self._get(
                f"{base}/namespaces/{{namespace}}/{plural}", {"namespace": namespace},
                [*query, ("continue", more)] if more else query, MAX_BYTES - size,
            )  # fmt: skip
            size += len(body)
            page, more = await aside(partial(_page, body, plural, read))
            found += page
            if len(found) > MAX_OBJECTS:
                raise FleetError(f"more than {MAX_OBJECTS} {plural} in namespace {namespace}: match by narrower labels")
            if more is None:
                return found
        raise FleetError(f"the API server's list of {plural} in namespace {namespace} does not come to an end")

    async def aclose(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()

    async def _version(self, group: str, plural: str) -> str:
        """The one that the server prefers of those that have the kind: young kinds change, and groups are shared."""
        if (group, plural) not in self._versions:
            try:
                told = _json(await self._get("/apis/{group}", {"group": group}, [], MAX_PAGE_BYTES))
                preferred = part(told, "preferredVersion").get("version")
                others = [row.get("version") for row in rows(told.get("versions"))]
                for version in [one for one in dict.fromkeys([preferred, *others]) if isinstance(one, str)]:
                    fills = {"group": group, "version": version}
                    known = _json(await self._get("/apis/{group}/{version}", fills, [], MAX_PAGE_BYTES))
                    if any(row.get("name") == plural for row in rows(known.get("resources"))):
                        self._versions[group, plural] = version
                        return version
            except RefusedError as error:
                if error.status != 404:
                    raise
            raise FleetError(f"this cluster knows no {plural}.{group}: is its controller installed?")
        return self._versions[group, plural]

    async def _get(
        self, path: str, fills: Mapping[str, str], query: Sequence[tuple[str, str]], max_bytes: int
    ) -> bytes:
        renewed = self._client is None
        status, body = await self._ask(path, fills, query, max_bytes)
        if status == 401 and not renewed:  # tokens run out: those of the file may be newer
            await self.aclose()
            status, body = await self._ask(path, fills, query, max_bytes)
        if status != 200:
            if status == 404:
                self._versions.clear()
            raise _refused(status, path.format(**fills), body)
        return body

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


def _page(body: bytes, plural: str, read: Callable[[Json], T | None]) -> tuple[list[T], str | None]:
    """The objects, and where the next page begins."""
    page = _json(body)
    if not isinstance(page.get("items"), list):
        raise FleetError(f"the API server's list of {plural} holds no items: is its address right?")
    more = part(page, "metadata").get("continue")
    found = [one for row in rows(page["items"]) if (one := read(row)) is not None]
    return found, more if isinstance(more, str) and more else None


def _json(body: bytes) -> Json:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FleetError(f"the API server's answer is no JSON: {error!r}"[:200]) from None
    return told if isinstance(told, dict) else {}


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
        said = text(_json(body).get("message"))
    except FleetError:
        said = ""
    hint = {
        401: ": its token is not valid (any more)",
        403: ": give its account the Role of deploy/kubernetes/fleet-reader",
        410: ": the list changed while it was read",
        429: ": it asks for patience",
    }.get(status, "")
    return RefusedError(status, f"the API server answers {status} to {path}{hint}" + (f" ({said})" if said else ""))
