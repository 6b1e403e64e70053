"""Plays a recording through the pipeline, one evaluation an interval, and yields what changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from alerts.incidents import Transition
from watcher.daemon.pipeline import Pipeline, WatchedRun
from watcher.replay.feed import NodeFile, Timed
from watcher.snapshot import LogStatus

AFTER_SECONDS = 0.0


def play(
    run: WatchedRun, nodes: Sequence[NodeFile], lines: Iterable[Timed], interval: float = 10.0
) -> Iterator[Transition]:
    """Transitions in order of time, from the first reading or line to the last."""
    pipeline = Pipeline([run])
    feed = iter(sorted(lines, key=lambda line: line.at))
    waiting = next(feed, None)
    firsts = [node.first_at for node in nodes if node.first_at is not None]
    lasts = [node.last_at for node in nodes if node.last_at is not None]
    if waiting is not None:
        firsts.append(waiting.at)
    if not firsts:
        return
    now, last_at = min(firsts) + interval, max(lasts, default=None)
    tail: list[str] = []
    while last_at is None or now <= last_at + interval:
        for node in nodes:
            run.fold.observe(node.answer(now, interval))
        newest = None
        while waiting is not None and waiting.at <= now:
            for event in waiting.events:
                run.fold.observe_event(waiting.at, event, waiting.node)
            newest = waiting.at
            tail = [*tail[-19:], waiting.text[-400:]]
            waiting = next(feed, None)
        if newest is not None:
            status = LogStatus.model_construct(
                path="recording", lines=1, last_line_age_seconds=now - newest, tail=tuple(tail)
            )
            run.fold.observe_log(now, (), (status,))
        yield from pipeline.tick(now).transitions
        if waiting is None and last_at is None:
            break
        now += interval
