"""One POST, and what its answer means. URLs may hold secrets: errors name the host at most, and repeat no secret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import requests

from alerts._text import one_line
from alerts.channels._sockets import new_session
from alerts.notification import Outcome, Rejected, Retry, Sent

TIMEOUT_SECONDS = (5.0, 15.0)  # to connect, between bytes; the worker holds the total
MAX_ANSWER_BYTES = 64 << 10
MAX_WAIT_SECONDS = 3600.0
MAX_SAID = 200
RETRY_STATUS = frozenset({408, 423, 425, 429})


def post(
    url: str, body: bytes, headers: Mapping[str, str], now: float, secrets: Sequence[str] = (), any_answer: bool = False
) -> Outcome:
    """2xx = Sent; 408, 423, 425, 429, 5xx and no answer = Retry; everything else = Rejected.

    `secrets` are what was told in confidence: an answer that repeats them is stored without. `any_answer`: a web page
    is no sign that somebody else has answered.
    """
    return outcome(request(url, body, headers, secrets), now, any_answer)


def request(url: str, body: bytes, headers: Mapping[str, str], secrets: Sequence[str] = ()) -> Answer | Outcome:
    """The answer, whatever its status; or Retry or Rejected where there was none."""
    host = host_of(url)
    try:
        with (
            new_session() as session,
            session.post(
                url, data=body, headers=dict(headers), timeout=TIMEOUT_SECONDS, allow_redirects=False, stream=True
            ) as reply,
        ):
            return Answer(reply, host, [*_parts(url), *secrets])
    except requests.exceptions.SSLError:
        return Retry(f"{host}: its TLS certificate is not accepted")
    except requests.Timeout:
        return Retry(f"{host}: no answer in time")
    except requests.ConnectionError:
        return Retry(f"{host}: cannot connect, or it hung up")
    except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, requests.exceptions.MissingSchema):
        return Rejected("the URL is not one: it must begin with https://")
    except (requests.exceptions.InvalidHeader, UnicodeError):
        return Rejected("a header from the config holds characters that a header cannot")
    except (requests.RequestException, OSError) as error:
        return Retry(f"{host}: {type(error).__name__}")


class Answer:
    """Read at once and then closed. `text` is the start of the body without our secrets."""

    def __init__(self, reply: requests.Response, host: str, secrets: Sequence[str]) -> None:
        self.status, self.host = reply.status_code, host
        self.retry_after, self.date = reply.headers.get("Retry-After"), reply.headers.get("Date")
        self.location = host_of(reply.headers.get("Location", ""))
        self.text = _read(reply)
        for secret in secrets:
            self.text = self.text.replace(secret, "<secret>") if secret else self.text

    @property
    def is_page(self) -> bool:
        """A web page, as a proxy's login answers in place of the service."""
        return self.text.lstrip()[:15].lower().startswith(("<!doctype html", "<html"))

    @property
    def said(self) -> str:
        """One short line; an HTML page says nothing worth keeping."""
        line = one_line(self.text, MAX_SAID)
        return "" if line.startswith("<") and not line.startswith("<secret>") else line


def outcome(answer: Answer | Outcome, now: float, any_answer: bool = False) -> Outcome:
    if not isinstance(answer, Answer):
        return answer
    status, said = answer.status, answer.said
    if 200 <= status < 300 and answer.is_page and not any_answer:
        return Retry(f"{answer.host}: HTTP {status} with a web page: a proxy or a login page answers in its place")
    if 200 <= status < 300:
        return Sent()
    if 300 <= status < 400:
        return Rejected(
            f"{answer.host}: HTTP {status}, a redirect to {answer.location}; put the final URL into the config"
        )
    text = f"{answer.host}: HTTP {status}{f': {said}' if said else ''}"
    if status in RETRY_STATUS or status >= 500:
        return Retry(text, wait_seconds(answer.retry_after, now, answer.date))
    return Rejected(text)


def wait_seconds(retry_after: str | None, now: float, date: str | None = None) -> float | None:
    """Seconds or an HTTP date, read against the answer's own Date where it has one; at most an hour."""
    if not retry_after:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        until = _instant(retry_after)
        if until is None:
            return None
        answered = _instant(date or "")
        seconds = until - (answered if answered is not None else now)
    return min(max(0.0, seconds), MAX_WAIT_SECONDS) if seconds == seconds else None


def host_of(url: str) -> str:
    """`host:port`: a path, a query or a user name may be the secret."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port is not None else ""
        return one_line(f"{parts.hostname}{port}", 260) if parts.hostname else "the configured URL"
    except ValueError:
        return "the configured URL"


def _parts(url: str) -> list[str]:
    """The URL and whatever in it may be a token: a webhook's secret is a part of its path."""
    parts = urlsplit(url)
    pieces = [*parts.path.split("/"), parts.query, parts.password or ""]
    return [url, *sorted((piece for piece in pieces if len(piece) >= 12), key=len, reverse=True)]


def _instant(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError):
        return None


def _read(reply: requests.Response) -> str:
    data = b""
    try:
        for chunk in reply.iter_content(8192):
            data += chunk
            if len(data) >= MAX_ANSWER_BYTES:
                break
    except (requests.RequestException, OSError):
        pass  # the status is known; the rest of the body changes nothing
    return data.decode("utf-8", "replace")
