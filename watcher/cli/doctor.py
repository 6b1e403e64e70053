"""`runwatch doctor`: is each run watchable, would a page arrive, and what is to be mended? One screen."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from watcher.cli._command import Command, UsageError

if TYPE_CHECKING:
    from watcher.cli._api import DaemonApi
    from watcher.clock import Clock
    from watcher.daemon.answer import AnswerSource
    from watcher.doctor._api import Line, Scene

STYLES = {"ok": "green", "note": "cyan", "warn": "yellow", "fail": "bold red"}
WATCHDOG = "this watchdog"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the daemon's file")
    parser.add_argument("--no-page", action="store_true", help="send no test page")
    parser.add_argument("--json", action="store_true", help="one JSON object a line of the account")


def run(args: argparse.Namespace) -> int:
    from rich.console import Console

    from watcher.clock import SystemClock
    from watcher.config.daemon import DaemonConfig
    from watcher.config.load import ConfigError, load
    from watcher.daemon.build import build_sources
    from watcher.doctor._found import found_runs
    from watcher.doctor.gather import gather

    try:
        config = load(args.config, DaemonConfig)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    clock = SystemClock(config.clock_scale, config.clock_epoch)
    with Console(stderr=True).status("looking") as status:
        daemon = _daemon(args.config)
        status.update("asking which runs there are")
        found = asyncio.run(found_runs(config, clock))
        nodes = list(dict.fromkeys(node for run in found for node in run.nodes))
        sources = [_reachable(source, args.config, clock) for source in build_sources(config, clock, lambda: nodes)]
        scene = gather(config, found, sources, clock, daemon, not args.no_page, status.update)
    account = list(_account(scene))
    if args.json:
        for about, line in account:
            print(json.dumps({"about": about, "level": line.level, "topic": line.topic, "text": line.text,
                              "advice": line.advice}))  # fmt: skip
    else:
        _print(account)
    return 1 if any(line.level == "fail" for _, line in account) else 0


def _account(scene: Scene) -> Iterator[tuple[str, Line]]:
    """What each line is about, and the line; a check that breaks is a line as well."""
    from watcher.doctor._api import Line, load_checks

    checks = load_checks()
    for run in scene.runs:
        for check in checks:
            if check.of_run is not None:
                try:
                    yield from ((run.section.name, line) for line in check.of_run(scene, run))
                except Exception as error:  # noqa: BLE001 - whatever it is, the other checks are worth having
                    yield run.section.name, Line("warn", "doctor", f"a check failed: {error!r}"[:200])
    for check in checks:
        if check.of_watchdog is not None:
            yield from ((WATCHDOG, line) for line in check.of_watchdog(scene))


def _print(account: list[tuple[str, Line]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for about in dict.fromkeys(about for about, _ in account):
        table = Table(show_header=False, box=None, pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for _, line in (item for item in account if item[0] == about):
            text = Text(line.text)
            if line.advice:
                text.append(f"\n-> {line.advice}", style="dim")
            table.add_row(Text(f"{line.level:4}", style=STYLES[line.level]), line.topic, text)
        console.print(Text(about, style="bold"))
        console.print(table)
        console.print()
    console.print(Text(_verdict([line for _, line in account])))


def _verdict(lines: list[Line]) -> str:
    fails, warns = (sum(line.level == level for line in lines) for level in ("fail", "warn"))
    if fails:
        return (
            f"Not well watched: {fails} {'thing' if fails == 1 else 'things'} to mend first, {warns} more to look at."
        )
    if warns:
        return f"Watched, with {warns} {'thing' if warns == 1 else 'things'} to look at."
    return "All is well: these runs are watched, and a page arrives."


def _reachable(source: AnswerSource, path: Path, clock: Clock) -> AnswerSource:
    """Nodes that push cannot be asked: the daemon of this config tells what it heard of them."""
    from watcher.daemon.pushed import Pushed
    from watcher.doctor._heard import HeardByDaemon

    if not isinstance(source, Pushed):
        return source
    return HeardByDaemon(source, lambda: _api(path).get("/api/pushed"), clock)


def _daemon(path: Path) -> str | None:
    """None where a daemon answers at the address of this config."""
    from watcher.cli._api import Refused

    try:
        _api(path).get("/api/incidents")
    except (Refused, UsageError) as error:
        return str(error)
    return None


def _api(path: Path) -> DaemonApi:
    from watcher.cli._api import DaemonApi

    return DaemonApi(argparse.Namespace(url=None, token_file=None, ca_file=None, config=path))


COMMAND = Command("doctor", "is each run watchable, and would a page arrive", add_arguments, run, order=12)
