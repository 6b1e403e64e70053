"""How telemetry is fetched: bounded bodies, one deadline, errors that say what to do."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

import aiohttp

CHUNK = 1 << 16
AT_ONCE = 1_024
CONNECT_SECONDS = 3.0  # hosts that are gone must not hold the place of others


class FetchError(Exception):
    """Nothing usable came; one readable line that says what to do."""


def open_session(ca_file: Path | None, timeout_seconds: float) -> aiohttp.ClientSession:
    """Use inside the running loop. Raises FetchError where `ca_file` cannot be used."""
    tls: ssl.SSLContext | bool = True
    if ca_file is not None:
        try:
            tls = ssl.create_default_context(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise FetchError(f"ca_file {ca_file}: {error.strerror or error}") from None
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=AT_ONCE, keepalive_timeout=75, ssl=tls),
        timeout=aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=min(CONNECT_SECONDS, timeout_seconds)),
        trust_env=False,
    )


async def fetch(
    session: aiohttp.ClientSession,
    url: str,
    headers: Mapping[str, str],
    most_bytes: int,
    form: Mapping[str, str] | None = None,
) -> tuple[int, bytes]:
    """Status and body; `form` is posted. Raises FetchError on anything but an answer."""
    try:
        method = "GET" if form is None else "POST"
        async with session.request(method, url, headers=headers, data=form, allow_redirects=False) as response:
            body = bytearray()
            async for chunk in response.content.iter_chunked(CHUNK):
                body += chunk
                if len(body) > most_bytes:
                    raise FetchError(f"{url}: the answer is larger than {most_bytes >> 20} MiB")
            return response.status, bytes(body)
    except TimeoutError:
        raise FetchError(f"no answer from {url} within {session.timeout.total:g} s") from None
    except aiohttp.ClientConnectorDNSError:
        raise FetchError(f"the name in {url} is not known") from None
    except aiohttp.ClientConnectorCertificateError as error:
        raise FetchError(f"{url}: its certificate is not trusted ({error.certificate_error}): set ca_file") from None
    except aiohttp.ClientConnectorError as error:
        raise FetchError(f"cannot connect to {url}: {error.strerror or error.os_error}") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise FetchError(f"{url}: {type(error).__name__} {error}"[:300]) from None
