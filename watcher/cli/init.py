"""`runwatch init LOG...`: a first config from a real log, and from what the agents of the nodes answer."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from watcher.cli._command import Command, UsageError

TEMPLATE = """\
# Written by `runwatch init`; `runwatch check-config FILE` checks it.
# {found}
daemon:
  listen: 127.0.0.1:9877
  database: /var/lib/runwatch/runwatch.db
  agents: {{port: {port}}}            # token_file: /etc/runwatch/agent.token
  # dead_man: {{url_file: /etc/runwatch/dead-man-url}}
runs:
  - name: {run}
    nodes: "{nodes}"{nodes_note}
    # gpu_hour_price: 2.5            # then a page says what an hour costs
channels:
  terminal: {{console: {{}}}}
  # oncall: {{pagerduty: {{routing_key_file: /etc/runwatch/pagerduty.key}}}}
"""
AGENT = """
# For the agent on each node, a file of its own:
# agent:
#   listen: 0.0.0.0:{port}           # token_file: /etc/runwatch/agent.token, and tls: or plain_http: true
#   logs:
{logs}
"""
PATTERNS = """\
#       patterns:                    # no step was found in this log: say what one looks like
#         step: 'step (?P<step>[0-9]+) .* loss (?P<loss>[0-9.eE+-]+)'"""


@dataclass
class Found:
    """What one log holds."""

    path: Path
    formats: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    step_seconds: list[float] = field(default_factory=list)
    phases: Counter[str] = field(default_factory=Counter)
    errors: int = 0

    @property
    def line(self) -> str:
        if not self.steps:
            return f"{self.path}: no step that could be read"
        pace = f", {median(self.step_seconds):.3g} s a step" if self.step_seconds else ""
        phases = ", ".join(f"{count} {name}" for name, count in self.phases.most_common())
        more = f"; {phases}" if phases else ""
        return f"{self.path}: {self.steps} steps as {self.formats.most_common(1)[0][0]} prints them{pace}{more}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG", help="a log of the run, or of an earlier one")
    parser.add_argument("--nodes", default="", metavar="LIST", help="hostlist of its nodes, as gpu-node-[01-16]")
    parser.add_argument("--run", default="", metavar="NAME", help="name of the run (default: from the log's name)")
    parser.add_argument("--port", type=int, default=9876, metavar="PORT", help="of the agents (default: %(default)s)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write there instead of standard output")


def run(args: argparse.Namespace) -> int:
    found = [_look(path) for path in args.logs]
    nodes, notes = _nodes(args.nodes, args.port)
    text = TEMPLATE.format(
        found="\n# ".join([*(one.line for one in found), *notes]),
        run=args.run or args.logs[0].name.split(".")[0] or "run",
        nodes=args.nodes or "gpu-node-[01-02]",
        nodes_note="" if nodes else "            # set this: a hostlist",
        port=args.port,
    )
    text += AGENT.format(port=args.port, logs="\n".join(_log_lines(one) for one in found))
    if args.output is None:
        print(text, end="")
    else:
        try:
            with args.output.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise UsageError(f"--output {args.output}: {error.strerror}") from error
        print(f"{args.output} is written; next: runwatch check-config {args.output}", file=sys.stderr)
    return 0 if all(one.steps for one in found) else 1


def _look(path: Path) -> Found:
    from watcher.cli.parse_log import BrokenLogError, read

    found = Found(path.absolute())
    try:
        for event in read(path, None):
            if event.event == "step":
                found.steps += 1
                found.formats[event.format or "unknown"] += 1
                if event.step_seconds is not None:
                    found.step_seconds.append(event.step_seconds)
            elif event.event == "phase" and event.edge == "start" and event.phase in ("evaluation", "checkpoint"):
                found.phases[event.phase] += 1
    except BrokenLogError as error:
        print(f"runwatch init: {error}", file=sys.stderr)
    return found


def _log_lines(found: Found) -> str:
    lines = [f"#     - path: {found.path}"]
    if not found.steps:
        lines.append(PATTERNS)
    return "\n".join(lines)


def _nodes(hostlist: str, port: int) -> tuple[list[str], list[str]]:
    """The nodes, and a line for each of what its agent says."""
    if not hostlist:
        return [], []
    import asyncio

    from ClusterShell.NodeSet import NodeSet, NodeSetException

    from watcher.clock import SystemClock
    from watcher.daemon.collect import Collector

    try:
        nodes = [str(name) for name in NodeSet(hostlist)]
    except NodeSetException as error:
        raise UsageError(f"--nodes {hostlist}: {error}") from error

    async def ask() -> list[str]:
        addresses = {node: f"http://{node}:{port}" for node in nodes}
        async with Collector(addresses, SystemClock(), timeout_seconds=3.0) as collector:
            return [
                f"{a.node}: {len(a.snapshot.gpus)} GPUs" if a.snapshot is not None else f"{a.node}: {a.error}"
                for a in await collector.ask_all()
            ]

    return nodes, asyncio.run(ask())


COMMAND = Command("init", "write a first config from a real log", add_arguments, run, order=11)
