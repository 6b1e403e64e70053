"""Nodes that push are looked at through the daemon that hears them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from detectors.telemetry import GpuReading
from watcher.cli._api import Refused
from watcher.clock import FakeClock
from watcher.daemon.answer import Answer
from watcher.daemon.push_endpoint import PushEndpoint
from watcher.daemon.pushed import Pushed
from watcher.doctor._heard import HeardByDaemon
from watcher.snapshot import Snapshot
from watcher.tokens import NodeTokens

GPU = GpuReading(uuid="u", index=0, power_watts=300.0)
SNAPSHOT = Snapshot(node="n1", stream="s", sent_at=1.0, gpus=(GPU,), gpus_age_seconds=1.0)
CLOCK = FakeClock()


def look(fetch: Any, nodes: tuple[str, ...] = ("n1", "n2")) -> dict[str, Answer]:
    source = HeardByDaemon(Pushed(lambda: nodes, CLOCK, NodeTokens()), fetch, CLOCK)
    return {answer.node: answer for answer in asyncio.run(source.ask_all())}


def test_what_they_said_last_is_told_as_old_as_it_is_and_is_left_for_the_next_cycle():
    daemon = Pushed(lambda: ("n1", "n2"), CLOCK, NodeTokens())
    daemon.take("n1", daemon.inbox("n1"), SNAPSHOT, CLOCK.monotonic())
    daemon.refuse("n2", "token", "the token does not speak for node 'n2'")
    CLOCK.advance(7)
    answers = look(lambda: json.loads(PushEndpoint(daemon).heard(None).body))
    assert answers["n1"].snapshot.gpus == (GPU,)
    assert answers["n1"].snapshot.gpus_age_seconds == 8.0
    assert answers["n2"].error == "no push from n2 was taken for 7 s: the token does not speak for node 'n2'"
    assert daemon.inbox("n1").pushes == 1


def test_without_a_daemon_it_says_that_nobody_hears_them():
    def refused() -> Any:
        raise Refused("no daemon answers at http://127.0.0.1:9877")

    assert "it pushes, and what it told is not known: no daemon answers" in look(refused)["n1"].error


@pytest.mark.parametrize("odd", [{"pushed": []}, {"pushed": [{"node": "n1", "snapshot": 3}]}, {}, [], {"pushed": [1]}])
def test_whatever_is_answered_each_node_gets_one_line(odd):
    answers = look(lambda: odd)
    assert all(answers[node].error for node in ("n1", "n2"))
