"""What a person should hear of a config that is valid and may still not do what is meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from alerts.secret import SecretError, secret_file
from watcher.config.fleet import fleet_notes
from watcher.config.load import dotted
from watcher.config.telemetry import telemetry_notes

if TYPE_CHECKING:
    from watcher.config.daemon import DaemonConfig

WRITTEN_BY_US = frozenset({"state_file"})


def unreadable_files(config: BaseModel) -> list[str]:
    """One line for each `*_file` that cannot be read now, or is empty. They are read at use, maybe at night."""
    problems = []
    for place, file in _files(config, ()):
        try:
            secret_file(file).reveal()
        except SecretError as error:
            problems.append(f"{dotted(place)}: {error}")
    return problems


def daemon_notes(config: DaemonConfig) -> list[str]:
    """One line each; the daemon starts all the same."""
    notes = []
    if not config.runs:
        notes.append("runs: none, nothing is watched")
    for number, run in enumerate(config.runs):
        if not run.nodes and run.match is None and not run.logs and run.progress is None:
            notes.append(f"runs[{number}]: {run.name} has neither nodes nor logs, nothing of it can be seen")
    if not config.channels:
        notes.append("channels: none, nobody will be paged")
    elif config.routes and not any(_takes_all(route) for route in config.routes):
        notes.append("routes: none takes every critical incident, some may reach nobody")
    if not config.daemon.agents.ask and not config.daemon.telemetry:
        notes.append("daemon.agents.ask is false and daemon.telemetry is empty: nothing is known of any GPU")
    if config.daemon.agents.push and config.daemon.listen.is_loopback:
        here = config.daemon.listen
        notes.append(f"daemon.listen {here} is reached from this host only: no other node can push to it")
    return [*notes, *fleet_notes(config), *telemetry_notes(config.daemon.telemetry), *unreadable_files(config)]


def _takes_all(route: Any) -> bool:
    return not (route.signature or route.run or route.node)


def _files(value: Any, at: tuple[int | str, ...]) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """Every key of the config that names a file to be read."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            inner = getattr(value, name)
            if inner is not None and name.endswith("_file") and name not in WRITTEN_BY_US:
                yield (*at, name), str(inner)
            else:
                yield from _files(inner, (*at, name))
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _files(inner, (*at, str(name)))
    elif isinstance(value, tuple | list):
        for number, inner in enumerate(value):
            yield from _files(inner, (*at, number))
