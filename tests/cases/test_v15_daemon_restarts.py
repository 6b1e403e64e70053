"""Conditions that are open, begin, end or wait while the daemon is killed: each is told once, none is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from alerts.desk import AlertDesk
from alerts.incidents import Hysteresis, Judged
from alerts.notification import Notification, Outcome, Sent
from alerts.outbox import Outbox
from alerts.policy import AlertPolicy, ChannelTraits
from alerts.worker import Worker
from detectors.verdict import Finding, Severity, Subject, firing
from watcher.clock import FakeClock
from watcher.daemon.store import Store

START = 1_700_000_000.0
NAMES = {"gpu_missing": "gpu_lost", "gpu_attention": "row_remap_pending"}


class Pager:
    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.told: list[tuple[float, str, str]] = []  # second, action, key

    def send(self, notification: Notification, minimal: bool = False) -> Outcome:
        self.told.append((self.clock.now - START, notification.action, notification.dedup_key))
        return Sent()


class Process:
    """One life of the daemon: dropped without a word when it is killed."""

    def __init__(self, folder: Path, clock: FakeClock, pager: Pager, pending_seconds: float) -> None:
        self.clock = clock
        self.store = Store(folder / "runwatch.db", clock.time())
        outbox = Outbox(["oncall"], clock, self.store)
        policy = AlertPolicy(channels={"oncall": ChannelTraits(keeps_state=True, escalates=True)}, group_wait_seconds=0)
        hysteresis = Hysteresis(open_after_seconds={"row_remap_pending": pending_seconds})
        self.desk = AlertDesk(self.store, outbox, policy, clock, hysteresis=hysteresis)
        self.worker = Worker("oncall", pager, outbox, runner=lambda call, seconds: call())

    def cycle(self, findings: list[Finding]) -> None:
        by_name = {name: firing(f for f in findings if f.signature == name) for name in NAMES.values()}
        judged = [Judged(signature=n, family=n, run="r", verdict=verdict) for n, verdict in by_name.items()]
        self.desk.evaluate(judged, {}, self.clock.time())
        while self.worker.step():
            pass


def finding(condition: dict[str, Any]) -> Finding:
    what, _, rest = condition["what"].partition(" on ")
    node = rest.split()[0]
    return Finding(
        signature=NAMES[what],
        subject=Subject(run="r", node=node),
        severity=Severity.CRITICAL,
        summary=f"{what} on {node}",
    )


@pytest.fixture(scope="module")
def told(shared, tmp_path_factory):
    case = json.loads((shared / "data/cases/V15_daemon_restarts.json").read_text())
    given, folder = case["input"], tmp_path_factory.mktemp("v15")
    clock = FakeClock(START)
    pager = Pager(clock)
    process: Process | None = Process(folder, clock, pager, case["config"]["pending_rule_for_s"])
    changes = list(given["daemon"])
    interval = case["config"]["poll_interval_s"]
    for t in range(0, given["end_t"] + 1, 5):
        clock.now = START + t
        while changes and changes[0]["t"] <= t:
            change = changes.pop(0)
            if change.get("stop") == "SIGTERM" and process is not None:
                process.store.close()
            process = None if "stop" in change else Process(folder, clock, pager, case["config"]["pending_rule_for_s"])
        if process is not None and t % interval == 0:
            true = [
                c for c in given["conditions"] if c["true_from"] <= t and (c["true_to"] is None or t < c["true_to"])
            ]
            process.cycle([finding(condition) for condition in true])
    return pager.told


def of(told: list[tuple[float, str, str]], node: str) -> list[tuple[float, str, str]]:
    return [item for item in told if item[2].startswith(f"{node}/")]


def test_what_was_open_is_told_once_over_three_restarts_and_resolved_under_the_same_key(told):
    trigger, resolve = of(told, "n003")
    assert (trigger[1], resolve[1]) == ("trigger", "resolve")
    assert 120 <= trigger[0] <= 150
    assert 780 <= resolve[0] <= 860
    assert trigger[2] == resolve[2]


def test_what_began_while_the_daemon_was_down_is_told(told):
    (trigger,) = of(told, "n004")
    assert 780 <= trigger[0] <= 860


def test_what_waits_goes_on_waiting_where_it_was(told):
    (trigger,) = of(told, "n005")
    assert trigger[1] == "trigger"
    assert 1100 <= trigger[0] <= 1310


def test_what_began_and_ended_while_the_daemon_was_down_is_no_news(told):
    assert of(told, "n006") == []
