"""When the certificate of a listener ends. The standard library tells it of a peer only, so one is met in memory."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path

NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME: one that has ended is read like any other
TURNS = 4


def expires_at(server: ssl.SSLContext, cert_file: Path) -> float | None:
    """Unix seconds; None where it cannot be told."""
    try:
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = False
        client.load_verify_locations(cert_file)
        client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | NO_CHECK_TIME
        told = _certificate(server, client).get("notAfter")
        return float(ssl.cert_time_to_seconds(told)) if isinstance(told, str) else None
    except (ssl.SSLError, OSError, ValueError):
        return None


def _certificate(server: ssl.SSLContext, client: ssl.SSLContext) -> dict[str, object]:
    """What the server shows. Raises ssl.SSLError."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours, theirs = client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True)
    for _ in range(TURNS):
        for side in (ours, theirs):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return dict(ours.getpeercert() or {})
