"""An ASGI application asked as a browser asks: it keeps cookies and says what it accepts. No server."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import unquote, urlencode


@dataclass(frozen=True, slots=True)
class Page:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")

    @property
    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', self.text)
        assert found, "no form on this page"
        return found[1]


@dataclass
class Browser:
    app: Any
    host: str = "127.0.0.1:9877"
    scheme: str = "http"
    address: str = "192.0.2.7"
    headers: dict[str, str] = field(default_factory=lambda: {"accept": "text/html,*/*"})
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **headers: str) -> Page:
        return asyncio.run(self._ask("GET", path, b"", headers))

    def post(self, path: str, fields: dict[str, str] | None = None, **headers: str) -> Page:
        body = urlencode(fields or {}).encode()
        return asyncio.run(
            self._ask("POST", path, body, {"content_type": "application/x-www-form-urlencoded", **headers})
        )

    async def _ask(self, method: str, path: str, body: bytes, more: dict[str, str]) -> Page:
        said: list[dict[str, Any]] = []

        asked = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if asked.is_set():  # the client stays
                await asyncio.Event().wait()
            asked.set()
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            said.append(message)

        headers = {"host": self.host, **self.headers, **{name.replace("_", "-"): value for name, value in more.items()}}
        if self.cookies:
            headers["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        raw, _, query = path.partition("?")
        scope = {
            "type": "http", "method": method, "path": unquote(raw), "raw_path": raw.encode(),
            "query_string": query.encode(), "headers": [(k.encode(), v.encode("latin-1")) for k, v in headers.items()],
            "http_version": "1.1", "scheme": self.scheme, "server": ("h", 80), "client": (self.address, 1),
            "root_path": "",
        }  # fmt: skip
        await self.app(scope, receive, send)
        answer = [(name.decode(), value.decode()) for name, value in said[0]["headers"]]
        for name, value in answer:
            if name == "set-cookie":
                for key, morsel in SimpleCookie(value).items():
                    self.cookies[key] = morsel.value
        data = b"".join(one.get("body", b"") for one in said if one["type"] == "http.response.body")
        return Page(said[0]["status"], answer, data)
