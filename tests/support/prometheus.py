"""A real Prometheus: scrapes what it is told, evaluates rules, answers queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import yaml

from tests.support.real_server import running, tool


@dataclass(frozen=True, slots=True)
class Prometheus:
    """`url`: the root of its web interface and API."""

    url: str

    def query(self, expression: str, at: float | None = None) -> list[dict[str, Any]]:
        """Series of an instant query: {"metric": {label: value}, "value": [at, "number"]}."""
        return self._ask("query", {"query": expression} | ({} if at is None else {"time": at}))["result"]

    def query_range(self, expression: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """Series of a range query: {"metric": {label: value}, "values": [[at, "number"], ...]}."""
        return self._ask("query_range", {"query": expression, "start": start, "end": end, "step": step})["result"]

    def alerts(self, state: str = "firing") -> list[dict[str, Any]]:
        """Alerts of its rules that are pending or firing."""
        return [alert for alert in self._ask("alerts", {})["alerts"] if alert["state"] == state]

    def up(self) -> dict[str, bool]:
        """Instance -> whether its last scrape worked."""
        return {row["metric"]["instance"]: row["value"][1] == "1" for row in self.query("up")}

    def reload(self) -> None:
        """Reads its configuration again."""
        requests.post(f"{self.url}/-/reload", timeout=10).raise_for_status()

    def _ask(self, what: str, parameters: dict[str, Any]) -> dict[str, Any]:
        reply = requests.get(f"{self.url}/api/v1/{what}", params=parameters, timeout=30)
        assert reply.ok, f"{what} {parameters}: {reply.text[:500]}"
        return dict(reply.json()["data"])


def configuration(
    targets: dict[str, Sequence[str]],
    *,
    rules: Sequence[Path] = (),
    alertmanager: str | None = None,
    interval: str = "1s",
    **job: Any,
) -> dict[str, Any]:
    """prometheus.yml. `targets`: job -> HOST:PORT of its instances; `alertmanager`: HOST:PORT; `job`: for each job."""
    config: dict[str, Any] = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [
            {"job_name": name, "static_configs": [{"targets": list(instances)}], **job}
            for name, instances in targets.items()
        ],
    }
    if alertmanager is not None:
        config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
    return config


@contextmanager
def prometheus(folder: Path, config: dict[str, Any], *, data: Path | None = None) -> Iterator[Prometheus]:
    """Runs in `folder` until the end of the block. `data`: blocks that are there already (`promtool tsdb create-...`).

    The first sample of a target comes some six seconds after the start.
    """
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    binary = tool("prometheus", "prometheus")

    def command(port: int) -> list[str]:
        return [
            binary,
            f"--config.file={file}",
            f"--storage.tsdb.path={data or folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
            f"--web.external-url=http://127.0.0.1:{port}",
            "--web.enable-lifecycle",
            "--storage.tsdb.retention.time=10y",
        ]

    with running(command, folder / "prometheus.log", "/-/ready") as url:
        yield Prometheus(url)
