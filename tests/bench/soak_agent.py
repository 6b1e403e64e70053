"""Does the agent grow? 100,000 cycles over the fake NVML, as fast as they go, with a daemon that asks after each.

    python tests/bench/soak_agent.py [--cycles 100000]

A log grows by a line a cycle and is rotated now and then, a GPU is lost and comes back, XIDs come, the reader of the
GPUs crashes and is replaced. Prints the memory of its own that each process holds (what is shared with other programs
comes and goes with them), open files and threads at each tenth.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.bench_agent import cpu_seconds, family  # noqa: E402
from tests.support.fake_nvml import LOST, FakeNvml  # noqa: E402
from watcher.agent.app import Agent  # noqa: E402
from watcher.agent.follow import LogFollower  # noqa: E402
from watcher.agent.http import build_app  # noqa: E402
from watcher.agent.server import Request  # noqa: E402
from watcher.clock import SystemClock  # noqa: E402
from watcher.config.agent import AgentConfig  # noqa: E402
from watcher.sources.host import HostSource  # noqa: E402
from watcher.sources.kernel_log import KernelLog  # noqa: E402
from watcher.sources.nvml import NvmlSource  # noqa: E402

INTERVAL_SECONDS = 10.0
ROTATE_EVERY, LOSE_EVERY, CRASH_EVERY = 2_000, 5_000, 20_000


class Ahead(SystemClock):
    """Real waits, and ten seconds more with each cycle."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


async def soak(cycles: int, folder: Path) -> None:
    clock, fake = Ahead(), FakeNvml(folder / "nvml", gpus=8)
    log = folder / "train.log"
    log.touch()
    config = AgentConfig.model_validate({"agent": {"node": "n1", "logs": [str(log)]}}).agent
    follower = LogFollower(config.logs, "n1", folder / "positions.json", clock)
    gpus = NvmlSource(clock, env=fake.env())
    agent = Agent(config, clock, gpus, follower, HostSource(clock, [folder]), KernelLog(clock))
    answer = build_app(agent, None)
    print(
        "| cycle | agent | reader | open files | threads | readers replaced | CPU a cycle |\n"
        "|---|---|---|---|---|---|---|"
    )
    cpu = cpu_seconds(os.getpid())
    for cycle in range(cycles + 1):
        with log.open("a") as file:
            file.write(f"step {cycle} loss 2.{cycle % 97} lr 1e-4\n")
        await agent.cycle()
        await answer(Request("GET", "/snapshot", {"since": f"{agent.ring.stream}:{max(0, cycle - 3)}"}, {}))
        if cycle % 10 == 0:
            await answer(Request("GET", "/metrics", {}, {}))
        clock.ahead += INTERVAL_SECONDS
        disturb(cycle, log, fake)
        if cycle % (cycles // 10) == 0 and cycle:
            used, cpu = cpu_seconds(os.getpid()) - cpu, cpu_seconds(os.getpid())
            files = sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in family(os.getpid()))
            agent_mb, *reader_mb = (own_megabytes(pid) for pid in family(os.getpid()))
            print(
                f"| {cycle} | {agent_mb:.1f} MB | {sum(reader_mb):.1f} MB | {files} | {threading.active_count()} "
                f"| {gpus.replacements_count} | {used / (cycles / 10) * 1000:.2f} ms |",
                flush=True,
            )
    await gpus.close()
    assert agent.gpus.latest is not None


def own_megabytes(pid: int) -> float:
    """Anonymous memory of a process, of this one after garbage is collected."""
    if pid == os.getpid():
        gc.collect()
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:")) / 1024


def disturb(cycle: int, log: Path, fake: FakeNvml) -> None:
    if cycle % ROTATE_EVERY == ROTATE_EVERY - 1:
        log.rename(log.with_name("train.log.1"))
        log.touch()
    if cycle % LOSE_EVERY == 100:
        fake.error(3, "*", LOST)
        fake.xid(3, 79)
    if cycle % CRASH_EVERY == 200:
        fake.crash("*", "nvmlDeviceGetPowerUsage")
    if cycle % LOSE_EVERY in (150, 201):
        fake.heal()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=100_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(soak(args.cycles, Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
