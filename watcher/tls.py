"""TLS for what listens and for what asks: contexts that follow their files, and errors that say what to do."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

from watcher.config.listen import TlsSection

log = logging.getLogger(__name__)
LOOK_REAL_SECONDS = 60.0


class TlsError(Exception):
    """A certificate, a key or a CA cannot be used; one readable line that names the file."""


class ServerTls:
    """The context of a listener. A renewed certificate is taken up within a minute, without a restart."""

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        """Raises TlsError."""
        self._files = (cert_file, key_file)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
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
        try:
            self.context.load_cert_chain(cert, key, password=_no_password)
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


def client_context(ca_file: Path | None) -> ssl.SSLContext:
    """Trusts the CA of `ca_file` alone, or those of the system. Raises TlsError."""
    try:
        return ssl.create_default_context(cafile=str(ca_file) if ca_file is not None else None)
    except (ssl.SSLError, OSError) as error:
        why = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
        raise TlsError(f"{ca_file}: no certificates in PEM form can be read from it: {why}") from None


def advice(error: BaseException, url: str, key: str) -> str | None:
    """What to do about a TLS error on the way to `url`; `key` is the config key of the CA file. None: it is no such."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ssl.SSLCertVerificationError):
            said = found.verify_message or str(found)
            if "mismatch" in said or "not valid for" in said:
                return f"the certificate at {url} is for another name: {said}"
            if "expired" in said:
                return f"the certificate at {url} has expired: renew it"
            return f"the certificate at {url} is not trusted ({said}): {key} must hold the CA that signed it"
        if isinstance(found, ssl.SSLError):
            return f"{url} does not speak TLS ({found.reason}): set tls: there, or ask it by http://"
        found = getattr(found, "os_error", None) or found.__cause__ or found.__context__
    return None
