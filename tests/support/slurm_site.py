"""A daemon beside a real Slurm: simulated agents on its nodes, a pager, and a `squeue` whose clock runs as fast."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests

from detectors.telemetry import GpuReading, SourceHealth
from tests.support.slurm_cluster import SlurmCluster
from watcher.snapshot import Snapshot

GIB = 1 << 30
GPUS = 8
SQUEUE = """\
#!{python}
import json, subprocess, sys
epoch, scale = {epoch}, {scale}
done = subprocess.run(["squeue", *sys.argv[1:]], capture_output=True, timeout=20)
if done.returncode:
    sys.stderr.buffer.write(done.stderr)
    sys.exit(done.returncode)
told = json.loads(done.stdout)
def faster(value):
    if isinstance(value, dict):
        return {{**value, "number": faster(value["number"])}}
    return int(epoch + (value - epoch) * scale) if value else value
for job in told["jobs"]:
    job.update((key, faster(job[key])) for key in ("submit_time", "start_time", "end_time"))
json.dump(told, sys.stdout)
"""


class Agents:
    """An HTTP server for each node. A node works while its `busy` file is there."""

    def __init__(self, nodes: tuple[str, ...], folder: Path, clock: Callable[[], float]) -> None:
        self.folder, self.clock = folder, clock
        self.errors = dict.fromkeys(nodes, 0)  # uncorrectable ECC errors of GPU 5
        self._servers = {node: self._serve(node) for node in nodes}
        self.addresses = {node: f"127.0.0.1:{server.server_port}" for node, server in self._servers.items()}

    def _serve(self, node: str) -> ThreadingHTTPServer:
        agents = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = agents.snapshot(node).model_dump_json().encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def snapshot(self, node: str) -> Snapshot:
        busy = (self.folder / f"busy-{node}").exists()
        wave = int(time.time() * 10) % 7
        gpus = tuple(
            GpuReading(
                uuid=f"GPU-{node}-{n}", index=n, minor=n, name="NVIDIA A100-SXM4-80GB", power_limit_watts=400.0,
                power_watts=(330.0 + wave) if busy else 60.0, utilization_ratio=0.98 if busy else 0.0,
                memory_utilization_ratio=0.5 if busy else 0.0, memory_used_bytes=(70 if busy else 0) * GIB,
                memory_total_bytes=80 * GIB, serial=f"1650{n}", pci_bus_id=f"00000000:{n:02x}:00.0",
                ecc_volatile_uncorrected_count=self.errors[node] if n == 5 else 0,
            )
            for n in range(GPUS)
        )  # fmt: skip
        health = {"nvml": SourceHealth(ok=True)}
        return Snapshot(node=node, stream="s", sent_at=self.clock(), gpus=gpus, gpus_age_seconds=0.1, health=health)

    def close(self) -> None:
        for server in self._servers.values():
            server.shutdown()
            server.server_close()


class Pager:
    """Takes PagerDuty events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        pager = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                pager.events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(202)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v2/enqueue"

    def triggers(self) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event["event_action"] == "trigger"]

    def open_keys(self) -> set[str]:
        now: set[str] = set()
        for event in list(self.events):
            (now.add if event["event_action"] == "trigger" else now.discard)(event["dedup_key"])
        return now

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class SlurmSite:
    """`runs`: the section of the daemon's file."""

    def __init__(self, slurm: SlurmCluster, runs: list[dict[str, Any]], scale: float) -> None:
        self.slurm, self.folder, self.runs, self.scale = slurm, slurm.folder, runs, scale
        self.epoch = time.time()
        self.agents = Agents(slurm.nodes, slurm.folder, lambda: self.epoch + (time.time() - self.epoch) * scale)
        self.pager = Pager()
        self._squeue = self.folder / "squeue-faster"
        self._squeue.write_text(SQUEUE.format(python=sys.executable, epoch=self.epoch, scale=scale))
        self._squeue.chmod(0o755)
        self.url = ""
        self._daemon: subprocess.Popen[bytes] | None = None

    def start_daemon(self) -> None:
        config = {
            "daemon": {
                "listen": "127.0.0.1:0",
                "database": str(self.folder / "runwatch.db"),
                "agents": {"addresses": self.agents.addresses},
            },
            "runs": self.runs,
            "fleet": {"slurm": {"squeue": str(self._squeue), "slurm_conf": str(self.slurm.conf)}},
            "channels": {"oncall": {"pagerduty": {"routing_key": "R", "url": self.pager.url}}},
            "routes": [{"severity": "critical", "to": ["oncall"]}],
            "clock_scale": self.scale,
            "clock_epoch": self.epoch,
        }
        file, said = self.folder / "daemon.yaml", self.folder / "daemon.err"
        file.write_text(json.dumps(config))
        with said.open("wb") as err:
            self._daemon = subprocess.Popen(
                [sys.executable, "-m", "watcher", "daemon", "--config", str(file)],
                env={**self.slurm.env, "PYTHONPATH": os.pathsep.join(sys.path)}, stderr=err, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        self.until(lambda: " listens on " in said.read_text(), "the daemon listens")
        self.url = f"http://{said.read_text().partition(' listens on ')[2].split()[0]}"

    def kill_daemon(self) -> None:
        assert self._daemon is not None
        self._daemon.kill()
        self._daemon.wait()

    def get(self, what: str) -> Any:
        return requests.get(f"{self.url}/api/{what}", timeout=10).json()

    def run(self, name: str) -> dict[str, Any] | None:
        return next((run for run in self.get("runs")["runs"] if run["run"] == name), None)

    def until(self, wanted: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            if value := wanted():
                return value
            time.sleep(0.1)
        said = (self.folder / "daemon.err").read_text()[-3000:]
        known = [self.get("incidents"), self.get("runs")] if self.url else ""
        raise AssertionError(f"not within {seconds:.0f} s: {what}\n{said}\n{json.dumps(known)[:6000]}")

    def close(self) -> None:
        if self._daemon is not None:
            self.kill_daemon()
        self.agents.close()
        self.pager.close()
