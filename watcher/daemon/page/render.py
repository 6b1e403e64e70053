"""Templates to answers: everything escaped, a strict content security policy, an ETag for those who ask again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from alerts._duration import instant, spoken
from alerts._text import clean

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Cache-Control": "private, no-cache",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=()",
    "Referrer-Policy": "same-origin",  # stricter would hide from us that a form is our own
    "Vary": "Accept, Cookie",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Renderer:
    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("watcher.daemon.page"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_shown,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            spoken=spoken, at=moment, ago=ago, log=clean, segment=lambda text: quote(str(text), safe=""), n=grouped,
        )  # fmt: skip

    def page(
        self, request: Request, template: str, values: Mapping[str, Any], *, status: int = 200, etag: bool = False
    ) -> Response:
        """`etag`: 304 where the browser has this very page already. `values` must then not change by time alone."""
        body = (
            self._environment.get_template(template).render(path=request.url.path, **values).encode("utf-8", "replace")
        )
        headers = dict(HEADERS)
        if etag:
            headers["ETag"] = mark = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
            if mark in request.headers.get("if-none-match", ""):
                return Response(status_code=304, headers=headers)
        return Response(body, status, headers, "text/html; charset=utf-8")


def _shown(value: Any) -> Any:
    """Whatever a template puts in: no control characters, nothing that reorders text, no end of it. Then escaped."""
    return clean(value) if type(value) is str else value


def moment(at: float | None) -> str | Markup:
    """An instant; scripts show it in the reader's own time zone."""
    if at is None:
        return "not known"
    return Markup('<time data-at="{:.3f}" datetime="{}">{}</time>').format(at, _iso(at), instant(at))


def ago(at: float | None, now: float) -> str | Markup:
    """How long ago, or how long until; scripts let it tick."""
    if at is None:
        return "not known"
    return Markup('<time data-ago="{:.3f}" datetime="{}">{}</time>').format(at, _iso(at), spoken(abs(now - at)))


def _iso(at: float) -> str:
    return instant(at).removesuffix(" UTC").replace(" ", "T") + "Z"


def grouped(number: float) -> str:
    """`12,345`, `0.31`, `2.5e-05`: as few digits as say something."""
    if number == int(number) and abs(number) < 1e15:
        return f"{int(number):,}"
    return f"{number:,.1f}" if 100 <= abs(number) < 1e15 else f"{number:.4g}"
