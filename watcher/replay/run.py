"""Plays a recording through the pipeline, one evaluation an interval, and yields what changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from alerts.incidents import Hysteresis, Transition
from watcher.daemon.answer import Answer
from watcher.daemon.merge import merge
from watcher.daemon.pipeline import Pipeline, WatchedRun
from watcher.replay.feed import NodeFile, Timed
from watcher.replay.recording import Recording
from watcher.snapshot import LogLine, LogStatus

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
    ticks = (Tick(now, merge([answers])) for now, answers in recording.ticks())
    return play_ticks([run], ticks, hysteresis)


@dataclass(frozen=True, slots=True)
class Tick:
    """What was seen at one moment: node -> its answer, run -> what its log or its counter said."""

    now: float
    answers: Mapping[str, Answer]
    logs: Mapping[str, tuple[Sequence[LogLine], Sequence[LogStatus]]] = field(default_factory=dict)


def play_ticks(
    runs: Sequence[WatchedRun], ticks: Iterable[Tick], hysteresis: Hysteresis | None = None
) -> Iterator[Transition]:
    """One evaluation of all runs a tick. A node that is not in a tick was not looked at."""
    pipeline = Pipeline(runs, hysteresis)
    for tick in ticks:
        for run in runs:
            for node, answer in tick.answers.items():
                if len(runs) == 1 or node in run.fold.nodes:
                    run.fold.observe(answer)
            if (said := tick.logs.get(run.fold.settings.name)) is not None:
                run.fold.observe_log(tick.now, *said)
        yield from pipeline.tick(tick.now).transitions
