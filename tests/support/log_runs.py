"""A scripted run whose log is a real file, read by the real follower, beside GPUs that show levels by time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.log_ops import play
from tests.support.runs import START, Level, ScriptedRun
from watcher.agent.follow import LogFollower
from watcher.clock import FakeClock
from watcher.config.logs import LogConfig
from watcher.snapshot import LogLine


def level_by_time(rows: Sequence[Mapping[str, Any]]) -> Callable[[str, int, float], Level]:
    """Rows of from, to, util (percent), power_w; memory is held unless a row says `free`."""

    def level(node: str, index: int, t: float) -> Level:
        row = next((r for r in rows if r["from"] <= t < r["to"]), rows[-1])
        busy = row["util"] > 50 and row["power_w"] > 200
        return Level(
            power_watts=row["power_w"],
            utilization_ratio=row["util"] / 100,
            memory_gib=0.0 if row.get("free") else 70.0,
            wobble_watts=20.0 if busy else 1.0,
        )

    return level


def play_logs(
    run: ScriptedRun, logs: Sequence[LogConfig], operations: Sequence[Mapping[str, Any]], folder: Path, until: float
) -> ScriptedRun:
    """Plays file operations and evaluates at the run's interval."""
    clock = FakeClock(START)
    follower = LogFollower(logs, "n1", None, clock)

    def poll(t: float) -> None:
        if t <= 0:
            return
        run.t = t
        now = clock.time()
        lines = [
            LogLine.model_construct(
                seq=0, age_seconds=max(0.0, now - e.at), path=e.path, file=e.file, offset=e.offset, event=e.event
            )
            for e in follower.poll()
        ]
        for node in run.nodes:
            run.fold.observe(run.answer(node, []))
        run.fold.observe_log(clock.time(), lines, follower.statuses(clock.time()))
        run.transitions += run.pipeline.tick(clock.time()).transitions

    step = int(run.interval)
    play(operations, folder, clock, poll, range(0, int(until) + 1, step))
    follower.close()
    return run
