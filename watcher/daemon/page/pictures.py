"""The numbers behind the pictures, as JSON: bounded, thinned here, made once for all who look."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from detectors.frame import Frame
from watcher.daemon.page.plots import plots
from watcher.daemon.page.strip import strip
from watcher.daemon.views import jsonable

if TYPE_CHECKING:
    from watcher.daemon.app import Daemon

Draw = Callable[[Frame], Any]


class Pictures:
    """Made in a thread, so that a large fleet holds nobody up. A row of history that is written meanwhile may be seen
    half old and half new for one cycle; it is a picture."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._lock = threading.Lock()
        self._made: dict[tuple[str, str], tuple[float, bytes]] = {}

    def routes(self) -> list[Route]:
        return [
            Route("/strip/{name:path}", self._answer("strip", _strip)),
            Route("/plots/{name:path}", self._answer("plots", plots)),
        ]

    def _answer(self, kind: str, draw: Draw) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            frame = self._daemon.frames.get(request.path_params["name"])
            if frame is None:
                raise HTTPException(404, "no run of that name is watched")
            headers = {"ETag": f'"{frame.now:.3f}"', "Cache-Control": "private, no-cache", "Vary": "Cookie"}
            if headers["ETag"] in request.headers.get("if-none-match", ""):
                return Response(status_code=304, headers=headers)
            return Response(self._body(kind, draw, frame), 200, headers, "application/json")

        return answer

    def _body(self, kind: str, draw: Draw, frame: Frame) -> bytes:
        place = (kind, frame.run)
        with self._lock:
            known = self._made.get(place)
            if known is not None and known[0] == frame.now:
                return known[1]
            body = json.dumps(jsonable(draw(frame)), separators=(",", ":")).encode()
            self._made = {key: made for key, made in self._made.items() if key[1] in self._daemon.frames}
            self._made[place] = (frame.now, body)
            return body


def _strip(frame: Frame) -> dict[str, Any]:
    return strip(frame.history, frame.now, frame.interval_seconds, [record.at for record in frame.progress.records])
