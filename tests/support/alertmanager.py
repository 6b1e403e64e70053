"""A real Alertmanager, and a webhook that takes what it sends on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests
import yaml

from tests.support.real_server import running, tool


@dataclass(frozen=True, slots=True)
class Alertmanager:
    """`url`: its root; `address`: HOST:PORT, as Prometheus wants it."""

    url: str

    @property
    def address(self) -> str:
        return self.url.removeprefix("http://")

    def alerts(self) -> list[dict[str, Any]]:
        """What it holds as firing: {"labels": {}, "annotations": {}, "startsAt": ..., "status": {...}}."""
        reply = requests.get(f"{self.url}/api/v2/alerts", timeout=10)
        reply.raise_for_status()
        return list(reply.json())


@dataclass(frozen=True, slots=True)
class Inbox:
    """What a webhook was sent, in order. Alertmanager's are {"status": ..., "alerts": [...], "groupLabels": {}}."""

    url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def alerts(self, status: str = "firing", after: int = 0) -> dict[str, dict[str, Any]]:
        """alertname -> the newest alert of that status. `after`: so many bodies are not looked at."""
        return {
            alert["labels"]["alertname"]: alert
            for body in self.bodies[after:]
            for alert in body["alerts"]
            if alert["status"] == status
        }


@contextmanager
def inbox() -> Iterator[Inbox]:
    """A receiver on loopback that answers 200 to every JSON object."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            box.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    box = Inbox(f"http://127.0.0.1:{server.server_port}/alerts")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield box
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def configuration(webhook: str, group_wait: str = "100ms") -> dict[str, Any]:
    """alertmanager.yml: everything to one webhook, almost at once, resolved ones too."""
    return {
        "route": {
            "receiver": "webhook",
            "group_by": ["alertname", "run", "node"],
            "group_wait": group_wait,
            "group_interval": "1s",
            "repeat_interval": "1h",
        },
        "receivers": [{"name": "webhook", "webhook_configs": [{"url": webhook, "send_resolved": True}]}],
    }


@contextmanager
def alertmanager(folder: Path, config: dict[str, Any]) -> Iterator[Alertmanager]:
    """Runs in `folder` until the end of the block."""
    file = folder / "alertmanager.yml"
    file.write_text(yaml.safe_dump(config))
    binary = tool("prometheus-alertmanager", "prometheus-alertmanager")

    def command(port: int) -> list[str]:
        return [
            binary,
            f"--config.file={file}",
            f"--storage.path={folder / 'alertmanager'}",
            f"--web.listen-address=127.0.0.1:{port}",
            f"--web.external-url=http://127.0.0.1:{port}",
            "--cluster.listen-address=",
        ]

    with running(command, folder / "alertmanager.log", "/-/ready") as url:
        yield Alertmanager(url)
