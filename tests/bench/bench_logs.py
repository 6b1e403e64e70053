"""How fast logs are read, on one core, beside mtail with rules for the same on the same file.

    python tests/bench/bench_logs.py [--megabytes 60] [--rounds 3]

CPU time of a process that reads the whole file, less that of one that reads an empty file; the best of the rounds,
which take turns. runwatch looks for every format and error that it knows; mtail for those in train.mtail.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
READ = """
import sys
from watcher.agent.follow import LogFollower
from watcher.clock import FakeClock
from watcher.config.logs import LogConfig
clock = FakeClock()
follower = LogFollower([LogConfig(path=sys.argv[1], from_start=True)], "n1", None, clock)
steps, lines, before = 0, 0, -1
while lines > before:
    clock.advance(20)
    steps += sum(event.event.event == "step" for event in follower.poll())
    lines, before = follower.statuses(0)[0].lines, lines
print(steps)
"""
QUIET = "loading shard cache hit for key value tensor with shape and stride on device queue depth buffer handler"
LOUD = "step loss iteration epoch checkpoint error rank worker timeout evaluation training lr throughput"


def record(step: int) -> str:
    return (
        f" iteration {step:8d}/  500000 | consumed samples: {step * 2048:12d} | elapsed time per iteration (ms): "
        f"{1900 + step % 50:.1f} | learning rate: 5.999E-05 | global batch size:  2048 | lm loss: "
        f"{2 + step % 7 / 10:.6E} | grad norm: 0.{100 + step % 800} | num zeros: 0.0 | number of skipped iterations:"
        f"   0 | number of nan iterations:   0 | TFLOPs: 149.{step % 100:02d} |\n"
    )


def chatter(rng: random.Random, words: str) -> str:
    return f"[2024-03-01 12:00:{rng.randrange(60):02d}] {' '.join(rng.choices(words.split(), k=12))}\n"


def lines_of(words: str, records_every: int = 0) -> Iterator[str]:
    """`records_every` 0: none at all."""
    rng, number = random.Random(1), 0
    while True:
        number += 1
        yield record(number) if records_every and number % records_every == 0 else chatter(rng, words)


FILES: dict[str, Callable[[], Iterator[str]]] = {
    "lines that hold nothing": lambda: lines_of(QUIET),
    "lines of words that records hold": lambda: lines_of(LOUD),
    "one record in 50 lines": lambda: lines_of(QUIET, records_every=50),
    "records only": lambda: lines_of(QUIET, records_every=1),
}


def write(path: Path, lines: Iterator[str], size: int) -> tuple[int, int]:
    """Bytes and lines written."""
    written = count = 0
    with path.open("w") as file:
        while written < size:
            written += file.write(next(lines))
            count += 1
    return written, count


def cpu_seconds(command: list[str]) -> float:
    """User and system time of a command that is kept on one core."""
    core = min(os.sched_getaffinity(0))
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=HERE.parents[1],
        env={**os.environ, "GOMAXPROCS": "1", "PYTHONPATH": str(HERE.parents[1])},
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command[0]} failed with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def runwatch(path: Path) -> list[str]:
    return [sys.executable, "-c", READ, str(path)]


def mtail(path: Path) -> list[str]:
    return ["mtail", "-one_shot", "-one_shot_format", "json", "-logs", str(path), "-progs", str(HERE / "train.mtail")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=60.0, help="size of each file")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    tools: dict[str, Callable[[Path], list[str]]] = {"runwatch": runwatch}
    if shutil.which("mtail"):
        tools["mtail"] = mtail
    else:
        print("without mtail: it is not installed (Debian: apt-get install mtail)")
    table = Table("file", "reader", "lines/s", "MB/s", "times mtail", title="one core, CPU time")
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.log"
        empty.write_text("\n")
        start = {name: min(cpu_seconds(tool(empty)) for _ in range(args.rounds)) for name, tool in tools.items()}
        for title, lines in FILES.items():
            path = Path(folder) / "train.log"
            size, count = write(path, lines(), int(args.megabytes * 1e6))
            rounds = [{name: cpu_seconds(tool(path)) for name, tool in tools.items()} for _ in range(args.rounds)]
            best = {name: max(1e-3, min(r[name] for r in rounds) - start[name]) for name in tools}
            for name, seconds in best.items():
                ratio = f"{best['mtail'] / seconds:.2f}" if "mtail" in best else "-"
                table.add_row(title, name, f"{count / seconds:,.0f}", f"{size / seconds / 1e6:.1f}", ratio)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
