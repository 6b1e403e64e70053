"""A run that no agent watches: GPUs by dcgm-exporter, steps by the job's own /metrics, the whole daemon over both."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import yaml

from tests.support.exporters import Node, Shown, dcgm
from watcher.clock import FakeClock
from watcher.config.daemon import DaemonConfig
from watcher.config.load import load
from watcher.daemon.app import Daemon
from watcher.daemon.build import build
from watcher.daemon.store import Store
from watcher.replay.recording import read_recordings
from watcher.replay.run import play_recording
from watcher.replay.setup import watched_run

START = 1_700_000_000.0
HANG, END = 1_500.0, 2_100.0


class Site:
    """Two nodes with four GPUs each and a job, all on one clock."""

    def __init__(self) -> None:
        self.clock = FakeClock(START)
        self.nodes = {name: Node(lambda name=name: self._gpus(name)) for name in ("n1", "n2")}  # type: ignore[misc]
        self.job = Node(lambda: f"train_step {int(min(self.t, HANG) / 10)}\n")

    @property
    def t(self) -> float:
        return self.clock.time() - START

    def _gpus(self, node: str) -> str:
        works = self.t < HANG
        swing = (int(self.t / 10) * 7 % 11 - 5) * (5.0 if works else 0.2)
        return dcgm(
            node,
            [
                Shown(
                    index=index,
                    power=(620.0 if works else 150.0) + swing,
                    utilization=98.0 if works else 100.0,
                    energy_mj=self.t * 1e5,
                )
                for index in range(4)
            ],
        )

    def config(self, folder: Path) -> DaemonConfig:
        file = folder / "runwatch.yaml"
        addresses = {name: node.address for name, node in self.nodes.items()}
        text: dict[str, Any] = {
            "daemon": {
                "database": str(folder / "x.db"),
                "agents": {"ask": False},
                "telemetry": [{"dcgm_exporter": {"addresses": addresses}}],
                "recording": {"path": str(folder / "seen.jsonl")},
            },
            "runs": [
                {
                    "name": "big",
                    "nodes": ["n1", "n2"],
                    "progress": {"endpoint": {"url": f"http://{self.job.address}/metrics", "step": "train_step"}},
                }
            ],
        }
        file.write_text(yaml.safe_dump(text))
        return load(file, DaemonConfig)


def watch(folder: Path, site: Site, until: float) -> Daemon:
    async def live() -> Daemon:
        async with AsyncExitStack() as stack:
            for node in (*site.nodes.values(), site.job):
                await stack.enter_async_context(node)
            store = Store(folder / "x.db")
            stack.callback(store.close)
            daemon, _ = build(site.config(folder), site.clock, store)
            for part in (*daemon.sources, *daemon.shared_logs):
                await stack.enter_async_context(part)
            while site.t < until:
                site.clock.advance(10)
                await daemon.tick()
            assert daemon.health.error is None
            if daemon.recorder is not None:
                daemon.recorder.close()
            return daemon

    return asyncio.run(live())


def open_signatures(daemon: Daemon) -> set[str]:
    return {i.signature for i in daemon.desk.incidents.values() if i.state == "open"}


def test_work_is_quiet_and_a_hang_is_paged_with_no_agent_anywhere(tmp_path):
    site = Site()
    daemon = watch(tmp_path, site, END)
    frame = daemon.frames["big"]
    assert frame.progress.last_step == 150
    assert len(frame.gpus) == 8
    assert open_signatures(daemon) == {"low_power_deadlock"}
    (incident,) = daemon.desk.incidents.values()
    assert incident.opened_at is not None
    assert 100 < incident.opened_at - START - HANG < 400


def test_what_was_recorded_of_it_can_be_replayed(tmp_path):
    watch(tmp_path, Site(), 300)
    recording = read_recordings([tmp_path / "seen.jsonl"])
    assert recording.interval_seconds == 10.0
    assert {(answer.node, answer.part) for answer in recording.answers} == {("n1", "gpus"), ("n2", "gpus")}
    run, hysteresis = watched_run("big", recording.nodes, None, False)
    assert not [t for t in play_recording(run, recording, hysteresis) if t.event == "opened"]
    assert len(run.fold.frame(START + 300).gpus) == 8


def test_the_doctor_sees_gpus_and_steps_of_a_run_without_agents(tmp_path):
    site = Site()

    async def look() -> list[dict[str, Any]]:
        async with AsyncExitStack() as stack:
            for node in (*site.nodes.values(), site.job):
                await stack.enter_async_context(node)
            site.clock.advance(600)
            site.config(tmp_path)
            doctor = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "watcher", "doctor", "--json", "--config", str(tmp_path / "runwatch.yaml"),
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            told, _ = await doctor.communicate()
            return [json.loads(line) for line in told.splitlines()]

    text = json.dumps(asyncio.run(look()))
    assert "8 on 2 nodes, all there" in text
    assert "power_limit_watts is not known on n1, n2" in text
    assert "train_step: metrics, 1 steps" in text
