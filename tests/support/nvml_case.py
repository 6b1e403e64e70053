"""Plays a scripted NVML case through the real agent and the deciding half of the daemon.

Real pynvml, C library, child process, endpoints, log follower; what the agent says is folded and judged.
"""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from alerts.incidents import Transition
from detectors.registry import load_plugins
from tests.support.fake_nvml import FakeNvml
from tests.support.runs import START
from watcher.agent.app import Agent
from watcher.agent.follow import LogFollower
from watcher.agent.http import build_app
from watcher.agent.server import serving
from watcher.bind import bind
from watcher.clock import SystemClock
from watcher.config.agent import AgentConfig
from watcher.config.listen import Listen
from watcher.config.logs import LogConfig
from watcher.daemon.answer import Answer
from watcher.daemon.evaluate import build_detectors
from watcher.daemon.fold import RunFold, RunSettings
from watcher.daemon.pipeline import Pipeline, WatchedRun
from watcher.snapshot import Snapshot, parse_snapshot
from watcher.sources.nvml import NvmlSource

NODE = "n01"

KEYS = {
    "nvmlDeviceGetPowerUsage": "power_mw",
    "nvmlDeviceGetEnforcedPowerLimit": "limit_mw",
    "nvmlDeviceGetTemperature": "temperature",
}
ECC_KEYS = {
    (0, 0): "ecc_volatile_corrected",
    (1, 0): "ecc_volatile_uncorrected",
    (0, 1): "ecc_aggregate_corrected",
    (1, 1): "ecc_aggregate_uncorrected",
}
REAL_DEADLINE = 1.0


class MovedClock(SystemClock):
    """What the case has advanced; differences also count the real time that passed."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = 0.0

    def time(self) -> float:
        return START + self.shift

    def monotonic(self) -> float:
        return super().monotonic() + self.shift

    def real_seconds(self, seconds: float) -> float:
        return min(REAL_DEADLINE, seconds)


class Played:
    """A case on a virtual clock: the agent's cycles at its interval, its endpoints probed, its answers judged.

    `seen`: second, snapshot and status of /healthz of each probe. `steps`: second and the last step known then.
    """

    def __init__(self, case: dict[str, Any], folder: Path) -> None:
        self.case, self.clock, self.folder = case, MovedClock(), folder
        devices = case["input"]["devices"]
        self.fake = FakeNvml(folder, gpus=len(devices))
        for device in devices:
            values = {"uuid": device["uuid"], "pci": device["pci_bus_id"], "name": device["name"].replace(" ", "_")}
            for function, answer in case["input"]["baseline"].items():
                if function in KEYS:
                    values[KEYS[function]] = answer["value"]
            self.fake.set(device["index"], **values)
        self.interval = case["config"]["collect_interval_s"]
        self.log = folder / "train.log"
        self.agent = self._agent()
        self.fold = RunFold(RunSettings(name="train", nodes=(NODE,), interval_seconds=self.interval))
        self.pipeline = Pipeline([WatchedRun(self.fold, build_detectors(load_plugins(), {}))])
        self.transitions: list[Transition] = []
        self.seen: list[tuple[float, Snapshot, int]] = []
        self.steps: list[tuple[float, int | None]] = []
        self.metrics: list[tuple[float, str]] = []
        self.slowest = 0.0
        self.ramp: dict[str, Any] | None = None
        self._since = ""

    def _agent(self) -> Agent:
        config = AgentConfig.model_validate({"agent": {"node": NODE, "interval_seconds": self.interval}}).agent
        source = NvmlSource(self.clock, env=self.fake.env(), stuck_seconds=45, gpu_seconds=0.3)
        logs = [LogConfig(path=str(self.log))] if "training_log" in self.case["input"] else []
        follower = LogFollower(logs, NODE, self.folder / "positions", self.clock) if logs else None
        return Agent(config, self.clock, source, follower)

    async def play(self) -> Played:
        """Each stretch between two restarts of the agent is a life of its own."""
        restarts = [entry["t"] for entry in self.case["input"]["timeline"] if entry.get("agent_restart")]
        begin = 0
        for end in (*restarts, self.case["input"]["end_t"] + 1):
            sock = bind(Listen("127.0.0.1", 0))
            async with serving(build_app(self.agent, None), sock), ClientSession() as http:
                await self._live(http, f"http://127.0.0.1:{sock.getsockname()[1]}", range(begin, end, self.interval))
            await self.agent.gpus.close()
            if self.agent.follower is not None:
                self.agent.follower.close()
            begin, self.agent = end, self._agent()
            self.agent.boot_id = f"boot-{end}"
        return self

    async def _live(self, http: ClientSession, url: str, times: range) -> None:
        timeline = [entry for entry in self.case["input"]["timeline"] if times.start <= entry["t"] < times.stop]
        for t in times:
            while timeline and timeline[0]["t"] <= t:
                self._apply(timeline.pop(0))
            if self.ramp is not None:
                self._climb(t)
            self._write_log(t)
            cycle = asyncio.create_task(self.agent.cycle())
            await self._probe(http, url, t)  # in the middle of a cycle that may hang
            await cycle
            await self._probe(http, url, t)
            self._judge(t)
            self.clock.shift += self.interval
        self.fake.heal()

    def _write_log(self, t: float) -> None:
        """A step each ten seconds, and the words at the end, as the case says."""
        log = self.case["input"].get("training_log")
        if log is None:
            return
        times = [at for at in range(0, log["t_last_step"] + 1, 10) if t - self.interval < at <= t]
        lines = [f"step={at // 10} loss=2.1\n" for at in times]
        if t - self.interval < log["t_end_line"] <= t:
            lines.append("training finished\n")
        with self.log.open("a") as file:
            file.writelines(lines)

    def _judge(self, t: float) -> None:
        snapshot = self.seen[-1][1]
        self._since = f"{snapshot.stream}:{snapshot.next_seq}"
        self.fold.observe(Answer(NODE, START + t, snapshot))
        self.transitions += self.pipeline.tick(START + t).transitions
        self.steps.append((t, self.pipeline.frames["train"].progress.last_step))

    def told(self, event: str, signature: str | None = None) -> list[tuple[float, Transition]]:
        """The transitions of one kind with their second."""
        found = [x for x in self.transitions if x.event == event and signature in (None, x.incident.signature)]
        return [(x.at - START, x) for x in found]

    def _set(self, device: int | str, change: dict[str, Any]) -> None:
        function, value = change["fn"], change.get("value")
        if function == "nvmlDeviceGetTotalEccErrors":
            self.fake.set(device, **{ECC_KEYS[tuple(change["args"])]: value})
        elif function == "nvmlDeviceGetRemappedRows":
            names = ("remapped_corrected", "remapped_uncorrected", "remap_pending", "remap_failed")
            self.fake.set(device, **dict(zip(names, value, strict=True)))
        elif function == "nvmlDeviceGetMemoryInfo":
            self.fake.set(device, memory_total=value["total"], memory_used=value["used"])
        elif function == "nvmlDeviceGetEccMode":
            self.fake.set(device, ecc_mode=value[0])
        elif function == "nvmlDeviceGetName":
            self.fake.set(device, name=base64.b64decode(change["value_bytes"]).decode())

    def _climb(self, t: float) -> None:
        """A counter that rises steadily."""
        ramp = self.ramp["ramp"]
        counted = int(ramp["from"] + ramp["per_s"] * (min(t, ramp["until"]) - self.ramp["t"]))
        self.fake.set(ramp["device"], **{ECC_KEYS[tuple(ramp["args"])]: counted})

    async def _probe(self, http: ClientSession, url: str, t: float) -> None:
        began = asyncio.get_running_loop().time()
        async with http.get(f"{url}/snapshot", params={"since": self._since}) as reply:
            snapshot = parse_snapshot(await reply.json())
        async with http.get(f"{url}/metrics") as reply:
            assert reply.status == 200
            self.metrics.append((t, await reply.text()))
        async with http.get(f"{url}/healthz") as reply:
            self.seen.append((t, snapshot, reply.status))
        self.slowest = max(self.slowest, asyncio.get_running_loop().time() - began)

    def _apply(self, entry: dict[str, Any]) -> None:
        for change in entry.get("set", ()):
            device = change.get("device", "-" if change["fn"] == "nvmlInit" else "*")
            if "value" in change or "value_bytes" in change:
                self._set(device, change)
                continue
            if "args" in change:
                continue  # said by the error on every call of that device
            if change.get("hang") is True:
                self.fake.hang(device, change["fn"])
            elif "code" in change:
                self.fake.error(device, change["fn"], change["code"])
            else:
                self.fake.heal()
        if "ramp" in entry:
            self.ramp = entry
        if entry.get("reindex") == "identity":
            self.fake.heal()
            self.fake.enumerate(*range(8))
        elif "reindex" in entry:
            order = sorted(entry["reindex"], key=lambda old: entry["reindex"][old])
            self.fake.enumerate(*(int(old) for old in order))


def played(shared: Path, folder: Path, name: str) -> Played:
    (file,) = (shared / "data/cases").glob(f"{name}_*.json")
    return played_case(json.loads(file.read_text()), folder)


def played_case(case: dict[str, Any], folder: Path) -> Played:
    return asyncio.run(Played(case, folder).play())
