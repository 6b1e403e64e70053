"""What becomes of pages when something on their way is broken: the table of the README.

python tests/bench/bench_faults.py [SEEDS]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.alerts.fault_cases import FAULTS, Fault, Report, play
from tests.alerts.storm_case import storm

FINDINGS = 10_000


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print("| broken in the first hour of 2.5 | lost | ended wrongly or out of order | told again | last page |")
    print("|---|---|---|---|---|")
    for fault in FAULTS:
        print(row(fault, [_played(fault, seed) for seed in range(seeds)]), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        quick = storm(FINDINGS, Path(folder), trace=False)
    with tempfile.TemporaryDirectory() as folder:
        came = storm(FINDINGS, Path(folder))
    print(
        f"\n{came.findings} findings in one cycle: {came.pages} pages for {came.told} of them, {came.still_open} open"
        f" at the end; {quick.cycle_seconds:.1f} s, {came.peak_bytes / 1e6:.0f} MB at most"
    )


def row(fault: Fault, reports: list[Report]) -> str:
    """`last page`: how long after the fault was over, or after it was due."""
    count = sum(report.incidents for report in reports)
    lost = sum(len(report.lost) + len(report.should_be_open ^ report.still_open) for report in reports)
    wrong = sum(len(report.wrongly_resolved) + len(report.out_of_order) for report in reports)
    again = sum(report.repeated for report in reports)
    late = max(report.late_seconds for report in reports)
    return f"| {fault} | {lost} of {count} | {wrong} | {again} | {late:.0f} s |"


def _played(fault: Fault, seed: int) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        return play(fault, Path(folder), seed)


if __name__ == "__main__":
    main()
