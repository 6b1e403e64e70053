"""Plays a scripted NVML case through the real agent: real pynvml, C library, child process and endpoints."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from tests.support.fake_nvml import FakeNvml
from watcher.agent.app import Agent
from watcher.agent.http import build_app
from watcher.agent.server import serving
from watcher.bind import bind
from watcher.clock import SystemClock
from watcher.config.agent import AgentConfig
from watcher.config.listen import Listen
from watcher.snapshot import Snapshot, parse_snapshot
from watcher.sources.nvml import NvmlSource

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
REAL_DEADLINE = 0.25


class MovedClock(SystemClock):
    """Real time plus what the case has advanced."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.shift

    def real_seconds(self, seconds: float) -> float:
        return min(REAL_DEADLINE, seconds)


class Played:
    """A case on a virtual clock: the agent's cycles at its interval, its endpoints probed after each."""

    def __init__(self, case: dict[str, Any], folder: Path) -> None:
        self.case, self.clock = case, MovedClock()
        devices = case["input"]["devices"]
        self.fake = FakeNvml(folder, gpus=len(devices))
        for device in devices:
            values = {"uuid": device["uuid"], "pci": device["pci_bus_id"], "name": device["name"].replace(" ", "_")}
            for function, answer in case["input"]["baseline"].items():
                if function in KEYS:
                    values[KEYS[function]] = answer["value"]
            self.fake.set(device["index"], **values)
        config = AgentConfig.model_validate(
            {"agent": {"node": "n01", "interval_seconds": case["config"]["collect_interval_s"]}}
        ).agent
        source = NvmlSource(self.clock, env=self.fake.env(), stuck_seconds=45)
        self.agent = Agent(config, self.clock, source, None)
        self.seen: list[tuple[float, Snapshot, int]] = []  # second, snapshot, status of /healthz
        self.metrics: list[tuple[float, str]] = []
        self.slowest = 0.0
        self.ramp: dict[str, Any] | None = None

    async def play(self) -> Played:
        sock = bind(Listen("127.0.0.1", 0))
        async with serving(build_app(self.agent, None), sock):
            await self._probed(f"http://127.0.0.1:{sock.getsockname()[1]}")
        return self

    async def _probed(self, url: str) -> None:
        timeline = list(self.case["input"]["timeline"])
        interval = self.case["config"]["collect_interval_s"]
        async with ClientSession() as http:
            for t in range(0, self.case["input"]["end_t"] + 1, interval):
                while timeline and timeline[0]["t"] <= t:
                    self._apply(timeline.pop(0))
                if self.ramp is not None:
                    self._climb(t)
                cycle = asyncio.create_task(self.agent.cycle())
                await self._probe(http, url, t)  # in the middle of a cycle that may hang
                await cycle
                await self._probe(http, url, t)
                self.clock.shift += interval
        self.fake.heal()
        await self.agent.gpus.close()

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
        async with http.get(f"{url}/snapshot") as reply:
            snapshot = parse_snapshot(await reply.json())
        async with http.get(f"{url}/metrics") as reply:
            assert reply.status == 200
            self.metrics.append((t, await reply.text()))
        async with http.get(f"{url}/healthz") as reply:
            self.seen.append((t, snapshot, reply.status))
        self.slowest = max(self.slowest, asyncio.get_running_loop().time() - began)

    def _apply(self, entry: dict[str, Any]) -> None:
        for change in entry.get("set", ()):
            device = change.get("device", "*")
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
    return asyncio.run(Played(json.loads(file.read_text()), folder).play())
