"""Ends an incident by hand; as a false alarm, what was seen around it is kept to be replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watcher.daemon.false_alarms import keep

if TYPE_CHECKING:
    from alerts.incidents import Incident
    from watcher.daemon.app import Daemon

MAX_WHY = 300


def end_by_hand(daemon: Daemon, key: str, by: str, why: str = "", false_alarm: bool = False) -> tuple[Incident, str]:
    """The ended incident, and where what was seen is kept (or why not; empty where that was not asked for).

    Raises UnknownIncident where none of that key is open.
    """
    before = daemon.desk.incidents.get(key)
    reason = (why or ("false alarm" if false_alarm else "closed by hand"))[:MAX_WHY]
    after = daemon.desk.close(key, reason, by)
    return after, _keep(daemon, before) if false_alarm and before is not None else ""


def _keep(daemon: Daemon, incident: Incident) -> str:
    if daemon.recorder is None:
        return "nothing: set daemon.recording to keep what was seen"
    path = daemon.recorder.path
    daemon.recorder.flush()
    try:
        kept = keep(path, incident, daemon.clock.time(), path.parent / "false-alarms")
    except OSError as error:
        return f"nothing: {path.parent}: {error.strerror}"
    return str(kept) if kept is not None else "nothing: the recording no longer reaches back to it"
