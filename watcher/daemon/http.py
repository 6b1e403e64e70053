"""The daemon's HTTP: health, metrics, JSON of runs and incidents, runbooks. A token guards all but /healthz."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from alerts.actions import deed_to_json
from alerts.desk import UnknownIncident
from alerts.outbox import JournalError
from alerts.postmortem import postmortem
from alerts.secret import Secret, SecretError
from watcher.daemon.ack_page import PREFIX, ack_routes
from watcher.daemon.ended import end_by_hand
from watcher.daemon.metrics import DaemonMetrics
from watcher.daemon.page.door import Door
from watcher.daemon.page.routes import Archive, Page
from watcher.daemon.page.same_site import OwnSiteOnly
from watcher.daemon.push_endpoint import PATH as PUSH
from watcher.daemon.push_endpoint import push_routes
from watcher.daemon.pushed import Pushed
from watcher.daemon.silences import SilenceError, Silences
from watcher.daemon.views import incident_view, jsonable, run_view
from watcher.tokens import allowed, lines_of

if TYPE_CHECKING:
    from watcher.daemon.app import Daemon

MAX_BODY_BYTES = 64 << 10
DAY_SECONDS = 86_400.0


def build_app(
    daemon: Daemon, token: Secret | None, history: Callable[[], list[Any]], archive: Archive | None = None
) -> Starlette:
    """`history`: incidents of the last weeks, newest first. `archive`: what the page tells of the past."""
    page = Page(daemon, token, archive)
    hushed = daemon.silences
    registry = CollectorRegistry()
    registry.register(DaemonMetrics(daemon))
    ProcessCollector(registry=registry)

    def healthz(request: Request) -> Response:
        live = daemon.health.is_live(daemon.clock.time(), daemon.interval_seconds)
        return PlainTextResponse("ok\n" if live else "not ok\n", status_code=200 if live else 503)

    def metrics(request: Request) -> Response:
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), media_type=kind)

    def runs(request: Request) -> Response:
        incidents = daemon.desk.incidents.values()
        frames = [daemon.frames[name] for name in sorted(daemon.frames)]
        return _json({"runs": [run_view(frame, incidents) for frame in frames], "now": daemon.clock.time()})

    def incidents(request: Request) -> Response:
        wanted = request.query_params.get("state", "live")
        live = [i for i in daemon.desk.incidents.values() if i.state != "resolved"]
        found = live if wanted == "live" else history()
        return _json({"incidents": [incident_view(i) for i in found], "now": daemon.clock.time()})

    def incident(request: Request) -> Response:
        key = request.path_params["key"]
        found = daemon.desk.incidents.get(key) or next((i for i in history() if i.key == key), None)
        if found is None:
            raise HTTPException(404, f"no incident {key!r} is known")
        if "text/markdown" in request.headers.get("accept", ""):
            steps = archive.transitions(key) if archive is not None else []
            told = archive.told_of(found) if archive is not None else []
            text = postmortem(found, steps, told, daemon.clock.time())
            return Response(text, media_type="text/markdown; charset=utf-8")
        return _json(incident_view(found))

    async def change(request: Request) -> Response:
        key, action = request.path_params["key"], request.path_params["action"]
        wanted = await _body(request)
        by = str(wanted.get("by") or "api")[:120]
        desk, now = daemon.desk, daemon.clock.time()
        try:
            if action == "ack":
                changed = await run_in_threadpool(desk.acknowledge, key, by)
            elif action == "snooze":
                seconds = float(wanted.get("seconds") or 3600)
                if not 60 <= seconds <= 30 * DAY_SECONDS:
                    raise HTTPException(400, "seconds must lie between 60 and 2592000")
                changed = await run_in_threadpool(desk.snooze, key, now + seconds, by)
            elif action == "resolve":
                return await run_in_threadpool(_end, daemon, key, by, wanted)
            else:
                raise HTTPException(404, f"no such action: {action}")
        except UnknownIncident as error:
            raise HTTPException(404, str(error)) from None
        except (TypeError, ValueError, OverflowError) as error:
            raise HTTPException(400, str(error)) from None
        return _json(incident_view(changed))

    def silences(request: Request) -> Response:
        return _json({"silences": hushed.all() if hushed is not None else [], "now": daemon.clock.time()})

    async def hush(request: Request) -> Response:
        wanted = await _body(request)
        try:
            name = await run_in_threadpool(_silences(hushed).add, wanted)
        except SilenceError as error:
            raise HTTPException(400, str(error)) from None
        return _json(next(one for one in _silences(hushed).all() if one["name"] == name))

    async def unhush(request: Request) -> Response:
        name = request.path_params["name"]
        if not await run_in_threadpool(_silences(hushed).remove, name):
            raise HTTPException(404, f"no silence {name!r} was asked for; those of the config end there")
        return _json({"removed": name})

    def actions(request: Request) -> Response:
        actor = daemon.actor
        deeds = [deed_to_json(deed) for deed in reversed(actor.deeds)] if actor is not None else []
        refused = actor.refused if actor is not None else {}
        waiting = [{"rule": rule, "key": key, "why": why} for (rule, key), why in refused.items()]
        return _json({"actions": deeds, "not_done": waiting, "now": daemon.clock.time()})

    def suspects(request: Request) -> Response:
        return _json({"strikes": daemon.ledger.dump(), "now": daemon.clock.time()})

    routes = [
        Route("/healthz", healthz),
        Route("/metrics", metrics),
        Route("/api/runs", runs),
        Route("/api/incidents", incidents),
        Route("/api/incidents/{key:path}/do/{action}", change, methods=["POST"]),
        Route("/api/incidents/{key:path}", incident),
        Route("/api/suspects", suspects),
        Route("/api/actions", actions),
        Route("/api/silences", silences),
        Route("/api/silences", hush, methods=["POST"]),
        Route("/api/silences/{name}", unhush, methods=["DELETE"]),
        *ack_routes(daemon.desk),
        *page.routes(),
        *(route for source in daemon.sources if isinstance(source, Pushed) for route in push_routes(source)),
    ]

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        told = JSONResponse({"error": error.detail}, status_code=error.status_code, headers=error.headers)
        return page.refused(request, error) or told

    app = Starlette(routes=routes, exception_handlers={HTTPException: refused, JournalError: _store_failed})
    if token is not None:
        app.add_middleware(BearerToken, token=token, door=page.door)
    else:
        app.add_middleware(OwnSiteOnly, public_url=daemon.desk.public_url, free=("/healthz", PREFIX))
    return app


def _silences(silences: Silences | None) -> Silences:
    if silences is None:
        raise HTTPException(503, "this daemon keeps no silences")
    return silences


def _end(daemon: Daemon, key: str, by: str, wanted: dict[str, Any]) -> Response:
    ended, kept = end_by_hand(daemon, key, by, str(wanted.get("why") or ""), wanted.get("false_alarm") is True)
    return _json({**incident_view(ended), **({"kept": kept} if kept else {})})


class BearerToken:
    """401 for everything but /healthz and signed links where the token is wrong; compared in constant time."""

    def __init__(self, app: Any, token: Secret, door: Door | None = None) -> None:
        """`door` knows who came in by the login."""
        self._app, self._token, self._door = app, token, door

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        if scope["type"] == "http" and not self._free(scope) and not self._allowed(scope["headers"]):
            refusal = self._door.refusal(scope) if self._door is not None else None
            plain = PlainTextResponse("a bearer token is needed\n", 401, {"WWW-Authenticate": "Bearer"})
            await (refusal or plain)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _free(self, scope: Any) -> bool:
        """Health, links with a signature of their own, nodes with a token of theirs, and whoever has logged in."""
        path = scope["path"]
        if path in ("/healthz", PUSH) or path.startswith(PREFIX):
            return True
        return self._door is not None and self._door.opens(scope)

    def _allowed(self, headers: list[tuple[bytes, bytes]]) -> bool:
        given = next((value for name, value in headers if name == b"authorization"), b"")
        scheme, _, token = given.decode("utf-8", "surrogateescape").partition(" ")
        try:
            return scheme.lower() == "bearer" and allowed(token.strip(), lines_of(self._token))
        except SecretError:
            return False


async def _body(request: Request) -> dict[str, Any]:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY_BYTES:
            raise HTTPException(413, "the body is too large")
    try:
        value = json.loads(data) if data else {}
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is not JSON") from None
    if not isinstance(value, dict):
        raise HTTPException(400, "the body must be a JSON object")
    return value


def _json(value: Any) -> Response:
    return JSONResponse(jsonable(value))


async def _store_failed(request: Request, error: Exception) -> Response:
    """What is live is told from memory; only what ended long ago needs the database."""
    return JSONResponse({"error": str(error)}, status_code=503)
