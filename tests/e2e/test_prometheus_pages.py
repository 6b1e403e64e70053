"""Real Prometheus and Alertmanager over a simulated fleet, with the shipped rules and example files: the rules page
without the daemon, and the daemon pages through Alertmanager. Minutes of the rules are seconds here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.alertmanager import Alertmanager, Inbox, alertmanager, inbox
from tests.support.live_fleet import NODES, LiveFleet, live_fleet
from tests.support.prometheus import Prometheus, prometheus
from tests.support.real_server import eventually, free_port

SHIPPED = Path(__file__).resolve().parents[2] / "deploy/prometheus"
TOKEN = "T0ken"
RUN = "big-13B"
SOON = 40.0


def in_seconds(rules: str) -> str:
    """`for: 5m` becomes 5s, `[2m]` 2s, `4 * 60 *` 4 *: the same rules, sixty times as fast."""
    return re.sub(r"\b(\d+) \* 60 \*", r"\1 *", re.sub(r"\b(\d+)m\b", r"\1s", rules))


class Site:
    """Everything on loopback. `daemon` is a process, which may die."""

    def __init__(self, folder: Path, fleet: LiveFleet, manager: Alertmanager, box: Inbox) -> None:
        self.folder, self.fleet, self.manager, self.box = folder, fleet, manager, box
        self.server: Prometheus
        self.port = free_port()
        self.seen = 0  # bodies that the webhook had when the test began
        self._daemon: subprocess.Popen[bytes] | None = None
        self.token = folder / "token"
        self.token.write_text(TOKEN)

    def start_daemon(self) -> None:
        config: dict[str, Any] = {
            "daemon": {
                "listen": f"127.0.0.1:{self.port}",
                "token_file": str(self.token),
                "database": str(self.folder / "runwatch.db"),
                "interval_seconds": 1,
                "agents": {"addresses": self.fleet.addresses, "token_file": str(self.token)},
            },
            "runs": [{"name": RUN, "nodes": list(NODES)}],
            "channels": {"pages": {"alertmanager": {"url": self.manager.url}}},
            "paging": {"resolve_after_seconds": 2, "group_wait_seconds": 0},
        }
        file = self.folder / "runwatch.yaml"
        file.write_text(json.dumps(config))
        with (self.folder / "daemon.err").open("ab") as err:
            self._daemon = subprocess.Popen(
                [sys.executable, "-m", "watcher", "daemon", "--config", str(file)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err,
            )  # fmt: skip

    def kill_daemon(self) -> None:
        if self._daemon is not None:
            self._daemon.kill()
            self._daemon.wait()
            self._daemon = None

    def told(self, alert: str, status: str = "firing") -> dict[str, Any]:
        """The alert as the webhook got it."""
        return eventually(
            lambda: self.box.alerts(status, self.seen).get(alert), SOON, f"{alert} is {status} at the webhook"
        )


def manager_config(webhook: str) -> dict[str, Any]:
    """The example file, with one webhook for both of its receivers and no time to wait."""
    config = yaml.safe_load((SHIPPED / "alertmanager.example.yml").read_text())
    config["route"] |= {"group_wait": "100ms", "group_interval": "1s"}
    config["receivers"] = [
        {"name": receiver["name"], "webhook_configs": [{"url": webhook}]} for receiver in config["receivers"]
    ]
    return dict(config)


def server_config(site: Site) -> dict[str, Any]:
    """The example file, with what README.md has people fill in, once a second."""
    config = yaml.safe_load((SHIPPED / "prometheus.example.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    for number, path in enumerate(config["rule_files"]):
        copy = site.folder / Path(path).name
        copy.write_text(in_seconds((SHIPPED / copy.name).read_text()))
        config["rule_files"][number] = str(copy)
    config["alerting"]["alertmanagers"][0]["static_configs"] = [{"targets": [site.manager.address]}]
    daemon, agents = config["scrape_configs"]
    daemon["static_configs"] = [{"targets": [f"127.0.0.1:{site.port}"]}]
    agents["file_sd_configs"] = [{"files": [str(site.folder / "agents.json")]}]
    (site.folder / "agents.json").write_text(json.dumps([{"targets": list(site.fleet.addresses.values())}]))
    for job in (daemon, agents):
        job["authorization"]["credentials_file"] = str(site.token)
    return dict(config)


@pytest.fixture(scope="module")
def whole_site(tmp_path_factory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    with ExitStack() as stack:
        box = stack.enter_context(inbox())
        manager = stack.enter_context(alertmanager(folder, manager_config(box.url)))
        fleet = stack.enter_context(live_fleet(folder, TOKEN))
        one = Site(folder, fleet, manager, box)
        stack.callback(one.kill_daemon)
        one.start_daemon()
        one.server = stack.enter_context(prometheus(folder, server_config(one)))
        eventually(lambda: list(one.server.up().values()) == [True] * 3, SOON, "daemon and agents are scraped")
        yield one


@pytest.fixture
def site(whole_site) -> Site:
    """With nothing firing."""
    eventually(lambda: not whole_site.server.alerts(), SOON, "no alert is left")
    whole_site.seen = len(whole_site.box.bodies)
    return whole_site


def test_an_incident_of_the_daemon_goes_through_alertmanager_and_ends_there(site):
    node = NODES[1]
    eventually(lambda: site.server.query(f'runwatch_agent_up{{node="{node}"}} == 1'), SOON, "the agent answers")
    site.fleet.silence(node)
    alert = site.told("node_unreachable")
    assert alert["labels"].items() >= {"run": RUN, "node": node, "severity": "warning"}.items()
    assert node in alert["annotations"]["summary"]
    site.told("RunwatchAgentScrapeFailing")  # and Prometheus has noticed by itself
    site.fleet.answer(node)
    site.told("node_unreachable", "resolved")
    eventually(lambda: not firing(site, "node_unreachable"), SOON, "nothing is open in Alertmanager")


def test_a_healthy_run_makes_no_rule_fire(site):
    quiet_until = time.monotonic() + 5
    while time.monotonic() < quiet_until:
        assert site.server.alerts() == []
        time.sleep(0.5)
    (progress,) = site.server.query("time() - run:runwatch_last_progress_timestamp_seconds:max")
    assert float(progress["value"][1]) < 5
    assert [row["value"][1] for row in site.server.query("run:runwatch_gpus:count")] == ["16"]


def test_a_run_that_hangs_after_the_daemon_died_is_paged_by_the_rules_alone(site):
    eventually(lambda: len(site.server.query("run_node:runwatch_placement:info")) == 2, SOON, "the placement is known")
    site.kill_daemon()
    site.told("RunwatchDaemonDown")
    site.fleet.kind = "spin"
    alert = site.told("RunwatchRunLowPowerDeadlock")
    assert alert["labels"].items() >= {"run": RUN, "severity": "critical", "signature": "low_power_deadlock"}.items()
    assert alert["annotations"]["runbook_url"].endswith("#runwatchrunlowpowerdeadlock")
    site.fleet.kind = "train"
    site.told("RunwatchRunLowPowerDeadlock", "resolved")
    site.start_daemon()
    site.told("RunwatchDaemonDown", "resolved")


def firing(site: Site, alert: str) -> list[dict[str, Any]]:
    return [found for found in site.manager.alerts() if found["labels"]["alertname"] == alert]
