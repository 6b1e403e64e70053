"""One evaluation of a very large run on one core: seconds per evaluation, and bytes of history per GPU.

python tests/bench/bench_evaluate.py [NODES]
"""

from __future__ import annotations

import sys
import time

from detectors.registry import load_plugins
from detectors.telemetry import GpuReading
from watcher.daemon.answer import Answer
from watcher.daemon.evaluate import Evaluator, build_detectors
from watcher.daemon.fold import RunFold, RunSettings
from watcher.daemon.history import COLUMNS, ROWS, SLACK
from watcher.events import LogEvent
from watcher.snapshot import Snapshot

GPUS = 8
START = 1_700_000_000.0
WARM_UP, MEASURED = 40, 10


def reading(node: int, index: int, tick: int) -> GpuReading:
    return GpuReading(
        uuid=f"GPU-{node:05d}-{index}",
        index=index,
        name="NVIDIA H100 80GB HBM3",
        power_watts=600.0 + (node * 7 + index * 3 + tick * 5) % 60,
        power_limit_watts=700.0,
        utilization_ratio=0.99,
        memory_utilization_ratio=0.5,
        memory_used_bytes=70 << 30,
        memory_total_bytes=80 << 30,
        temperature_celsius=60.0,
        sm_clock_mhz=1700.0 + (node + tick) % 20,
        ecc_volatile_corrected_count=0,
        ecc_volatile_uncorrected_count=0,
    )


def main() -> int:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 2048
    names = tuple(f"node{n:05d}" for n in range(nodes))
    fold = RunFold(RunSettings(name="large", nodes=names))
    detectors, evaluator = build_detectors(load_plugins()), Evaluator()
    folds, frames, judges = [], [], []
    for tick in range(WARM_UP + MEASURED):
        now = START + 10.0 * tick
        answers = [
            Answer(
                name,
                now,
                Snapshot.model_construct(
                    node=name, stream="s", sent_at=now, gpus_age_seconds=0.0,
                    gpus=tuple(reading(n, g, tick) for g in range(GPUS)),
                ),
            )
            for n, name in enumerate(names)
        ]  # fmt: skip
        began = time.perf_counter()
        for answer in answers:
            fold.observe(answer)
        fold.observe_event(now - 1, LogEvent(event="step", step=tick + 1, loss=2.0, step_seconds=10.0))
        folded = time.perf_counter()
        frame = fold.frame(now)
        framed = time.perf_counter()
        evaluator.judge(frame, detectors)
        if tick >= WARM_UP:
            folds.append(folded - began)
            frames.append(framed - folded)
            judges.append(time.perf_counter() - framed)
    bytes_per_gpu = int(ROWS * SLACK) * sum(4 if kind.__name__ == "float32" else 2 for kind in COLUMNS.values())
    middle = [sorted(times)[len(times) // 2] for times in (folds, frames, judges)]
    print(f"{nodes} nodes, {nodes * GPUS} GPUs, {len(detectors)} detectors, median of {MEASURED} evaluations\n")
    print("| take in answers | frame | detectors | together | history |")
    print("|---|---|---|---|---|")
    print(
        f"| {middle[0]:.2f} s | {middle[1]:.2f} s | {middle[2]:.2f} s | {sum(middle):.2f} s | {bytes_per_gpu} B a GPU |"
    )
    assert not evaluator.failures, dict(evaluator.failures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
