"""TLS for what listens and for what asks: contexts that follow their files, and errors that say what to do."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterator
from pathlib import Path

from watcher.certificate import expires_at
from watcher.config.listen import TlsSection

log = logging.getLogger(__name__)
LOOK_REAL_SECONDS = 60.0
NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")


class TlsError(Exception):
    """A certificate, a key or a CA cannot be used; one readable line that names the file."""


class ServerTls:
    """The context of a listener. A renewed certificate is taken up within a minute, without a restart.

    `expires_at`: unix seconds, of the one in use.
    """

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        """Raises TlsError."""
        self._files = (cert_file, key_file)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.expires_at: float | None = None
        self._load()
        self._seen = self._marks()

    def refresh(self) -> None:
        """Looks at the files; one that is half written is tried again, what is in use stays."""
        try:
            marks = self._marks()
            if marks != self._seen:
                self._load()
                self._seen = marks
                log.info("certificate %s is renewed", self._files[0])
        except (TlsError, OSError) as error:
            log.warning("the certificate is not renewed: %s", error)

    async def follow(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(LOOK_REAL_SECONDS)
            self.refresh()

    def _load(self) -> None:
        cert, key = self._files
        for file in self._files:
            try:
                file.open("rb").close()
            except OSError as error:
                raise TlsError(f"{file}: {error.strerror}") from None
        try:  # elsewhere first: a certificate without its new key must not end what is in use
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=_no_password)
            self.context.load_cert_chain(cert, key, password=_no_password)
            self.expires_at = expires_at(self.context, cert)
        except (ssl.SSLError, ValueError) as error:
            why = getattr(error, "reason", None) or str(error)
            raise TlsError(f"{cert} and {key} are no certificate with its unencrypted key in PEM form: {why}") from None

    def _marks(self) -> tuple[tuple[int, int], ...]:
        return tuple((stat.st_mtime_ns, stat.st_ino) for stat in (file.stat() for file in self._files))


def server_tls(section: TlsSection | None) -> ServerTls | None:
    """Raises TlsError."""
    return ServerTls(section.cert_file, section.key_file) if section is not None else None


def _no_password() -> str:
    raise ValueError("the key is encrypted")


class ClientTls:
    """Whom we trust: the CAs of `ca_file` alone, or those of the system. A file that is changed is read anew."""

    def __init__(self, ca_file: Path | None) -> None:
        """Raises TlsError."""
        self._file = ca_file
        self._seen = self._mark()
        self._made = _client_context(ca_file)

    def context(self) -> ssl.SSLContext:
        """For the next connection. Where the new file cannot be used what was trusted before is."""
        mark = self._mark()
        if mark != self._seen:
            self._seen = mark
            try:
                self._made = _client_context(self._file)
            except TlsError as error:
                log.warning("whom we trust is not changed: %s", error)
        return self._made

    def _mark(self) -> tuple[int, int] | None:
        try:
            stat = self._file.stat() if self._file is not None else None
        except OSError:
            return None
        return (stat.st_mtime_ns, stat.st_ino) if stat is not None else None


def _client_context(ca_file: Path | None) -> ssl.SSLContext:
    """Raises TlsError."""
    try:
        made = ssl.create_default_context(cafile=str(ca_file) if ca_file is not None else None)
    except (ssl.SSLError, OSError) as error:
        why = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
        raise TlsError(f"{ca_file}: no certificates in PEM form can be read from it: {why}") from None
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    return made


def advice(error: BaseException, url: str, key: str) -> str | None:
    """What to do about a TLS error on the way to `url`; `key` is the config key of the CA file. None: it is no such."""
    for found in _causes(error):
        if isinstance(found, ssl.SSLCertVerificationError):
            said = getattr(found, "verify_message", "") or str(found)
            if "mismatch" in said or "not valid for" in said:
                return f"the certificate at {url} is for another name: {said}"
            if "expired" in said:
                return f"the certificate at {url} has expired: renew it"
            return f"the certificate at {url} is not trusted ({said}): {key} must hold the CA that signed it"
        if isinstance(found, ssl.SSLError) and found.reason in NO_TLS:
            return f"{url} does not speak TLS ({found.reason}): set tls: there, or ask it by http://"
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it comes from, the innermost first: HTTP clients wrap those of TLS in kinds of their own."""
    chain: list[BaseException] = []
    found: BaseException | None = error
    while found is not None and found not in chain:
        chain.append(found)
        inner = getattr(found, "certificate_error", None) or getattr(found, "os_error", None)
        found = inner or found.__cause__ or found.__context__
    return reversed(chain)
