"""How the commands ask a running daemon."""

from __future__ import annotations

import argparse
import getpass
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watcher.cli._command import UsageError

if TYPE_CHECKING:
    import requests

DEFAULT_CONFIG = "/etc/runwatch/runwatch.yaml"
TIMEOUT_SECONDS = 10.0


class Refused(Exception):
    """The daemon said no; one readable line."""


def add_daemon_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, metavar="FILE",
        help=f"the daemon's file, for its address and token (default: $RUNWATCH_CONFIG or {DEFAULT_CONFIG})",
    )  # fmt: skip
    parser.add_argument("--url", metavar="URL", help="the daemon, where it is not on this host")
    parser.add_argument("--ca-file", type=Path, metavar="FILE", help="with --url https://: whom to trust")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="with --url: file of the bearer token")


def who() -> str:
    """Whose name stands beside a change; in a container the user may have none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


class DaemonApi:
    """GET and POST of JSON. Raises UsageError for the config and Refused for an answer that is none."""

    def __init__(self, args: argparse.Namespace) -> None:
        from alerts.secret import SecretError, secret_file
        from watcher.tokens import lines_of

        self.url, token_file, self._cert_file = _place(args)
        self._ca_file: Path | None = args.ca_file
        try:
            self._token = lines_of(secret_file(token_file))[0] if token_file is not None else None
        except SecretError as error:
            raise UsageError(str(error)) from error

    def get(self, path: str, **params: str) -> Any:
        return self._value(self._ask("GET", path, params=params))

    def get_text(self, path: str, kind: str) -> str:
        reply = self._ask("GET", path, accept=kind)
        if reply.status_code != 200:
            self._value(reply)
        return str(reply.text)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self._value(self._ask("POST", path, json=body))

    def delete(self, path: str) -> Any:
        return self._value(self._ask("DELETE", path))

    def _ask(self, method: str, path: str, accept: str = "application/json", **more: Any) -> requests.Response:
        from watcher.cli._here import session
        from watcher.tls import advice

        headers = {"Accept": accept}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            asking = session(self._cert_file, self._ca_file)
            return asking.request(
                method, self.url + path, headers=headers, timeout=TIMEOUT_SECONDS, allow_redirects=False, **more
            )
        except OSError as error:  # requests' own errors are of this kind too
            if (about_tls := advice(error, self.url, "--ca-file")) is not None:
                raise Refused(about_tls) from None
            raise Refused(f"no daemon answers at {self.url}: is `runwatch daemon` running?") from None

    def _value(self, reply: requests.Response) -> Any:
        try:
            value = reply.json() if "json" in reply.headers.get("Content-Type", "") else {"error": reply.text.strip()}
        except ValueError:
            value = {}
        if reply.status_code != 200:
            raise Refused(f"{self.url}: {value.get('error') or f'HTTP {reply.status_code}'}")
        return value


def _place(args: argparse.Namespace) -> tuple[str, Path | None, Path | None]:
    """URL, token file, and the certificate that the daemon of this config shows."""
    if args.url is not None:
        return args.url.rstrip("/"), args.token_file, None
    from watcher.cli._here import place
    from watcher.config.daemon import DaemonConfig
    from watcher.config.load import ConfigError, load

    path = args.config or Path(os.environ.get("RUNWATCH_CONFIG", DEFAULT_CONFIG))
    try:
        section = load(path, DaemonConfig).daemon
    except ConfigError as error:
        raise UsageError(str(error)) from error
    secure = section.tls is not None
    cert = section.tls.cert_file if section.tls is not None else None
    return place(section.listen, secure), args.token_file or section.token_file, cert
