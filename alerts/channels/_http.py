"""One POST, and what its answer means. URLs may hold secrets: they never stand in an error."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import requests

from alerts.notification import Outcome, Rejected, Retry, Sent

TIMEOUT_SECONDS = (5.0, 15.0)  # to connect, between bytes; the worker holds the total
MAX_ANSWER_BYTES = 64 << 10
MAX_WAIT_SECONDS = 3600.0
RETRY_STATUS = frozenset({408, 423, 425, 429})


def post(url: str, body: bytes, headers: Mapping[str, str], now: float) -> Outcome:
    """2xx = Sent; 408, 423, 425, 429, 5xx and no answer = Retry; everything else = Rejected."""
    try:
        with requests.post(
            url, data=body, headers=dict(headers), timeout=TIMEOUT_SECONDS, allow_redirects=False, stream=True
        ) as reply:
            said = _said(reply)
            return outcome(reply.status_code, said, reply.headers.get("Retry-After"), now)
    except requests.Timeout:
        return Retry("no answer in time")
    except requests.exceptions.SSLError:
        return Retry("the TLS certificate of the other side is not accepted")
    except requests.ConnectionError:
        return Retry("cannot connect")
    except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, requests.exceptions.MissingSchema):
        return Rejected("the URL is not one: it must begin with https://")
    except requests.RequestException as error:
        return Retry(type(error).__name__)


def outcome(status: int, said: str, retry_after: str | None, now: float) -> Outcome:
    if 200 <= status < 300:
        return Sent(said[:200])
    text = f"HTTP {status}{f': {said}' if said else ''}"[:300]
    if status in RETRY_STATUS or status >= 500:
        return Retry(text, wait_seconds(retry_after, now))
    return Rejected(text)


def wait_seconds(retry_after: str | None, now: float) -> float | None:
    """Seconds or an HTTP date; nothing that is longer than an hour or makes no sense."""
    if not retry_after:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(retry_after).timestamp() - now
        except (TypeError, ValueError):
            return None
    return min(max(0.0, seconds), MAX_WAIT_SECONDS) if seconds == seconds else None


def _said(reply: requests.Response) -> str:
    """The start of the answer in one line; an HTML page says nothing worth keeping."""
    data = b""
    for chunk in reply.iter_content(8192):
        data += chunk
        if len(data) >= MAX_ANSWER_BYTES:
            break
    text = " ".join(data.decode("utf-8", "replace").split())
    return "" if text.startswith("<") else text[:200]
