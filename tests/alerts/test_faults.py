"""Whatever fails on the way: every incident is told, in order, none is ended wrongly, none is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.alerts.fault_cases import FAULTS, Fault, play


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_every_incident_is_told_in_order_and_none_is_lost_or_ended_wrongly(fault: Fault, tmp_path: Path) -> None:
    report = play(fault, tmp_path, incidents=16)
    assert report.lost == []
    assert report.wrongly_resolved == []
    assert report.out_of_order == []
    assert report.still_open == report.should_be_open
    assert report.late_seconds <= 600
