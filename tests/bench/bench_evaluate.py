"""One evaluation of a very large run on one core, with half an hour of history: well, and at its worst.

python tests/bench/bench_evaluate.py [NODES]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from detectors.registry import load_plugins
from detectors.telemetry import GpuReading, HostReading
from watcher.daemon.answer import Answer
from watcher.daemon.evaluate import Evaluator, build_detectors
from watcher.daemon.fold import RunFold, RunSettings
from watcher.daemon.history import COLUMNS, ROWS, SLACK
from watcher.events import LogEvent
from watcher.snapshot import Event, Snapshot, XidLine

GPUS = 8
START = 1_700_000_000.0
MEASURED = 10
HOST = HostReading(
    run_cpu_cores=9.0, run_read_bytes_per_second=1e6, run_write_bytes_per_second=1e6, network_bytes_per_second=1e8,
    memory_used_bytes=200 << 30, memory_total_bytes=2000 << 30,
)  # fmt: skip
WELL = GpuReading(
    uuid="",
    index=0,
    name="NVIDIA H100 80GB HBM3",
    power_limit_watts=700.0,
    utilization_ratio=0.99,
    memory_utilization_ratio=0.5,
    memory_used_bytes=70 << 30,
    memory_total_bytes=80 << 30,
    temperature_celsius=60.0,
    ecc_volatile_corrected_count=0,
    ecc_volatile_uncorrected_count=0,
    pcie_replay_count=0,
    nvlink_error_count=0,
)


@dataclass(frozen=True, slots=True)
class Case:
    """`ticks` of it are played, the last ten are measured."""

    name: str
    ticks: int
    gpu: Callable[[GpuReading, int], GpuReading] = lambda gpu, tick: gpu
    steps: bool = True
    slower: float = 1.0
    events: Callable[[int, int], tuple[Event, ...]] = lambda node, tick: ()
    error: bool = False


def spinning(gpu: GpuReading, tick: int) -> GpuReading:
    return replace(gpu, power_watts=150.0, utilization_ratio=1.0)


def faulty(gpu: GpuReading, tick: int) -> GpuReading:
    return replace(
        gpu, power_watts=150.0, ecc_volatile_uncorrected_count=tick, remap_pending=True, remap_failed=tick % 2 == 0,
        throttle_ratios={"hw_thermal": 0.9}, pcie_replay_count=100 * tick, nvlink_down_count=1,
        ecc_volatile_corrected_count=10_000 * tick,
    )  # fmt: skip


def free(gpu: GpuReading, tick: int) -> GpuReading:
    return replace(gpu, power_watts=70.0, utilization_ratio=0.0, memory_used_bytes=0)


def storm(node: int, tick: int) -> tuple[Event, ...]:
    return (XidLine(seq=tick, age_seconds=0.0, code=(31, 74, 94)[tick % 3], gpu_uuid=f"GPU-{node:05d}-{tick % GPUS}"),)


CASES = (
    Case("well", ROWS + MEASURED),
    Case("6 % slower", 90, slower=1.06),
    Case("all spin", 60, gpu=spinning, steps=False),
    Case("a fault on every GPU, XIDs on every node", 40, gpu=faulty, steps=False, events=storm),
    Case("crashed", 20, gpu=free, steps=False, error=True),
)


class Fleet:
    """The run over all cases; `now` goes on."""

    def __init__(self, nodes: int) -> None:
        self.names = [f"node{n:05d}" for n in range(nodes)]
        self.fold = RunFold(RunSettings(name="large", nodes=tuple(self.names)))
        self.detectors, self.evaluator = build_detectors(load_plugins()), Evaluator()
        self.tick = 0
        self.step = 0

    def play(self, case: Case) -> list[float]:
        """Seconds of taking in the answers, of the frame, and of the detectors: medians of the last ten."""
        took: list[tuple[float, float, float]] = []
        for number in range(case.ticks):
            self.tick += 1
            took.append(self.once(case, first=number == 0))
        return [sorted(column)[MEASURED // 2] for column in zip(*took[-MEASURED:], strict=True)]

    def once(self, case: Case, first: bool) -> tuple[float, float, float]:
        now = START + 10.0 * self.tick
        answers = [self.answer(n, name, now, case) for n, name in enumerate(self.names)]
        began = time.perf_counter()
        for answer in answers:
            self.fold.observe(answer)
        if case.steps:
            self.step += 1
            event = LogEvent(event="step", step=self.step, loss=2.0, step_seconds=10.0 * case.slower)
            self.fold.observe_event(now - 1, event)
        if case.error and first:
            self.fold.observe_event(now - 1, LogEvent(event="error", kind="cuda_error", message="gone"))
        folded = time.perf_counter()
        frame = self.fold.frame(now)
        framed = time.perf_counter()
        self.evaluator.judge(frame, self.detectors)
        return folded - began, framed - folded, time.perf_counter() - framed

    def answer(self, number: int, name: str, now: float, case: Case) -> Answer:
        gpus: Sequence[GpuReading] = tuple(
            case.gpu(
                replace(
                    WELL,
                    uuid=f"GPU-{number:05d}-{i}",
                    index=i,
                    power_watts=600.0 + (number * 7 + i * 3 + self.tick * 5) % 60,
                    sm_clock_mhz=1700.0 + (number + self.tick) % 20,
                ),
                self.tick,
            )
            for i in range(GPUS)
        )
        snapshot = Snapshot.model_construct(
            node=name, stream="s", sent_at=now, gpus_age_seconds=0.0, gpus=gpus, host=HOST,
            events=case.events(number, self.tick),
        )  # fmt: skip
        return Answer(name, now, snapshot)


def main() -> int:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 2048
    fleet = Fleet(nodes)
    bytes_per_gpu = int(ROWS * SLACK) * sum(4 if kind.__name__ == "float32" else 2 for kind in COLUMNS.values())
    print(f"{nodes} nodes, {nodes * GPUS} GPUs, {len(fleet.detectors)} detectors; history {bytes_per_gpu} B a GPU")
    print(f"medians of {MEASURED} evaluations\n")
    print("| the run | take in answers | frame | detectors | together |")
    print("|---|---|---|---|---|")
    for case in CASES:
        took = fleet.play(case)
        print(f"| {case.name} | {' | '.join(f'{one:.2f} s' for one in [*took, sum(took)])} |", flush=True)
    assert not fleet.evaluator.failures, dict(fleet.evaluator.failures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
