"""The login: a token for a session cookie. Without a token the door is open; forms are guarded all the same."""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from alerts.secret import Secret, SecretError
from watcher.clock import Clock
from watcher.daemon.page.attempts import Attempts
from watcher.daemon.page.forms import read_form
from watcher.daemon.page.render import Renderer
from watcher.daemon.page.same_site import is_foreign
from watcher.daemon.page.session import (
    SESSION_SECONDS,
    Session,
    cookie_name,
    form_token,
    is_form_token,
    seal,
    signing_key,
    unseal,
)  # fmt: skip
from watcher.tokens import allowed, lines_of

LOGIN, LOGOUT = "/login", "/logout"
FREE = (LOGIN, "/static/", "/docs")  # a runbook holds no secret, and who was paged must be able to read it
POSTS = ("/incidents/", LOGOUT)  # all that a session may change


class Door:
    """`secret`: the daemon's own bytes; kept over a restart, so that nobody has to log in again after one."""

    def __init__(
        self, token: Secret | None, secret: bytes | None, clock: Clock, render: Renderer, public_url: str = ""
    ) -> None:
        self._token, self._clock, self._render, self._public_url = token, clock, render, public_url
        self._secret = secret if secret is not None else secrets.token_bytes(32)
        self._attempts = Attempts()
        self._cookie = cookie_name(self._secret)

    @property
    def is_locked(self) -> bool:
        return self._token is not None

    def routes(self) -> list[Route]:
        return [
            Route(LOGIN, self._login, methods=["GET", "POST"]),
            Route(LOGOUT, self._logout, methods=["POST"]),
        ]

    # -- sessions ------------------------------------------------------------------------------------------------

    def session(self, request: Request) -> Session | None:
        value = request.cookies.get(self._cookie)
        try:
            return None if value is None else unseal(self._key(), value, self._clock.time())
        except SecretError:
            return None

    def session_or_new(self, request: Request) -> tuple[Session, bool]:
        """And whether it is new. A new one only where the door is open: it names the browser for its forms."""
        known = self.session(request)
        if known is None and self.is_locked:
            raise HTTPException(401, "log in first")
        return (known, False) if known is not None else (self._new(), True)

    def form_token(self, session: Session) -> str:
        return form_token(self._key(), session)

    def check_form(self, request: Request, form: dict[str, str]) -> None:
        """Raises HTTPException 403 where the form was not made for this session on this site."""
        session = self.session(request)
        if session is None or is_foreign(request.headers, self._public_url):
            raise HTTPException(403, "this form was not sent from a page of this daemon: open it again and log in")
        if not is_form_token(self._key(), session, form.get("csrf", "")):
            raise HTTPException(403, "this form is out of date: open the page again")

    def give_cookie(self, request: Request, response: Response, session: Session) -> None:
        """Not readable by scripts, not sent along from other sites, only over TLS where it was asked by TLS."""
        response.set_cookie(
            self._cookie, seal(self._key(), session), max_age=int(session.expires_at - self._clock.time()),
            path="/", secure=_by_tls(request), httponly=True, samesite="strict",
        )  # fmt: skip

    # -- the middleware's questions ------------------------------------------------------------------------------

    def opens(self, scope: Any) -> bool:
        """Whether the session cookie lets this in: reading anything, changing only by the page's own forms."""
        path, method = scope["path"], scope["method"]
        if path.startswith(FREE):
            return True
        reads = method in ("GET", "HEAD")
        return (reads or path.startswith(POSTS)) and self.session(Request(scope)) is not None

    def refusal(self, scope: Any) -> Response | None:
        """The way to the login for a person with a browser; None for a program."""
        request = Request(scope)
        ours = scope["method"] == "GET" or scope["path"].startswith(POSTS)
        if not ours or "text/html" not in request.headers.get("accept", ""):
            return None
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(LOGIN if wanted == "/" else f"{LOGIN}?next={quote(wanted, safe='')}", 303)

    # -- pages ---------------------------------------------------------------------------------------------------

    async def _login(self, request: Request) -> Response:
        place = safe_path(request.query_params.get("next", ""))
        if not self.is_locked or self.session(request) is not None:
            return RedirectResponse(place, 303)
        if request.method == "GET":
            return self._form(request, place)
        form = await read_form(request)
        place = safe_path(form.get("next", ""))
        if is_foreign(request.headers, self._public_url):
            return self._form(request, place, "That form came from another site.", 403)
        address = request.client.host if request.client is not None else ""
        now = self._clock.monotonic()
        if wait := self._attempts.wait_seconds(address, now):
            words = f"Too many wrong tokens from {address or 'your address'}: try again in {wait / 60:.0f} minutes."
            refused = self._form(request, place, words, 429)
            refused.headers["Retry-After"] = str(int(wait) + 1)
            return refused
        try:
            right = self._is_token(form.get("token", ""))
        except SecretError as error:
            return self._form(request, place, f"The daemon cannot read its token: {error}.", 503)
        if not right:
            self._attempts.failed(address, now)
            return self._form(request, place, "That is not the token.", 401)
        self._attempts.succeeded(address)
        answer = RedirectResponse(place, 303)
        self.give_cookie(request, answer, self._new())
        return answer

    async def _logout(self, request: Request) -> Response:
        self.check_form(request, await read_form(request))
        answer = RedirectResponse(LOGIN, 303)
        answer.delete_cookie(self._cookie, path="/", httponly=True, samesite="strict", secure=_by_tls(request))
        return answer

    def _form(self, request: Request, place: str, problem: str = "", status: int = 200) -> Response:
        return self._render.page(request, "login.html", {"next": place, "problem": problem}, status=status)

    # -- inside --------------------------------------------------------------------------------------------------

    def _key(self) -> bytes:
        return signing_key(self._secret, self._token.reveal() if self._token is not None else None)

    def _new(self) -> Session:
        return Session(secrets.token_urlsafe(18), int(self._clock.time() + SESSION_SECONDS))

    def _is_token(self, given: str) -> bool:
        assert self._token is not None
        return allowed(given.strip(), lines_of(self._token))


def safe_path(place: str) -> str:
    """A place on this site, whatever a link wanted to lead to."""
    ok = place.startswith("/") and not place.startswith(("//", "/\\", LOGIN)) and place.isprintable()
    return place if ok and len(place) <= 1_000 else "/"


def _by_tls(request: Request) -> bool:
    """Asked by TLS here or at a proxy in front. Believing the proxy's header can only make the cookie stricter."""
    return request.url.scheme == "https" or request.headers.get("x-forwarded-proto", "").lower() == "https"
