"""`runwatch check-config FILE`: the loader that the processes use; prints every error with its key path."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from watcher.cli._command import Command, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="the agent's or the daemon's file")


def run(args: argparse.Namespace) -> int:
    from watcher.config.load import ConfigError

    try:
        lines = _check(args.file)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    print("\n".join(lines))
    return 0


def _check(path: Path) -> list[str]:
    from watcher.config.agent import AgentConfig
    from watcher.config.daemon import DaemonConfig
    from watcher.config.load import ConfigError, load, read_yaml

    values, _ = read_yaml(path)
    if not isinstance(values, dict):
        raise ConfigError([f"{path}: the file must be a mapping with the key agent, or daemon and runs"])
    if "agent" in values:
        return _agent(path, load(path, AgentConfig))
    return _daemon(path, load(path, DaemonConfig))


def _agent(path: Path, config: Any) -> list[str]:
    from watcher.config.notes import unreadable_files

    section = config.agent
    logs = ", ".join(log.path for log in section.logs) or "none: the daemon will see no steps from this node"
    push = [f"  push    to {section.push.url}"] if section.push is not None else []
    return [
        f"{path}: ok, an agent's file",
        f"  node    {section.node}",
        f"  listen  {section.listen}, {_guarded(section)}",
        f"  logs    {logs}",
        *push,
        *(f"  note    {note}" for note in unreadable_files(config)),
    ]


def _guarded(section: Any) -> str:
    token = "with a token" if section.token_file is not None else "without a token"
    if section.tls is not None:
        return f"{token}, TLS"
    return f"{token}, loopback only" if section.listen.is_loopback else f"{token}, plain HTTP"


def _daemon(path: Path, config: Any) -> list[str]:
    from watcher.config.notes import daemon_notes

    section = config.daemon
    lines = [
        f"{path}: ok, a daemon's file",
        f"  listen    {section.listen}, {_guarded(section)}",
        f"  database  {section.database}",
        f"  dead man  {'set' if section.dead_man else 'not set: nobody notices when this daemon dies'}",
        f"  channels  {', '.join(config.channels) or 'none'}",
    ]
    for run in config.runs:
        nodes = f"{len(run.nodes)} node{'s' if len(run.nodes) != 1 else ''}"
        if run.match is not None:
            nodes = f"nodes by {run.match.source()[0]}"
        logs = ", ".join(log.path for log in run.logs) or "what the agents follow"
        lines.append(f"  run       {run.name}: {nodes}, logs: {logs}")
    return [*lines, *(f"  note      {note}" for note in daemon_notes(config))]


COMMAND = Command("check-config", "check a config file and print every error", add_arguments, run, order=30)
