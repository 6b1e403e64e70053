"""The connection on which an agent pushes: kept open, opened anew where the daemon has closed it."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import socket
import ssl
from collections.abc import Callable
from urllib.parse import quote, urlsplit

from alerts.secret import SecretError, secret_file
from watcher.agent.push import Reply
from watcher.config.agent import PushSection
from watcher.tls import ClientTls, TlsError, advice
from watcher.tokens import lines_of

PATH = "/push"
CA_KEY = "agent.push.ca_file"
MAX_REPLY_BYTES = 64 << 10
GONE = (ConnectionError, http.client.BadStatusLine, ssl.SSLEOFError, ssl.SSLZeroReturnError)


class HttpPost:
    """`deadline_real_seconds`: for connecting, and again for sending and the answer; whoever calls keeps it."""

    def __init__(self, section: PushSection, node: str) -> None:
        """Raises TlsError where the CA file cannot be used."""
        self._url, self._node, self._token = section.url, node, secret_file(section.token_file)
        self.deadline_real_seconds = section.timeout_seconds
        self._tls = ClientTls(section.ca_file) if section.url.startswith("https://") else None
        self._connection: http.client.HTTPConnection | None = None

    def connect(self) -> str | None:
        return self._tried(self._open)

    def send(self, body: bytes, since: str | None) -> Reply:
        packed = gzip.compress(body, 1)
        reply: list[Reply] = []

        def ask() -> None:
            tokens = lines_of(self._token)
            for token in tokens:  # two while they are being changed
                reply[:] = [self._ask(packed, since, token)]
                if reply[0].status != 401:
                    return

        error = self._tried(ask)
        return reply[0] if error is None else Reply(0, error=error)

    def abort(self) -> None:
        connection = self._connection
        if connection is None or connection.sock is None:  # it may still ask for the address
            self._connection = None
            return
        with contextlib.suppress(OSError):
            socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)  # TLS or not

    def _open(self) -> http.client.HTTPConnection:
        if self._connection is None or self._connection.sock is None:
            parts, seconds = urlsplit(self._url), self.deadline_real_seconds
            host = parts.hostname or ""
            if self._tls is not None:
                made: http.client.HTTPConnection = http.client.HTTPSConnection(
                    host, parts.port, timeout=seconds, context=self._tls.context()
                )
            else:
                made = http.client.HTTPConnection(host, parts.port, timeout=seconds)
            self._connection = made
            made.connect()
            if self._connection is not made:  # given up meanwhile
                made.close()
                raise TimeoutError
            return made
        return self._connection

    def _ask(self, packed: bytes, since: str | None, token: str) -> Reply:
        """Once more on a new connection where the daemon has closed this one: it drops what it gets twice."""
        try:
            return self._ask_once(self._open(), packed, since, token)
        except GONE:
            self.close()
            return self._ask_once(self._open(), packed, since, token)

    def _ask_once(self, connection: http.client.HTTPConnection, packed: bytes, since: str | None, token: str) -> Reply:
        headers = {
            "Authorization": f"Bearer {token}",
            "X-Runwatch-Node": quote(self._node, safe=""),
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
        }
        target = f"{PATH}?since={quote(since, safe='')}" if since is not None else PATH
        connection.request("POST", target, packed, headers)
        response = connection.getresponse()
        body = response.read(MAX_REPLY_BYTES)
        if not response.isclosed():  # more than any answer of ours
            self.close()
        return Reply(response.status, body, response.headers.get("Retry-After"))

    def _tried(self, work: Callable[[], object]) -> str | None:
        """What went wrong, in words; the connection is then closed."""
        try:
            work()
            return None
        except (SecretError, TlsError) as error:
            said = str(error)
        except TimeoutError:
            said = f"no answer from {self._url} within {self.deadline_real_seconds:g} s"
        except (OSError, ValueError, http.client.HTTPException) as error:
            why = getattr(error, "strerror", None) or repr(error)
            said = advice(error, self._url, CA_KEY) or f"nothing can be sent to {self._url}: {why}"
        self.close()
        return said[:300]

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
