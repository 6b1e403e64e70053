"""What the node agent costs beside nvitop-exporter and Meta's gpucm monitor, on the same fake NVML with 8 GPUs.

    python tests/bench/bench_agent.py [--seconds 60] [--scrapes 500] [--keep FOLDER]

Each program is installed from PyPI into an environment of its own (ours from this checkout) and reads once a second.
CPU is the time on a core of all its processes; memory is their proportional set size.
The fake answers at once, a real driver takes 0.01 to 10 ms a call: so the number of calls counts as well.
Processor time is measured with all of them running side by side, memory with each alone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.fake_nvml import FakeNvml  # noqa: E402

WARM_UP_SECONDS = 8


@dataclass(frozen=True, slots=True)
class Peer:
    """`arguments(bin, folder, port)`: its command line. `page`: what is scraped, where it can be."""

    name: str
    install: str
    arguments: Callable[[Path, Path, int], list[str]]
    page: str | None = "/metrics"


def ours(bin: Path, folder: Path, port: int) -> list[str]:
    log = folder / "train.log"
    log.write_text("".join(f"step {n} loss 2.1\n" for n in range(100)))
    config = folder / "agent.yaml"
    config.write_text(f"agent: {{listen: 127.0.0.1:{port}, interval_seconds: 1, logs: [{log}]}}\n")
    return [str(bin / "runwatch"), "agent", "--config", str(config)]


PEERS = (
    Peer("runwatch agent", str(ROOT), ours),
    Peer(
        "nvitop-exporter",
        "nvitop-exporter",
        lambda bin, folder, port: [str(bin / "nvitop-exporter"), "-B", "127.0.0.1", "-p", str(port), "-H", "node1"],
    ),
    Peer(
        "gpucm nvml_monitor",
        "gpucm",
        lambda bin, folder, port: [
            str(bin / "gcm"), "--config", "/dev/null", "nvml_monitor", "--sink", "do_nothing", "--cluster", "c",
            "--log-folder", str(folder), "--push-interval", "5", "--collect-interval", "1", "--interval", "5",
        ],
        page=None,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cost:
    """`sample_ms`: CPU of one reading of 8 GPUs; `scrape_ms`: of one scrape; None: it cannot be scraped."""

    sample_ms: float
    scrape_ms: float | None
    processes: int
    calls_per_sample: float
    kilobytes: float | None


def environment(peer: Peer, folder: Path) -> Path:
    place = folder / peer.name.split()[0]
    if place.exists():
        return place / "bin"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    subprocess.run(
        [str(place / "bin/pip"), "install", "-q", "--disable-pip-version-check", peer.install],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return place / "bin"


def family(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from family(int(child))


def cpu_seconds(pid: int) -> float:
    """Of all its processes, threads that ended included; in steps of 10 ms."""
    total = 0
    for one in family(pid):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def pss_megabytes(pid: int) -> float:
    total = 0
    for one in family(pid):
        for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Running:
    """A program at work on a fake of its own."""

    def __init__(self, peer: Peer, folder: Path) -> None:
        self.peer = peer
        work = folder / f"work-{peer.name.split()[0]}"
        fake = FakeNvml(work / "nvml", gpus=8, with_stubs=True)
        self._counter = work / "calls"
        self._counter.write_bytes(bytes(8))
        self._port = free_port()
        env = {name: value for name, value in fake.env().items() if not name.startswith("PYTHON")}
        self._process = subprocess.Popen(
            peer.arguments(environment(peer, folder), work, self._port),
            env={**env, "FAKE_NVML_COUNT": str(self._counter)}, cwd=work,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)

    @property
    def cpu(self) -> float:
        assert self._process.poll() is None, f"{self.peer.name} ended"
        return cpu_seconds(self._process.pid)

    @property
    def calls(self) -> int:
        return int(struct.unpack("q", self._counter.read_bytes())[0])

    @property
    def processes(self) -> int:
        return len(list(family(self._process.pid)))

    @property
    def pss(self) -> float:
        return pss_megabytes(self._process.pid)

    def scrape(self, times: int, sample: float) -> tuple[float, int] | None:
        """CPU seconds of one scrape, less what the readings meanwhile took; and the bytes of a page."""
        if self.peer.page is None:
            return None
        cpu, began, size = self.cpu, time.monotonic(), 0
        for _ in range(times):
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{self.peer.page}", timeout=10) as reply:
                size = len(reply.read())
        return (self.cpu - cpu - sample * (time.monotonic() - began)) / times, size


def memory(folder: Path, console: Console) -> dict[str, float]:
    """Each alone, for what programs share would count for half."""
    out = {}
    for peer in PEERS:
        with console.status(f"{peer.name} alone: memory"), Running(peer, folder) as running:
            time.sleep(WARM_UP_SECONDS)
            running.scrape(20, 0.0)
            out[peer.name] = running.pss
    return out


def processor(folder: Path, seconds: int, scrapes: int, console: Console) -> dict[str, Cost]:
    """All at the same time, so that all meet the same machine."""
    out = {}
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(Running(peer, folder)) for peer in PEERS]
        time.sleep(WARM_UP_SECONDS)
        before = [(one.cpu, one.calls) for one in running]
        for _ in track(range(seconds), "all together: readings", console=console, transient=True):
            time.sleep(1)
        after = [(one.cpu, one.calls) for one in running]
        for one, (cpu, calls), (cpu_then, calls_then) in zip(running, before, after, strict=True):
            sample = (cpu_then - cpu) / seconds
            page = one.scrape(scrapes, sample)
            out[one.peer.name] = Cost(
                sample * 1000, None if page is None else page[0] * 1000, one.processes,
                (calls_then - calls) / seconds, None if page is None else page[1] / 1000,
            )  # fmt: skip
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--scrapes", type=int, default=500)
    parser.add_argument("--keep", type=Path, help="where the environments are kept for the next time")
    args = parser.parse_args()
    console = Console(stderr=True)
    table = Table()
    columns = ("program", "CPU a sample", "CPU a scrape", "memory (PSS)", "processes", "NVML calls a sample", "page")
    for name in columns:
        table.add_column(name)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for peer in PEERS:
            with console.status(f"{peer.name}: installing"):
                environment(peer, folder)
        pss = memory(folder, console)
        for name, cost in processor(folder, args.seconds, args.scrapes, console).items():
            table.add_row(
                name,
                f"{cost.sample_ms:.1f} ms",
                "-" if cost.scrape_ms is None else f"{cost.scrape_ms:.1f} ms",
                f"{pss[name]:.1f} MB",
                str(cost.processes),
                f"{cost.calls_per_sample:.0f}",
                "-" if cost.kilobytes is None else f"{cost.kilobytes:.0f} kB",
            )
    Console(width=120).print(table)
    return 0


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.exit(main())
