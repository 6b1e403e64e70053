"""Thousands of findings in one cycle are a handful of pages, and cost little."""

from __future__ import annotations

from pathlib import Path

from tests.alerts.storm_case import storm


def test_ten_thousand_findings_are_a_handful_of_pages_that_all_end(tmp_path: Path) -> None:
    came = storm(10_000, tmp_path, trace=False)
    assert 1 <= came.pages <= 5
    assert came.told == 10_000
    assert came.still_open == 0


def test_a_finding_costs_a_few_kilobytes(tmp_path: Path) -> None:
    assert storm(1_000, tmp_path).peak_bytes < 1_000 * 10_000
