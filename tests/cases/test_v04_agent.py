"""A driver/library mismatch after an update, through the real agent: it stays up, says so once, and the log goes on."""

from __future__ import annotations

import pytest

from tests.support.nvml_case import played


@pytest.fixture(scope="module")
def mismatch(shared, tmp_path_factory):
    return played(shared, tmp_path_factory.mktemp("v04"), "V04")


def test_v04_the_agent_answers_throughout_and_says_what_it_cannot_see_and_why(mismatch):
    blind = [(t, snapshot, status) for t, snapshot, status in mismatch.seen if 315 <= t < 3600]
    for t, snapshot, status in blind:
        assert (snapshot.gpus, snapshot.health["nvml"].kind, status) == ((), "driver_mismatch", 503), t
    assert mismatch.slowest < 2
    assert mismatch.agent.gpus.replacements_count == 0, "a refusal is no crash"


def test_v04_one_warning_names_the_mismatch_and_the_reboot_and_ends_with_it(mismatch):
    ((opened, told),) = mismatch.told("opened", "monitoring_blind")
    assert 300 <= opened <= 480
    assert told.incident.severity.label == "warning"
    assert "driver and library differ in version" in told.incident.summary
    assert "reboot" in told.incident.summary
    ((resolved, _),) = mismatch.told("resolved", "monitoring_blind")
    assert 3600 <= resolved <= 3720


def test_v04_steps_are_known_while_the_driver_tells_nothing_over_two_restarts_of_the_agent(mismatch):
    for t, step in mismatch.steps:
        if 30 <= t <= 3500:
            assert (t - 30) // 10 <= step <= t // 10, t


def test_v04_nothing_is_called_dead_missing_or_hung(mismatch):
    assert {told.incident.signature for _, told in mismatch.told("opened")} <= {"monitoring_blind", "completed"}
    assert len(mismatch.seen[-1][1].gpus) == 8
