"""deploy/metrics.md is what agent and daemon export. RUNWATCH_UPDATE=1 writes its tables anew."""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from tests.support.full_agent import GPUS, full_agent, registry_of
from tests.support.watched_fleet import WatchedFleet
from watcher.simulate.fleet import Fleet
from watcher.simulate.script import SCRIPTS

DOCUMENT = Path(__file__).resolve().parents[2] / "deploy/metrics.md"
RUNS, NODES = 2, 4  # of the daemon here
MOST_OF_A_NODE = 500  # series, eight GPUs: what a Prometheus for some thousand nodes still takes


@dataclass(frozen=True)
class Exported:
    """Families of a daemon with two runs on four nodes, and of one agent with eight GPUs that have all readings."""

    daemon: list[Metric]
    agent: list[Metric]

    def of(self, prefix: str) -> list[Metric]:
        return [f for f in self.agent if f.name.startswith(prefix)]


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Iterator[Exported]:
    fleets = {
        "hangs": Fleet(script=SCRIPTS["deadlock"], gpus=2),
        "idles": Fleet(script=SCRIPTS["dataloader"], nodes=("n3", "n4"), gpus=2),
    }
    with ExitStack() as stack:
        fleet = WatchedFleet(tmp_path_factory.mktemp("fleet"), fleets, 1.7e9, stack)
        asyncio.run(fleet.play(900))
        yield Exported(
            fleet.families()["runwatch"], list(registry_of(full_agent(tmp_path_factory.mktemp("agent"))).collect())
        )


def names_of(family: Metric) -> str:
    suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
    return f"{family.name}{suffix if not family.name.startswith('process_') else ''}"


def table(families: Iterable[Metric]) -> str:
    rows = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for family in families:
        if family.name.startswith("process_"):
            continue
        labels = sorted({label for sample in family.samples for label in sample.labels})
        kind = {"info": "gauge, always 1"}.get(family.type, family.type)
        cells = ", ".join(f"`{label}`" for label in labels)
        rows.append(f"| `{names_of(family)}` | {kind} | {cells} | {family.documentation} |")
    return "\n".join(rows)


PROCESS = "\nBeside these its own `process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_open_fds`, \
`process_max_fds`,\n`process_virtual_memory_bytes` and `process_start_time_seconds`."


def per_node(exported: Exported) -> Counter[str]:
    """What a series of the agent is there for -> how many there are."""
    counts: Counter[str] = Counter()
    for sample in (sample for family in exported.agent for sample in family.samples):
        labels = sample.labels
        counts[next((key for key in ("xid", "gpu", "mount", "port") if key in labels), "node")] += 1
    return counts


def daemon_series(exported: Exported) -> Counter[str]:
    counts: Counter[str] = Counter()
    for sample in (sample for family in exported.daemon for sample in family.samples):
        counts[
            next((key for key in ("node", "signature", "run", "channel", "detector") if key in sample.labels), "daemon")
        ] += 1
    return counts


def series(exported: Exported) -> str:
    agent, daemon = per_node(exported), daemon_series(exported)
    gpu = agent["gpu"] // GPUS
    whole = agent["node"] + agent["gpu"] + agent["mount"] + agent["port"]
    run, node = daemon["run"] // RUNS, daemon["node"] // NODES
    return "\n".join(
        [
            f"An agent, at most: {agent['node']} for the node, {gpu} for each GPU, 2 for each disk, 1 for each port,",
            "and 1 for each XID code that a GPU has had.",
            f"A node with 8 GPUs, 2 disks and 2 ports: {agent['node']} + 8 x {gpu} + 2 x 2 + 2 = **{whole}**.",
            "",
            f"The daemon: {daemon['daemon']} of its own, 1 for each detector, {run} for each run,",
            f"2 for each detector in a run, {node} for each node, {daemon['channel'] // 2} for each channel.",
            f"A thousand nodes of 8 GPUs: some {1000 * (whole + node) / 1e6:.2f} million series.",
        ]
    )


def written(exported: Exported) -> dict[str, Callable[[], str]]:
    return {
        "daemon": lambda: table(exported.daemon) + "\n" + PROCESS,
        "agent": lambda: table(exported.of("runwatch_agent")) + "\n" + PROCESS,
        "gpu": lambda: table(exported.of("runwatch_gpu")),
        "host": lambda: table(exported.of("runwatch_host")),
        "series": lambda: series(exported),
    }


@pytest.mark.parametrize("part", ["daemon", "agent", "gpu", "host", "series"])
def test_the_tables_are_what_is_exported(exported, part):
    text = DOCUMENT.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {part} -->\n(.*?)<!-- /{part} -->", text, re.DOTALL)
    assert found, f"deploy/metrics.md has no <!-- {part} --> ... <!-- /{part} -->"
    wanted = written(exported)[part]() + "\n"
    if os.environ.get("RUNWATCH_UPDATE") and found[1] != wanted:
        DOCUMENT.write_text(text[: found.start(1)] + wanted + text[found.end(1) :], encoding="utf-8")
        return
    assert found[1] == wanted, "RUNWATCH_UPDATE=1 python -m pytest tests/deploy/test_metrics_document.py writes it anew"


def test_the_parts_of_the_agent_are_all_of_it(exported):
    parts = [*exported.of("runwatch_agent"), *exported.of("runwatch_gpu"), *exported.of("runwatch_host")]
    rest = {f.name for f in exported.agent} - {f.name for f in parts}
    assert {name for name in rest if not name.startswith("process_")} == set()


def test_the_series_of_a_node_have_a_bound_and_each_gpu_has_the_same(exported):
    counts = per_node(exported)
    assert sum(counts.values()) <= MOST_OF_A_NODE
    assert counts["gpu"] % GPUS == 0
    by_gpu = Counter(
        sample.labels["gpu"] for f in exported.agent for sample in f.samples if _of_gpu(sample)
    )  # fmt: skip
    assert len(set(by_gpu.values())) == 1
    assert len(by_gpu) == GPUS


def _of_gpu(sample: Sample) -> bool:
    return "gpu" in sample.labels and "xid" not in sample.labels
