"""NVML scripts over the real pynvml and a C library: a call that never returns, and one GPU lost of eight."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from tests.support.fake_nvml import FakeNvml
from watcher.agent.app import Agent
from watcher.agent.http import build_app
from watcher.clock import SystemClock
from watcher.config.agent import AgentConfig
from watcher.snapshot import Snapshot, parse_snapshot
from watcher.sources.nvml import NvmlSource

KEYS = {
    "nvmlDeviceGetPowerUsage": "power_mw",
    "nvmlDeviceGetEnforcedPowerLimit": "limit_mw",
    "nvmlDeviceGetTemperature": "temperature",
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
        self.slowest = 0.0

    async def play(self) -> Played:
        runner = web.AppRunner(build_app(self.agent, None))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        timeline = list(self.case["input"]["timeline"])
        interval = self.case["config"]["collect_interval_s"]
        async with ClientSession() as http:
            for t in range(0, self.case["input"]["end_t"] + 1, interval):
                while timeline and timeline[0]["t"] <= t:
                    self._apply(timeline.pop(0))
                cycle = asyncio.create_task(self.agent.cycle())
                await self._probe(http, url, t)  # in the middle of a cycle that may hang
                await cycle
                await self._probe(http, url, t)
                self.clock.shift += interval
        self.fake.heal()
        await self.agent.gpus.close()
        await runner.cleanup()
        return self

    async def _probe(self, http: ClientSession, url: str, t: float) -> None:
        began = asyncio.get_running_loop().time()
        async with http.get(f"{url}/snapshot") as reply:
            snapshot = parse_snapshot(await reply.json())
        async with http.get(f"{url}/metrics") as reply:
            assert reply.status == 200
        async with http.get(f"{url}/healthz") as reply:
            self.seen.append((t, snapshot, reply.status))
        self.slowest = max(self.slowest, asyncio.get_running_loop().time() - began)

    def _apply(self, entry: dict[str, Any]) -> None:
        for change in entry.get("set", ()):
            device = change.get("device", "*")
            if change["fn"] == "nvmlDeviceGetCount" or "args" in change:
                continue  # said by `reindex`, or by the error on every call of that device
            if change.get("hang") is True:
                self.fake.hang(device, change["fn"])
            elif "code" in change:
                self.fake.error(device, change["fn"], change["code"])
            else:
                self.fake.heal()
        if entry.get("reindex") == "identity":
            self.fake.heal()
            self.fake.enumerate(*range(8))
        elif "reindex" in entry:
            order = sorted(entry["reindex"], key=lambda old: entry["reindex"][old])
            self.fake.enumerate(*(int(old) for old in order))


def played(shared: Path, folder: Path, name: str) -> Played:
    (file,) = (shared / "data/cases").glob(f"{name}_*.json")
    return asyncio.run(Played(json.loads(file.read_text()), folder).play())


@pytest.fixture(scope="module")
def hung(shared, tmp_path_factory):
    return played(shared, tmp_path_factory.mktemp("v01"), "V01")


@pytest.fixture(scope="module")
def lost(shared, tmp_path_factory):
    return played(shared, tmp_path_factory.mktemp("v02"), "V02")


def test_v01_every_endpoint_answers_within_two_seconds_throughout(hung):
    assert hung.slowest < 2


def test_v01_the_age_of_the_data_grows_in_sight_and_stale_values_are_never_repeated(hung):
    at_110 = [snapshot for t, snapshot, _ in hung.seen if 105 <= t <= 110]
    assert all(s.gpus_age_seconds >= 40 for s in at_110)
    assert all(not s.gpus for t, s, _ in hung.seen if 150 <= t < 900)
    assert all(status == 503 for t, _, status in hung.seen if 150 <= t < 900)


def test_v01_the_stuck_reader_is_told_in_time_and_over_in_time(hung):
    kinds = [(t, s.health["nvml"].kind) for t, s, _ in hung.seen]
    first = min(t for t, kind in kinds if kind == "stuck")
    assert 75 <= first <= 180
    assert all(kind == "stuck" for t, kind in kinds if first <= t < 900)
    assert all(s.health["nvml"].ok and len(s.gpus) == 8 for t, s, _ in hung.seen if t >= 1000)


def test_v01_no_processes_pile_up(hung):
    assert len(hung.agent.gpus._left_behind) <= 2


def test_v02_the_seven_others_are_there_under_their_names_throughout(lost):
    healthy = {d["uuid"] for d in lost.case["input"]["devices"] if d["index"] != 5}
    for t, snapshot, _ in lost.seen[1:]:
        assert healthy <= {gpu.uuid for gpu in snapshot.gpus if gpu.power_watts is not None}, t


def test_v02_the_lost_one_is_named_with_its_address_then_absent_then_back(lost):
    uuid = lost.case["input"]["devices"][5]["uuid"]
    states = [(t, [g for g in s.gpus if g.uuid == uuid]) for t, s, _ in lost.seen[1:]]
    assert all(gpus[0].state == "ok" for t, gpus in states if t < 120)
    told = [gpus[0] for t, gpus in states if 135 <= t < 300]
    assert {(gpu.state, gpu.pci_bus_id) for gpu in told} == {("lost", "00000000:C3:00.0")}
    assert all(not gpus for t, gpus in states if 315 <= t < 1200)
    assert all(gpus[0].state == "ok" for t, gpus in states if t >= 1215)
