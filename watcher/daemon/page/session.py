"""Session cookies: signed, expiring, and worth nothing once the token behind them changes. Pure."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

SESSION_SECONDS = 7 * 86_400.0
MAX_COOKIE = 200


@dataclass(frozen=True, slots=True)
class Session:
    """`nonce` tells one login from another; `expires_at` in unix seconds."""

    nonce: str
    expires_at: int


def signing_key(secret: bytes, token: str | None) -> bytes:
    """`secret` is the daemon's own and outlives a restart; another token makes another key."""
    return hmac.new(secret, b"session\n" + (token or "").encode(), hashlib.sha256).digest()


def cookie_name(secret: bytes) -> str:
    """Cookies know no ports: two daemons on one host must not take each other's."""
    return f"runwatch-{hashlib.sha256(b'cookie' + secret).hexdigest()[:8]}"


def seal(key: bytes, session: Session) -> str:
    """The value of the cookie."""
    told = f"{session.expires_at}.{session.nonce}"
    return f"{told}.{_sign(key, 'session', told)}"


def unseal(key: bytes, value: str, now: float) -> Session | None:
    """The session, or None where it was not made here, was altered, or is over."""
    if len(value) > MAX_COOKIE or not value.isascii():
        return None
    told, _, signature = value.rpartition(".")
    if not hmac.compare_digest(signature.encode(), _sign(key, "session", told).encode()):
        return None
    expires, _, nonce = told.partition(".")
    session = Session(nonce, int(expires))
    return session if 0 < session.expires_at - now <= SESSION_SECONDS + 60 else None


def form_token(key: bytes, session: Session) -> str:
    """What every form of this session carries, so that no other site can post in its name."""
    return _sign(key, "form", session.nonce)


def is_form_token(key: bytes, session: Session, given: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), form_token(key, session).encode())


def _sign(key: bytes, purpose: str, told: str) -> str:
    return hmac.new(key, f"{purpose}\n{told}".encode(), hashlib.sha256).hexdigest()
