"""What a look at a fleet without agents costs: an engine's answer about 2,048 nodes, and one node's exposition.

python tests/bench/bench_telemetry.py
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.exporters import Shown, dcgm
from watcher.telemetry._api import load_telemetry
from watcher.telemetry._fleet import NodeNames, samples_by_node
from watcher.telemetry._node import NodeTelemetry
from watcher.telemetry._prometheus_api import _data, _series
from watcher.telemetry._samples import read_exposition

NODES, GPUS, METRICS, SCRAPES, START = 2_048, 8, 14, 10, 1_790_000_000.0
T = TypeVar("T")


def timed(what: str, work: Callable[[], T]) -> T:
    began = time.process_time()
    done = work()
    print(f"{what}: {time.process_time() - began:.3f} s")
    return done


def body() -> bytes:
    """One metric of the whole fleet, as an engine answers a range selector."""
    values = [[START + 15 * n, str(90 + n)] for n in range(SCRAPES)]
    series = [
        {
            "metric": {"gpu": str(gpu), "UUID": f"GPU-{node}-{gpu}-8d2c-4f1e", "device": f"nvidia{gpu}",
                       "modelName": "NVIDIA H100 80GB HBM3", "Hostname": f"node{node:04d}", "job": "dcgm"},
            "values": values,
        }
        for node in range(NODES) for gpu in range(GPUS)
    ]  # fmt: skip
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}}).encode()


def main() -> None:
    dialect = load_telemetry()["dcgm_exporter"].dialect
    assert dialect is not None
    data = body()
    print(f"{NODES * GPUS} GPUs, {len(data) / 1e6:.1f} MB a metric")
    series = timed("one metric, read", lambda: _series(_data("", 200, data), 3))
    found = dict.fromkeys(dialect.metrics()[:METRICS], series)
    names = NodeNames([f"node{n:04d}" for n in range(NODES)])
    nodes = timed(f"{METRICS} metrics, by node", lambda: samples_by_node(found, "Hostname", names))
    telemetry = {node: NodeTelemetry(node, "prometheus", dialect) for node in nodes}
    timed(
        f"{NODES} snapshots",
        lambda: [telemetry[n].snapshot(START + 150, seen.samples, seen.taken_at) for n, seen in nodes.items()],
    )
    text = dcgm("n1", [Shown(index=n, energy_mj=1.0) for n in range(GPUS)])
    wanted, one = frozenset(dialect.metrics()), NodeTelemetry("n1", "dcgm_exporter", dialect)
    timed("100 expositions of one node", lambda: [one.snapshot(0, read_exposition(text, wanted)) for _ in range(100)])


if __name__ == "__main__":
    main()
