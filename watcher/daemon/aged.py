"""A snapshot as it would be told some time later: every age in it has grown, and its clock has gone on. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from watcher.snapshot import Event, Snapshot


def aged(snapshot: Snapshot, seconds: float) -> Snapshot:
    """Readings, sources and logs; events are aged one by one, for they came at different times."""
    if seconds == 0.0:
        return snapshot
    health = {name: replace(one, age_seconds=_plus(one.age_seconds, seconds)) for name, one in snapshot.health.items()}
    logs = (
        log.model_copy(update={"last_line_age_seconds": _plus(log.last_line_age_seconds, seconds)})
        for log in snapshot.logs
    )
    return snapshot.model_copy(
        update={
            "sent_at": snapshot.sent_at + seconds,
            "gpus_age_seconds": _plus(snapshot.gpus_age_seconds, seconds),
            "health": health,
            "logs": tuple(logs),
        }
    )


def aged_events(events: Iterable[Event], seconds: float) -> Iterable[Event]:
    return (event.model_copy(update={"age_seconds": event.age_seconds + seconds}) for event in events)


def _plus(age: float | None, seconds: float) -> float | None:
    return None if age is None else age + seconds
