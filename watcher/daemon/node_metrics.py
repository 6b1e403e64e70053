"""What the daemon knows of the nodes: whether their agents answer, how old their data is, strikes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import Metric

from detectors.frame import Frame
from watcher.daemon.answer import Answer
from watcher.families import gauge

STRIKE_SECONDS = 7 * 86_400.0


def node_metrics(answers: Mapping[str, Answer], frames: Iterable[Frame], now: float) -> Iterator[Metric]:
    """`now`: the daemon's clock; ages go on growing while nobody asks."""
    known = sorted(answers.items())
    yield gauge(
        "runwatch_agent_up",
        "1 where the agent of the node answered last time, else 0.",
        ["node"],
        (((node,), answer.snapshot is not None) for node, answer in known),
    )
    yield gauge(
        "runwatch_agent_data_age_seconds",
        "Age of the GPU readings that the agent last sent.",
        ["node"],
        (((node,), _age(answer, now)) for node, answer in known),
    )
    yield gauge(
        "runwatch_agent_clock_skew_seconds",
        "Clock of the node minus the clock of the daemon.",
        ["node"],
        (
            ((node,), answer.snapshot.sent_at - answer.received_at)
            for node, answer in known
            if answer.snapshot is not None
        ),
    )
    yield gauge(
        "runwatch_node_strikes",
        "Hardware strikes of the node within a week that count, over all runs and attempts.",
        ["node"],
        (((node,), float(count)) for node, count in sorted(_strikes(frames).items())),
    )


def _age(answer: Answer, now: float) -> float | None:
    if answer.snapshot is None or answer.snapshot.gpus_age_seconds is None:
        return None
    return answer.snapshot.gpus_age_seconds + max(0.0, now - answer.received_at)


def _strikes(frames: Iterable[Frame]) -> dict[str, int]:
    """A node of two runs has one ledger."""
    counts: dict[str, int] = {}
    for frame in frames:
        own = dict.fromkeys((view.name for view in frame.nodes), 0)
        for strike in frame.strikes:
            if strike.counted and strike.at >= frame.now - STRIKE_SECONDS and strike.node in own:
                own[strike.node] += 1
        counts |= own
    return counts
