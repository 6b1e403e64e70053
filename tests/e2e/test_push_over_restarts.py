"""Real processes: a node that nobody can reach pushes, daemon and agent are killed. No step is lost or told twice."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from watcher.tokens import node_token

DEADLINE_SECONDS = 60.0
SCALE = 5.0
MASTER = "the-master-secret-of-this-site-0123456789"
LINE = (
    " iteration {step:8d}/  311541 | consumed samples: {step:12d} | "
    "elapsed time per iteration (ms): 10000.0 | lm loss: 2.5E+00 |\n"
)


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.recording = folder, folder / "train.log", folder / "seen.jsonl"
        self.log.touch()
        (folder / "master").write_text(f"{MASTER}\n")
        (folder / "token").write_text(node_token(MASTER, "n1"))
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        clock = {"clock_scale": SCALE, "clock_epoch": time.time()}
        push = {"url": self.url, "token_file": str(folder / "token")}
        agent = {"node": "n1", "listen": "127.0.0.1:0", "interval_seconds": 1, "push": push, "logs": [str(self.log)],
                 "state_file": str(folder / "positions.json")}  # fmt: skip
        daemon = {"listen": f"127.0.0.1:{port}", "database": str(folder / "x.db"), "interval_seconds": 1,
                  "agents": {"push": True, "master_file": str(folder / "master")},
                  "recording": {"path": str(self.recording)}}  # fmt: skip
        self.configs = {
            "agent": {"agent": agent, **clock},
            "daemon": {"daemon": daemon, "runs": [{"name": "r1", "nodes": ["n1"]}], **clock},
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, what: str) -> None:
        config = self.folder / f"{what}.yaml"
        config.write_text(json.dumps(self.configs[what]))
        with (self.folder / f"{what}.err").open("ab") as said:
            argv = [sys.executable, "-m", "watcher", what, "--config", str(config)]
            self.processes[what] = subprocess.Popen(argv, stdout=said, stderr=said)

    def kill(self, what: str) -> None:
        self.processes[what].send_signal(signal.SIGKILL)
        self.processes.pop(what).wait()

    def steps(self, first: int, last: int) -> None:
        with self.log.open("a") as file:
            file.writelines(LINE.format(step=step) for step in range(first, last + 1))

    def until(self, done: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + DEADLINE_SECONDS
        while not done():
            assert time.monotonic() < end, what + "".join(p.read_text()[-3000:] for p in self.folder.glob("*.err"))
            time.sleep(0.1)

    def run(self) -> dict[str, Any]:
        try:
            runs = requests.get(f"{self.url}/api/runs", timeout=5).json()["runs"]
        except requests.RequestException:
            return {"step": None}
        return runs[0] if runs else {"step": None}

    def told(self) -> list[tuple[str, int, int]]:
        """(stream, sequence number, step) of all that the daemons saw, in its order."""
        whole = (line for line in self.recording.read_text().splitlines() if line.endswith("}"))  # not torn by a kill
        snapshots = [told["snapshot"] for told in map(json.loads, whole) if "snapshot" in told]
        events = [(s["stream"], event) for s in snapshots for event in s.get("events", ()) if event["kind"] == "log"]
        return [(stream, e["seq"], e["event"]["step"]) for stream, e in events if e["event"].get("step") is not None]


@pytest.fixture
def site(tmp_path):
    one = Site(tmp_path)
    yield one
    for what in list(one.processes):
        one.kill(what)


def test_whatever_is_killed_each_step_is_told(site):
    site.start("agent")
    site.start("daemon")
    site.steps(1, 5)
    site.until(lambda: site.run()["step"] == 5, "the first steps are seen")
    first_life = site.told()
    site.kill("daemon")
    site.steps(6, 10)
    site.start("daemon")
    site.until(lambda: site.run()["step"] == 10, "steps of the outage are seen")
    second_life = site.told()[len(first_life) :]
    assert [step for _, _, step in first_life] == [1, 2, 3, 4, 5]
    assert [step for _, _, step in second_life] == list(range(1, 11)), "one that knows nothing is told all, in order"
    site.kill("agent")
    site.steps(11, 15)
    site.start("agent")
    site.until(lambda: site.run()["step"] == 15, "steps without an agent are seen")
    third_life = site.told()[len(first_life) + len(second_life) :]
    assert {step for _, _, step in third_life} >= set(range(11, 16))
    assert len({stream for stream, _, _ in third_life}) == 1
    assert third_life == sorted(set(third_life))
    assert site.run()["nodes"][0]["reachable"] is True
    site.kill("agent")
    site.until(lambda: site.run()["nodes"][0]["reachable"] is False, "its silence is seen")
    assert "push from n1 for" in site.run()["nodes"][0]["error"]
