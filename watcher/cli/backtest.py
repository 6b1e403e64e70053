"""`runwatch backtest`: the pages that would have come, from the history of a Prometheus-compatible engine."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watcher.cli._command import Command, UsageError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from alerts.incidents import Hysteresis
    from watcher.backtest.fetch import Fetched
    from watcher.backtest.play import Coverage
    from watcher.backtest.setup import Plan
    from watcher.backtest.summary import Summary

MAX_EVALUATIONS = 5_000_000
RENAMED = {"url": "prometheus", "name": "run", "step": "progress"}  # key of the config -> option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prometheus", required=True, metavar="URL", help="with the path before /api/v1")
    parser.add_argument("--from", dest="first", required=True, metavar="T", help="2026-01-31T12:00Z, now-7d or seconds")
    parser.add_argument("--to", dest="last", default="now", metavar="T", help="default: %(default)s")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the daemon's config, or a part of it")
    parser.add_argument("--run", metavar="NAME", help="only this run of the config; without a config, its name")
    parser.add_argument(
        "--nodes", metavar="LIST", help="nodes of the run (default: the config's, or all that are found)"
    )
    parser.add_argument("--metrics", metavar="EXPORTER", help="whose metrics (default: dcgm_exporter)")
    parser.add_argument("--node-label", metavar="LABEL", help="the label that names the node")
    parser.add_argument("--selector", metavar="MATCHERS", help='more matchers, as in cluster="a"')
    parser.add_argument("--progress", metavar="SELECTOR", help="the step counter, where the config names none")
    parser.add_argument("--step", type=float, metavar="SECONDS", help="between two evaluations (default: the config's)")
    parser.add_argument("--token-file", metavar="FILE", help="bearer token")
    parser.add_argument("--org-id", metavar="TENANT", help="sent as X-Scope-OrgID")
    parser.add_argument("--ca-file", metavar="FILE", help="authority of its certificate")
    parser.add_argument("--json", action="store_true", help="one JSON object a transition, then a summary")


def run(args: argparse.Namespace) -> int:
    import asyncio

    from watcher.backtest.summary import Summary
    from watcher.telemetry._http import FetchError

    summary = Summary()
    with asyncio.Runner() as runner:
        try:
            first, last = _period(args)
            plan, hysteresis = runner.run(_plan(args, first, last))
            coverage = _play(args, plan, hysteresis, (first, last), runner.run, summary)
        except FetchError as error:
            raise UsageError(str(error)) from error
    result = summary.to_json(first, last, coverage)
    print(json.dumps(result) if args.json else _summary_text(result))
    return 1 if summary.trouble else 0


def _period(args: argparse.Namespace) -> tuple[float, float]:
    from watcher.clock import SystemClock

    now = SystemClock().time()
    first, last = instant(args.first, now), instant(args.last, now)
    if first >= last:
        raise UsageError("--from must be before --to")
    if args.step is not None and not 1 <= args.step <= 300:
        raise UsageError("--step must be from 1 to 300 seconds")
    if (last - first) / (args.step or 10.0) > MAX_EVALUATIONS:
        raise UsageError("--from and --to: so long a time takes days to play; take a shorter one or a larger --step")
    return first, last


async def _plan(args: argparse.Namespace, first: float, last: float) -> tuple[Plan, Hysteresis]:
    from pydantic import ValidationError

    from watcher.backtest.setup import plan, section_of
    from watcher.config.daemon import DaemonConfig, RunSection
    from watcher.config.load import ConfigError, load
    from watcher.progress._sections import MetricNames
    from watcher.telemetry._fleet import selector
    from watcher.telemetry._prometheus_api import PrometheusApi
    from watcher.telemetry.prometheus import dialect_of

    names = ("metrics", "node_label", "selector", "token_file", "org_id", "ca_file")
    options = {name: value for name in names if (value := getattr(args, name)) is not None}
    try:
        config = load(args.config, DaemonConfig) if args.config is not None else DaemonConfig()
        section = section_of(config, args.prometheus, options)
        runs = [one for one in config.runs if args.run in (None, one.name)]
        if args.run is not None and config.runs and not runs:
            raise UsageError(f"--run {args.run}: no run of {args.config} is called so")
        if args.progress is not None:
            MetricNames(step=args.progress)
        if not runs:
            runs = [RunSection(name=args.run or "run")]
        if args.nodes is not None:
            runs = [RunSection.model_validate({**_written(one), "nodes": args.nodes}) for one in runs]
        if not all(one.nodes for one in runs):
            async with PrometheusApi(section) as api:
                dialect = dialect_of(section)
                label = section.node_label or dialect.node
                found = await api.label_values(label, selector(dialect.anchor, section.selector), first, last)
            nodes = tuple(sorted({name.rpartition(":")[0] or name for name in found}))
            if not nodes:
                raise UsageError(f"no {dialect.anchor} with a label {label} in that time: see --node-label")
            runs = [one if one.nodes else one.model_copy(update={"nodes": nodes}) for one in runs]
    except ConfigError as error:
        raise UsageError(str(error)) from error
    except ValidationError as error:
        raise UsageError("\n".join(_problem(item["loc"], item["msg"]) for item in error.errors())) from error
    interval = args.step if args.step is not None else config.daemon.interval_seconds
    return plan(config, section, runs, interval, args.progress), config.paging.hysteresis()


def _problem(place: Sequence[int | str], message: str) -> str:
    option = ".".join(map(str, place)).replace("_", "-")
    return f"--{RENAMED.get(option, option)}: {message.removeprefix('Value error, ')}"


def _written(section: Any) -> dict[str, Any]:
    return {name: getattr(section, name) for name in section.model_fields_set}


def _play(
    args: argparse.Namespace,
    plan: Plan,
    hysteresis: Hysteresis,
    period: tuple[float, float],
    wait: Callable[[Coroutine[Any, Any, Any]], Any],
    summary: Summary,
) -> Coverage:
    from alerts.incidents import transition_to_json
    from watcher.backtest.fetch import History
    from watcher.backtest.play import Player
    from watcher.cli.replay import line_of
    from watcher.replay.run import play_ticks
    from watcher.telemetry._prometheus_api import PrometheusApi

    api = PrometheusApi(plan.section)
    window = plan.section.window_seconds
    interval = plan.runs[0].fold.settings.interval_seconds
    player = Player(
        plan.dialect, plan.node_label, plan.nodes, window, interval, plan.section.power_limit_watts, plan.counters
    )
    wait(api.__aenter__())
    try:
        wait(api.time())  # whether it answers us at all
        pieces = _shown(History(api, plan.queries, window).pieces(*period, wait), *period)
        for transition in play_ticks(plan.runs, player.ticks(pieces), hysteresis):
            summary.add(transition)
            item = transition_to_json(transition)
            print(json.dumps(item) if args.json else line_of(item), flush=True)
    finally:
        wait(api.__aexit__(None, None, None))
    if api.warned is not None:
        print(f"runwatch backtest: {args.prometheus} may have told only a part: {api.warned}", file=sys.stderr)
    for name, steps in player.coverage.steps.items():
        if not steps:
            print(f"runwatch backtest: no step of {name} was found: only its GPUs were judged", file=sys.stderr)
    return player.coverage


def _shown(
    pieces: Iterator[tuple[float, float, Fetched]], first: float, last: float
) -> Iterator[tuple[float, float, Fetched]]:
    """The same pieces, with a bar on standard error where a person looks."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("history", total=last - first)
        for piece in pieces:
            yield piece
            bar.update(task, completed=piece[1] - first)


def _summary_text(result: dict[str, Any]) -> str:
    days = (result["to_at"] - result["from_at"]) / 86_400
    counts = ", ".join(f"{name} {count}" for name, count in result["opened"].items()) or "none"
    return (
        f"{days:.2f} days, {result['seen_ratio']:.0%} of the looks at a node found its GPUs\n"
        f"incidents: {counts}\n"
        f"pages: {sum(result['pages'].values())}, {result['pages_per_day']:g} a day"
    )


def instant(text: str, now: float) -> float:
    """Unix seconds from RFC 3339 (UTC where it says none), unix seconds, `now` or `now-7d`. Raises UsageError."""
    import re
    from datetime import UTC, datetime

    ago = re.fullmatch(r"now(?:-(\d+(?:\.\d+)?)([smhdw]))?", text.strip())
    if ago:
        return now - float(ago[1] or 0) * {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}[ago[2] or "s"]
    try:
        if math.isfinite(seconds := float(text)):
            return seconds
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{text!r} is no time: write 2026-01-31T12:00Z, now-7d or unix seconds") from None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


COMMAND = Command(
    "backtest", "the pages that would have come, from the history of a Prometheus", add_arguments, run, order=41
)
