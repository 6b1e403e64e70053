"""Whether a browser asks for this very site, or another site asks through it. Pure, and a middleware around it."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

READING = ("GET", "HEAD", "OPTIONS")


def is_foreign(headers: Headers, public_url: str = "") -> bool:
    """True where a browser says that another site made it ask. Programs say nothing and are not meant."""
    fetched_by = headers.get("sec-fetch-site")
    if fetched_by is not None:
        return fetched_by not in ("same-origin", "none")
    origin = headers.get("origin")
    if origin is None:
        return False
    place = urlsplit(origin).netloc.lower()
    return not place or place not in (headers.get("host", "").lower(), urlsplit(public_url).netloc.lower())


def is_known_host(host: str, public_url: str = "") -> bool:
    """A name under which a daemon on loopback is meant. Any other leads here by a trick with the name service."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name == "localhost" or name == urlsplit(public_url).hostname:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class OwnSiteOnly:
    """Guards a daemon without a token: on loopback, every page that a person opens could otherwise talk to it."""

    def __init__(self, app: Any, public_url: str = "", free: tuple[str, ...] = ()) -> None:
        """`free`: starts of paths that need no guard."""
        self._app, self._public_url, self._free = app, public_url, free

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        problem = self._problem(scope) if scope["type"] == "http" else None
        if problem is None:
            await self._app(scope, receive, send)
        else:
            await PlainTextResponse(f"{problem}\n", 403)(scope, receive, send)

    def _problem(self, scope: Any) -> str | None:
        if scope["path"].startswith(self._free):
            return None
        headers = Headers(scope=scope)
        host = headers.get("host")
        if host is not None and not is_known_host(host, self._public_url):
            return f"this daemon is not called {host[:100]!r}: ask for 127.0.0.1, or set daemon.public_url"
        if scope["method"] not in READING and is_foreign(headers, self._public_url):
            return "another site may not change anything here"
        return None
