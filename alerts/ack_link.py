"""Links that acknowledge an incident without a login: signed, for one opening of one incident, and worth nothing else.

Opening a link changes nothing (mail scanners open every link); the page behind it has a button that does. Pure.
"""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import quote

KEY_BYTES = 32


def token(secret: bytes, key: str, incident_id: str) -> str:
    told = f"acknowledge\n{incident_id}\n{key}".encode("utf-8", "surrogatepass")
    return hmac.new(secret, told, hashlib.sha256).hexdigest()[:40]


def ack_url(public_url: str, secret: bytes, key: str, incident_id: str) -> str:
    return f"{public_url.rstrip('/')}/ack/{token(secret, key, incident_id)}/{quote(key, safe='')}"


def is_valid(given: str, secret: bytes, key: str, incident_id: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token(secret, key, incident_id).encode())
