"""The page's addresses: what each shows, and the forms that change something."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from alerts.desk import UnknownIncident
from alerts.secret import Secret
from watcher.daemon.ended import end_by_hand
from watcher.daemon.page import runbook
from watcher.daemon.page.door import Door
from watcher.daemon.page.forms import read_form
from watcher.daemon.page.incident import SNOOZES
from watcher.daemon.page.pictures import Pictures
from watcher.daemon.page.render import Renderer
from watcher.daemon.page.scene import Archive, Scene

if TYPE_CHECKING:
    from watcher.daemon.app import Daemon

__all__ = ["Archive", "Page"]
MAX_NAME = 100
MAX_KEPT = 100
AGAIN_SOON, AGAIN_LATER = 5, 60  # seconds


class Page:
    """`token` None: no login, on loopback only. `archive`: the store, for what is over."""

    def __init__(self, daemon: Daemon, token: Secret | None, archive: Archive | None = None) -> None:
        self._daemon, self._render = daemon, Renderer()
        self._scene = Scene(daemon, archive)
        self._kept: dict[str, str] = {}  # key of a false alarm -> where what was seen is kept
        desk = daemon.desk
        self.door = Door(token, desk.link_key, daemon.clock, self._render, desk.public_url)

    def routes(self) -> list[BaseRoute]:
        pictures = Pictures(self._daemon)
        gzip = [Middleware(GZipMiddleware, minimum_size=1_000)]  # of pictures alone: no secret stands beside them
        return [
            Route("/", self._shown(self._overview)),
            Route("/runs/{name:path}", self._shown(self._run)),
            Route("/incidents", self._shown(self._incidents)),
            Route("/incidents/{key:path}", self._change, methods=["POST"]),
            Route("/incidents/{key:path}", self._shown(self._incident)),
            Route("/nodes", self._shown(self._nodes)),
            Route("/docs", self._runbooks),
            Route("/docs/{name}", self._runbook),
            Mount("/pictures", routes=pictures.routes(), middleware=gzip),
            Mount("/static", StaticFiles(packages=[("watcher.daemon.page", "static")])),
            *self.door.routes(),
        ]

    # -- what is shown -------------------------------------------------------------------------------------------

    def _overview(self, request: Request) -> tuple[str, dict[str, Any]]:
        return "overview.html", self._scene.overview()

    def _run(self, request: Request) -> tuple[str, dict[str, Any]]:
        values = self._scene.run(request.path_params["name"])
        if values is None:
            if self._scene.expects(request.path_params["name"]):
                raise HTTPException(503, "the daemon has just started and has not looked at this run yet")
            raise HTTPException(404, "no run of that name is watched")
        return "run.html", values

    def _incidents(self, request: Request) -> tuple[str, dict[str, Any]]:
        return "incidents.html", self._scene.incidents()

    def _incident(self, request: Request) -> tuple[str, dict[str, Any]]:
        values = self._scene.incident(request.path_params["key"])
        if values is None:
            raise HTTPException(404, "no incident of that key is known")
        return "incident.html", {**values, "kept": self._kept.get(request.path_params["key"], "")}

    def _nodes(self, request: Request) -> tuple[str, dict[str, Any]]:
        return "nodes.html", self._scene.nodes()

    def _shown(self, view: Callable[[Request], tuple[str, dict[str, Any]]]) -> Callable[[Request], Response]:
        """In a thread of its own: the store may be slow, and the loop has agents to ask."""

        def answer(request: Request) -> Response:
            session, is_new = self.door.session_or_new(request)
            values = {"csrf": self.door.form_token(session), "locked": self.door.is_locked, **self._scene.now()}
            try:
                template, more = view(request)
            except HTTPException as error:
                return self._problem(request, error)
            shown = self._render.page(request, template, {**values, **more}, etag=not is_new)
            shown.headers["Runwatch-Now"] = f"{self._daemon.clock.time():.3f}"
            if is_new:
                self.door.give_cookie(request, shown, session)
            return shown

        return answer

    def _runbooks(self, request: Request) -> Response:
        return self._render.page(request, "runbooks.html", {"names": runbook.names()}, etag=True)

    def _runbook(self, request: Request) -> Response:
        """HTML for a browser, the Markdown itself for everybody else."""
        name = request.path_params["name"]
        text = runbook.source(name)
        if text is None:
            return self._problem(request, HTTPException(404, "there is no such runbook"))
        if "text/html" not in request.headers.get("accept", ""):
            return Response(text, media_type="text/markdown; charset=utf-8", headers={"Vary": "Accept"})
        return self._render.page(request, "runbook.html", {"name": name, "body": runbook.html(text)}, etag=True)

    # -- what is changed -----------------------------------------------------------------------------------------

    async def _change(self, request: Request) -> Response:
        try:
            form = await read_form(request)
            self.door.check_form(request, form)
            await run_in_threadpool(self._act, request.path_params["key"], form)
        except UnknownIncident:
            return self._problem(request, HTTPException(409, "that incident is over already: nothing was changed"))
        except HTTPException as error:
            return self._problem(request, error)
        return RedirectResponse(f"/incidents/{quote(request.path_params['key'], safe='')}", 303)

    def _act(self, key: str, form: dict[str, str]) -> None:
        """Raises UnknownIncident, or HTTPException where the form makes no sense."""
        desk, by = self._daemon.desk, form.get("by", "").strip()[:MAX_NAME] or "the page"
        match form.get("action"):
            case "ack":
                desk.acknowledge(key, by)
            case "snooze":
                seconds = form.get("seconds", "")
                if seconds not in SNOOZES:
                    raise HTTPException(400, "choose how long it shall be quiet")
                desk.snooze(key, self._daemon.clock.time() + float(seconds), by)
            case "wake":
                desk.snooze(key, self._daemon.clock.time(), by)
            case "resolve" | "false_alarm" as action:
                why = form.get("why", "").strip()
                self._kept[key] = end_by_hand(self._daemon, key, by, why, action == "false_alarm")[1]
                self._kept = dict(list(self._kept.items())[-MAX_KEPT:])
            case _:
                raise HTTPException(400, "no such action")

    def refused(self, request: Request, error: HTTPException) -> Response | None:
        """For a person who asked for a place that is none, say; None for a program."""
        is_person = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")
        return self._problem(request, error) if is_person else None

    def _problem(self, request: Request, error: HTTPException) -> Response:
        """Where something was only looked at, the page tries again by itself: it may hang on a wall."""
        again = (AGAIN_SOON if error.status_code == 503 else AGAIN_LATER) if request.method == "GET" else None
        values = {"problem": error.detail, "again_seconds": again}
        return self._render.page(request, "problem.html", values, status=error.status_code)
