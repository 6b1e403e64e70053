"""The channel against Debian's Alertmanager, with its times shortened: what it holds, and what it sends on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from alerts.channels.alertmanager import Alertmanager, AlertmanagerSection
from alerts.notification import Sent
from alerts.policy import ChannelTraits
from detectors.verdict import Severity
from tests.alerts.delivery_samples import House
from tests.alerts.incident_samples import clear, finding, fires, gpu_finding
from tests.support import alertmanager as real
from watcher.clock import FakeClock, SystemClock

VALID_SECONDS, RESEND_SECONDS = 1.4, 0.3
TRAITS = ChannelTraits(keeps_state=True, escalates=True, resend_seconds=RESEND_SECONDS)
LIMIT_SECONDS = 20.0
MILD = finding(severity=Severity.WARNING)


class Site:
    """Everything of ours on the wall clock, beside a real Alertmanager and whoever it tells."""

    def __init__(self, folder: Path, manager: real.Alertmanager, box: real.Inbox) -> None:
        self.manager, self.box, self._wall = manager, box, SystemClock()
        self.clock = FakeClock(SystemClock().time())
        channel = Alertmanager(AlertmanagerSection(url=manager.url, labels={"team": "ml"}), VALID_SECONDS)
        self.house = House(folder, self.clock, {"am": (channel, TRAITS)}, group_wait_seconds=0.0)
        self.house.hysteresis = type(self.house.hysteresis)(resolve_after_seconds=0.0)
        self.house.kill()
        self.house.start()

    def tick(self, *judged: Any) -> None:
        threading.Event().wait(0.05)
        self.clock.now = self._wall.time()
        self.house.tick(*judged)

    def live(self, seconds: float, *judged: Any) -> list[int]:
        """How many alerts it held at each look during that time."""
        until, seen = self._wall.time() + seconds, []
        while self._wall.time() < until:
            self.tick(*judged)
            seen.append(len(self.held()))
        return seen

    def until(self, wanted: Callable[[], bool], *judged: Any) -> None:
        end = self._wall.time() + LIMIT_SECONDS
        while not wanted():
            assert self._wall.time() < end, (self.held(), self.box.bodies)
            self.tick(*judged)

    def held(self) -> list[dict[str, str]]:
        return [alert["labels"] for alert in self.manager.alerts() if alert["status"]["state"] == "active"]

    def told(self, status: str) -> dict[str, list[dict[str, Any]]]:
        """Our key -> the alerts of that status that its webhook was sent."""
        found: dict[str, list[dict[str, Any]]] = {}
        for body in self.box.bodies:
            for alert in body["alerts"]:
                if alert["status"] == status:
                    found.setdefault(alert["labels"].get("runwatch_key", ""), []).append(alert)
        return found


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[real.Alertmanager, real.Inbox]]:
    with ExitStack() as stack:
        box = stack.enter_context(real.inbox())
        config = real.configuration(box.url)
        config["route"]["group_by"] = ["..."]
        yield stack.enter_context(real.alertmanager(tmp_path_factory.mktemp("am"), config)), box


@pytest.fixture
def site(tmp_path: Path, manager: tuple[real.Alertmanager, real.Inbox]) -> Iterator[Site]:
    manager[1].bodies.clear()
    made = Site(tmp_path, *manager)
    yield made
    made.house.kill()


def test_it_stays_while_it_is_open_becomes_a_second_one_when_worse_and_both_end_when_it_is_over(site: Site) -> None:
    key, worse = "tr7/stall", "tr7/stall/critical"
    site.until(lambda: key in site.told("firing"), fires(MILD))
    assert set(site.live(1.5 * VALID_SECONDS, fires(MILD))) == {1}  # well beyond what one message is good for
    site.until(lambda: worse in site.told("firing"), fires(finding()))
    assert set(site.live(1.5 * VALID_SECONDS, fires(finding()))) == {2}
    assert site.told("resolved") == {}
    assert {labels["runwatch_key"]: labels["severity"] for labels in site.held()} == {key: "warning", worse: "critical"}
    site.tick(clear())
    (incident,) = site.house.store.history("tr7/stall")
    assert site.held() == []  # at once, not when its validity runs out
    site.until(lambda: {key, worse} <= set(site.told("resolved")), clear())
    site.live(1.5, clear())
    for one in (key, worse):
        (end,) = site.told("resolved")[one]
        assert incident.resolved_at is not None
        assert abs(_instant(end["endsAt"]) - incident.resolved_at) < 0.01
        assert len(site.told("firing")[one]) == 1


def test_a_group_is_one_alert_until_the_last_of_it_is_well(site: Site) -> None:
    lost = [gpu_finding(f"n{number}", gpu=f"GPU-{number}") for number in (1, 2, 3)]
    site.until(lambda: bool(site.told("firing")), fires(*lost))
    assert set(site.live(1.5 * VALID_SECONDS, fires(*lost[1:]))) == {1}
    assert site.told("resolved") == {}
    site.tick(clear("gpu_lost", "gpu_lost"))
    assert site.held() == []
    site.until(lambda: bool(site.told("resolved")), clear("gpu_lost", "gpu_lost"))
    assert [len(alerts) for alerts in site.told("firing").values()] == [1]
    assert [len(alerts) for alerts in site.told("resolved").values()] == [1]


def test_flapping_is_one_alert_that_is_told_once_until_it_has_been_quiet(site: Site) -> None:
    site.until(lambda: bool(site.told("firing")), fires(finding()))
    site.tick(clear())
    site.until(lambda: bool(site.told("resolved")), clear())
    for _ in range(10):
        site.live(0.2, fires(finding()))
        site.live(0.2, clear())
    assert len(site.held()) == 1
    assert len(site.told("resolved")["tr7/stall"]) == 1


def test_a_page_that_was_late_is_firing_when_it_arrives(site: Site) -> None:
    site.house.tick(fires(finding()), deliver=False)
    threading.Event().wait(VALID_SECONDS * 1.2)
    site.clock.now = SystemClock().time()
    site.house.deliver()
    assert len(site.held()) == 1


def test_the_watchdogs_alert_is_there_while_it_is_said_and_its_end_is_told(site: Site) -> None:
    channel = Alertmanager(AlertmanagerSection(url=site.manager.url), valid_seconds=1.0)
    wall = SystemClock()
    assert isinstance(channel.watchdog(wall.time(), wall.time()), Sent)
    assert isinstance(channel.watchdog(wall.time() - 60, wall.time()), Sent)
    (labels,) = [labels for labels in site.held() if labels["alertname"] == "RunwatchWatchdog"]
    assert labels == {"alertname": "RunwatchWatchdog", "severity": "none"}
    site.until(lambda: "RunwatchWatchdog" in site.box.alerts("resolved"))


def _instant(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
