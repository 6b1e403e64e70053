"""Two agents and a daemon as processes: a real run hangs, a pager hears of it once, whatever dies on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.support.fake_nvml import FakeNvml

SCALE = 45.0
DEADLINE = 90.0
NODES = ("gpu-01", "gpu-02")
OWN_LINE = (
    " iteration {step:8d}/  311541 | consumed samples: {step:12d} | "
    "elapsed time per iteration (ms): 10000.0 | lm loss: 2.5E+00 |"
)


class Pager:
    """Takes PagerDuty events; knows which keys are open there."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        pager = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                pager.events.append(body)
                self.send_response(202)
                self.end_headers()
                self.wfile.write(b'{"status": "success"}')

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v2/enqueue"

    def open_keys(self) -> set[str]:
        open_now: set[str] = set()
        for event in list(self.events):
            (open_now.add if event["event_action"] == "trigger" else open_now.discard)(event["dedup_key"])
        return open_now

    def triggers(self) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event["event_action"] == "trigger"]


class Site:
    """Two nodes with a fake driver each, a shared log on the first, a daemon, a pager."""

    def __init__(self, folder: Path, lines: list[str]) -> None:
        self.folder, self.lines = folder, iter(lines)
        self.pager = Pager()
        self.log = folder / "train.log"
        self.log.touch()
        self.epoch = time.time()
        self.drivers = {node: FakeNvml(folder / node, node=node) for node in NODES}
        self.agents, self.addresses = [], {}
        self.started: list[subprocess.Popen[str]] = []
        for node in NODES:
            config = {"agent": {"node": node, "listen": "127.0.0.1:0", "logs": [str(self.log)]}, **self._time()}
            process, address = self._start("agent", config, self.drivers[node].env(), node)
            self.agents.append(process)
            self.addresses[node] = address
        self.daemon: subprocess.Popen[str] | None = None
        self.url = ""

    def _time(self) -> dict[str, float]:
        return {"clock_scale": SCALE, "clock_epoch": self.epoch}

    def _start(self, what: str, config: Any, env: dict[str, str], name: str) -> tuple[subprocess.Popen[str], str]:
        file = self.folder / f"{name}.yaml"
        file.write_text(json.dumps(config))
        said = self.folder / f"{name}.{time.monotonic_ns()}.err"
        with said.open("w") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", "watcher", what, "--config", str(file)],
                env=env, stderr=err, stdout=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        self.started.append(process)
        self.until(lambda: " listens on " in said.read_text() or process.poll() is not None, f"{what} starts")
        text = said.read_text()
        assert " listens on " in text, text
        return process, text.partition(" listens on ")[2].split()[0]

    def start_daemon(self) -> None:
        config = {
            "daemon": {
                "listen": "127.0.0.1:0",
                "database": str(self.folder / "runwatch.db"),
                "agents": {"addresses": self.addresses},
            },
            "runs": [{"name": "tr1-13B", "nodes": list(NODES), "gpu_hour_price": 2.5}],
            "channels": {"oncall": {"pagerduty": {"routing_key": "R-SECRET", "url": self.pager.url}}},
            **self._time(),
        }
        self.daemon, address = self._start("daemon", config, dict(os.environ), "daemon")
        self.url = f"http://{address}"

    def kill_daemon(self) -> None:
        assert self.daemon is not None
        self.daemon.send_signal(signal.SIGKILL)
        self.daemon.wait()

    def write_step(self) -> None:
        with self.log.open("a") as file:
            file.write(next(self.lines) + "\n")

    def steps(self, count: int, seconds: float = 10.0) -> None:
        for _ in range(count):
            self.write_step()
            time.sleep(seconds / SCALE)

    def run(self) -> dict[str, Any]:
        return requests.get(f"{self.url}/api/runs", timeout=10).json()["runs"][0]

    def until(self, wanted: Callable[[], Any], what: str) -> Any:
        """Polls until it holds."""
        give_up = time.monotonic() + DEADLINE
        while time.monotonic() < give_up:
            value = wanted()
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"not within {DEADLINE:.0f} s: {what}; pager {self.pager.events}")

    def close(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()
        self.pager.server.shutdown()
        self.pager.server.server_close()


@contextmanager
def site(folder: Path, lines: list[str]) -> Iterator[Site]:
    one = Site(folder, lines)
    try:
        yield one
    finally:
        one.close()


def own_lines() -> list[str]:
    return [OWN_LINE.format(step=step) for step in range(1000, 1400)]


def real_lines(shared: Path) -> list[str]:
    """Step lines of a real log, in their order, then more of the same run."""
    text = (shared / "data/logs/visible/megatron_lm_n4_logint10_scancel.log").read_text(errors="replace")
    steps = [line for line in text.splitlines() if " iteration " in line and "elapsed time" in line]
    assert len(steps) >= 15
    last = int(steps[-1].split("iteration")[1].split("/")[0])
    return [*steps, *(steps[-1].replace(f"{last}/", f"{last + 10 * n}/", 1) for n in range(1, 300))]


def hang(one: Site) -> None:
    """The levels of a published hang: all at 100 % and 84-87 of 400 W, the culprit at 0 % and 68 W."""
    for driver in one.drivers.values():
        driver.spin(84)
    one.drivers["gpu-02"].set(5, power_mw=68_000, util=0)


def go_on(one: Site) -> None:
    for driver in one.drivers.values():
        driver.set(None, power_mw=330_000, util=98, util_memory=55)


def test_a_real_run_that_hangs_is_paged_with_its_facts_in_time_and_resolved_when_it_goes_on(tmp_path, shared):
    with site(tmp_path, real_lines(shared)) as one:
        one.start_daemon()
        one.steps(19)
        one.until(lambda: one.run()["learnt"]["power_watts"], "working power is learnt")
        assert one.pager.events == []
        hang(one)
        one.until(lambda: one.pager.open_keys(), "a page")
        (page,) = one.pager.triggers()
        assert page["routing_key"] == "R-SECRET"
        assert page["dedup_key"] == "tr1-13B/stall"
        payload = page["payload"]
        assert payload["severity"] == "critical"
        assert "low_power_deadlock" in payload["summary"]
        assert "gpu-02 gpu 5 (68 W, 0%)" in payload["summary"]
        assert "40.00 USD an hour" in payload["summary"]
        assert payload["custom_details"]["no_progress_seconds"] <= 240 + 30
        go_on(one)
        one.steps(20)
        one.until(lambda: not one.pager.open_keys(), "the resolve")
        assert [event["event_action"] for event in one.pager.events] == ["trigger", "resolve"]


def test_killed_at_any_step_it_loses_no_page_and_opens_no_second_one(tmp_path):
    with site(tmp_path, own_lines()) as one:
        one.start_daemon()
        one.steps(19)
        one.until(lambda: one.run()["learnt"]["power_watts"], "working power is learnt")
        one.kill_daemon()
        one.start_daemon()
        one.steps(3)
        hang(one)
        one.until(lambda: one.run()["no_progress_seconds"] > 70, "the hang is under way")
        one.kill_daemon()
        one.start_daemon()
        one.until(lambda: one.pager.open_keys(), "a page")
        one.kill_daemon()
        one.start_daemon()
        one.until(lambda: one.run()["no_progress_seconds"] > 400, "the hang goes on")
        assert one.pager.open_keys() == {"tr1-13B/stall"}
        go_on(one)
        one.steps(2)
        one.kill_daemon()
        one.start_daemon()
        one.steps(20)
        one.until(lambda: not one.pager.open_keys(), "the resolve")
        assert {event["dedup_key"] for event in one.pager.events} == {"tr1-13B/stall"}
        actions = [event["event_action"] for event in one.pager.events]
        assert actions == sorted(actions, reverse=True), "triggers, then resolves"


@pytest.mark.parametrize("moment", ["before the page", "after the page"])
def test_an_agent_that_dies_neither_pages_a_hang_nor_resolves_one(tmp_path, moment):
    with site(tmp_path, own_lines()) as one:
        one.start_daemon()
        one.steps(19)
        one.until(lambda: one.run()["learnt"]["power_watts"], "working power is learnt")
        if moment == "after the page":
            hang(one)
            one.until(lambda: one.pager.open_keys(), "a page")
        one.agents[1].kill()
        one.until(lambda: one.run()["watched"]["nodes_answering"] == 1, "the agent is missed")
        if moment == "before the page":
            one.steps(20)
            assert "tr1-13B/stall" not in {event["dedup_key"] for event in one.pager.events}
        else:
            one.until(lambda: one.run()["no_progress_seconds"] > 500, "the hang goes on")
            assert "tr1-13B/stall" in one.pager.open_keys()
