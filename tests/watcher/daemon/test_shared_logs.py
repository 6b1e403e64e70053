"""Logs on a shared file system that the daemon reads itself: a hanging file system costs the log and not the cycle."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.support.runs import START
from watcher.agent.follow import LogFollower
from watcher.clock import FakeClock
from watcher.config.daemon import DaemonConfig
from watcher.daemon import shared_logs
from watcher.daemon.fold import RunFold, RunSettings
from watcher.daemon.shared_logs import SharedLogs

LINE = " iteration {:8d}/ 1000 | elapsed time per iteration (ms): 100.0 | lm loss: 2.5E+00 |\n"


@pytest.fixture
def logs(tmp_path):
    (tmp_path / "train.log").write_text("")
    made = DaemonConfig.model_validate(
        {"runs": [{"name": "r", "logs": [{"path": str(tmp_path / "train.log"), "tail": "daemon"}]}]}
    )
    clock = FakeClock(START)
    fold = RunFold(RunSettings(name="r", nodes=()))
    return SharedLogs(fold, LogFollower(made.runs[0].logs, "daemon", None, clock), clock)


async def take(logs: SharedLogs) -> int | None:
    lines, statuses = await logs.read()
    logs.fold.observe_log(START, lines, statuses)
    return logs.fold.frame(START).progress.last_step


def test_steps_of_the_file_reach_the_run(tmp_path, logs):
    async def play() -> None:
        assert await take(logs) is None
        with (tmp_path / "train.log").open("a") as file:
            file.writelines(LINE.format(step) for step in (1, 2, 3))
        assert await take(logs) == 2, "a record is whole when the next line has come"

    asyncio.run(play())


def test_a_read_that_hangs_is_waited_for_briefly_and_its_lines_come_when_it_returns(tmp_path, logs, monkeypatch):
    monkeypatch.setattr(shared_logs, "DEADLINE_SECONDS", 0.05)
    let_go, polls = threading.Event(), []
    poll = logs._follower.poll

    def hanging():
        polls.append(1)
        let_go.wait(10)
        return poll()

    async def play() -> None:
        await take(logs)
        with (tmp_path / "train.log").open("a") as file:
            file.writelines(LINE.format(step) for step in (7, 8))
        monkeypatch.setattr(logs._follower, "poll", hanging)
        assert await take(logs) is None
        assert await take(logs) is None
        assert len(polls) == 1, "only one read is out at a time"
        let_go.set()
        async with asyncio.timeout(10):
            while await take(logs) != 7:
                await asyncio.sleep(0.01)

    asyncio.run(play())
