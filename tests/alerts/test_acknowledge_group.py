"""Whoever takes a page has all that stands on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.alerts.delivery_samples import CHAT, PAGER, House, Scripted
from tests.alerts.incident_samples import clear, finding, fires, gpu_finding
from watcher.clock import FakeClock

DARK = [gpu_finding(f"n{number}", gpu=None) for number in (1, 2, 3, 4)]


@pytest.fixture
def house(tmp_path: Path) -> House:
    clock = FakeClock()
    channels = {"oncall": (Scripted(clock), PAGER), "team": (Scripted(clock), CHAT)}
    return House(tmp_path, clock, channels, reminder_seconds=300.0)


def _kinds(house: House, channel: str) -> list[str]:
    return house.channels[channel][0].kinds  # type: ignore[attr-defined]


def test_acknowledging_one_of_a_page_ends_the_reminders_of_all_and_is_said_once(house: House) -> None:
    house.run(60, [fires(*DARK), fires(finding())])
    assert sorted(house.desk.company("n1/gpu_lost")) == ["n2/gpu_lost", "n3/gpu_lost", "n4/gpu_lost"]
    house.desk.acknowledge("n1/gpu_lost", "ada")
    house.deliver()
    assert {one.acknowledged_by for one in house.desk.incidents.values() if one.family == "gpu_lost"} == {"ada"}
    assert house.desk.incidents["tr7/stall"].acknowledged_at is None
    assert _kinds(house, "oncall").count("acknowledged") == 1
    house.desk.acknowledge("tr7/stall", "ada")
    house.run(1000, [fires(*DARK), fires(finding())])
    assert "reminder" not in _kinds(house, "team")
    assert _kinds(house, "oncall").count("acknowledged") == 2


def test_an_incident_of_its_own_has_no_company_and_neither_has_one_that_is_over(house: House) -> None:
    house.run(60, [fires(finding()), fires(*DARK)])
    assert house.desk.company("tr7/stall") == []
    house.run(60, [fires(*DARK[:2])])
    assert house.desk.company("n1/gpu_lost") == ["n2/gpu_lost"]
    house.run(60, [clear("gpu_lost", "gpu_lost")])
    assert house.desk.company("n1/gpu_lost") == []
    assert house.desk.company("nothing") == []
