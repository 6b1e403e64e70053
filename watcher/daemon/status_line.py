"""One line about the daemon for `systemctl status`: what is watched, what is open, what does not work."""

from __future__ import annotations

from watcher.daemon.app import Daemon


def status_line(daemon: Daemon) -> str:
    runs, nodes = len(daemon.runs), len({node for run in daemon.runs for node in run.fold.nodes})
    opened = sum(incident.state == "open" for incident in daemon.desk.incidents.values())
    answering = sum(answer.snapshot is not None for answer in daemon.answers.values())
    line = f"watching {_count(runs, 'run')} on {_count(nodes, 'node')}, {answering} answering; {opened} open"
    if daemon.health.error is not None:
        return f"the last cycle failed: {daemon.health.error}; {line}"
    if dead := [worker.name for worker in daemon.workers if not worker.alive]:
        return f"nothing goes out through {', '.join(dead)}; {line}"
    if daemon.desk.store_error is not None:
        return f"the database cannot be written: {daemon.desk.store_error}; {line}"
    return line


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
