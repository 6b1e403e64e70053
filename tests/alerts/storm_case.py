"""Everything at once: what a daemon sends, needs and keeps when thousands of GPUs are lost in one cycle."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import dataclass
from pathlib import Path

from alerts.channels.pagerduty import PagerDuty, PagerDutySection
from alerts.incidents import Judged
from alerts.secret import Secret
from detectors.verdict import Finding, Subject, firing
from tests.alerts.delivery_samples import PAGER, House
from tests.alerts.http_script import ScriptedServer
from tests.alerts.incident_samples import T0, clear, finding, judged
from tests.support.pager import Pager
from watcher.clock import FakeClock

KINDS, RUNS, GPUS = 20, 8, 8


@dataclass(frozen=True, slots=True)
class Storm:
    """`told` counts the findings that a page stands for; seconds are of the wall, of the whole first cycle."""

    findings: int
    pages: int
    told: int
    still_open: int
    cycle_seconds: float
    peak_bytes: int


def judgements(count: int) -> list[Judged]:
    """GPUs of many nodes and runs, each with one of many kinds of trouble."""
    found: dict[tuple[str, str], list[Finding]] = {}
    for number in range(count):
        run, kind, node = f"run{number % RUNS}", f"kind{number % KINDS}", f"n{number // GPUS}"
        subject = Subject(run=run, node=node, gpu=f"GPU-{number}", gpu_index=number % GPUS)
        found.setdefault((run, kind), []).append(finding(kind, family=kind, subject=subject))
    return [judged(firing(many), kind, kind, run=run) for (run, kind), many in found.items()]


def storm(count: int, folder: Path, trace: bool = True) -> Storm:
    """`trace`: count the memory, which takes several times as long."""
    clock, server = FakeClock(T0), ScriptedServer()
    pager = Pager(lambda: clock.now)
    server.judge_with(pager.answer)
    channel = PagerDuty(PagerDutySection(routing_key=Secret("R" * 32), url=server.url("/v2/enqueue")))
    house = House(folder, clock, {"oncall": (channel, PAGER)})
    found = judgements(count)
    if trace:
        tracemalloc.start()
    began = time.perf_counter()
    house.tick(*found)
    took = time.perf_counter() - began
    house.run(60, found, every=30)
    peak = tracemalloc.get_traced_memory()[1] if trace else 0
    tracemalloc.stop()
    pages = len({key for _, action, key in pager.taken if action == "trigger"})
    told = len(house.desk.decision.told)
    house.run(90, [clear(one.signature, one.family, run=one.run) for one in found], every=30)
    still_open = len(pager.open)
    house.kill()
    server.stop()
    return Storm(count, pages, told, still_open, took, peak)
