"""Asking a process on this host whose config we hold: over TLS it must show the very certificate that stands there."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from watcher.config.listen import Listen


def place(listen: Listen, secure: bool) -> str:
    """https://HOST:PORT of a listener as it is reached from here."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen.host, listen.host)
    return f"{'https' if secure else 'http'}://{Listen(host, listen.port)}"


def session(cert_file: Path | None = None, ca_file: Path | None = None) -> requests.Session:
    """For a process of ours. `cert_file`: the very certificate that it must show, whatever name stands in it;
    `ca_file`: who must have signed it. What the environment says of CAs and proxies is then of no matter."""
    made = requests.Session()
    if cert_file is not None:
        made.mount("https://", _Pinned(cert_file))
    if (trusted := ca_file or cert_file) is not None:
        made.verify, made.trust_env = str(trusted), False
    return made


class _Pinned(HTTPAdapter):
    def __init__(self, cert_file: Path) -> None:
        self._cert_file = cert_file
        super().__init__()

    def init_poolmanager(self, *args: Any, **more: Any) -> None:
        context = ssl.create_default_context(cafile=str(self._cert_file))
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the leaf itself is what is trusted
        context.check_hostname = False
        super().init_poolmanager(*args, ssl_context=context, assert_hostname=False, **more)
