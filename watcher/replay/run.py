"""Plays a recording through the pipeline, one evaluation an interval, and yields what changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from alerts.incidents import Hysteresis, Transition
from watcher.daemon.merge import merge
from watcher.daemon.pipeline import Pipeline, WatchedRun
from watcher.replay.feed import NodeFile, Timed
from watcher.replay.recording import Recording
from watcher.snapshot import LogStatus

TAIL_LINES = 20
TAIL_CHARACTERS = 400


def play(
    run: WatchedRun,
    nodes: Sequence[NodeFile],
    lines: Iterable[Timed],
    interval: float = 10.0,
    hysteresis: Hysteresis | None = None,
) -> Iterator[Transition]:
    """nvidia-smi files and logs: transitions in order of time, from the first reading or line to the last."""
    pipeline = Pipeline([run], hysteresis)
    feed = iter(sorted(lines, key=lambda line: line.at))
    waiting = next(feed, None)
    firsts = [node.first_at for node in nodes if node.first_at is not None]
    lasts = [node.last_at for node in nodes if node.last_at is not None]
    if waiting is not None:
        firsts.append(waiting.at)
    if not firsts:
        return
    now, last_at = min(firsts) + interval, max(lasts, default=None)
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    while waiting is not None or (last_at is not None and now <= last_at + interval):
        for node in nodes:
            run.fold.observe(node.answer(now, interval))
        newest = None
        while waiting is not None and waiting.at <= now:
            for event in waiting.events:
                run.fold.observe_event(waiting.at, event, waiting.node)
            newest = waiting.at
            tail.append(waiting.text[-TAIL_CHARACTERS:])
            waiting = next(feed, None)
        if newest is not None:
            status = LogStatus.model_construct(
                path="recording", lines=1, last_line_age_seconds=now - newest, tail=tuple(tail)
            )
            run.fold.observe_log(now, (), (status,))
        yield from pipeline.tick(now).transitions
        if last_at is not None and now > last_at + interval:
            return
        now += interval


def play_recording(run: WatchedRun, recording: Recording, hysteresis: Hysteresis | None = None) -> Iterator[Transition]:
    """What the daemon saw, evaluated anew at the times at which it was seen."""
    pipeline = Pipeline([run], hysteresis)
    for now, answers in recording.ticks():
        for answer in merge([answers]).values():
            run.fold.observe(answer)
        yield from pipeline.tick(now).transitions
