"""`runwatch suspects`: the strike ledger by node; `--slurm` prints the --exclude= line.

Asks the daemon; with `--database` reads its file instead, also while no daemon runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from watcher.cli._api import DaemonApi, Refused, add_daemon_arguments
from watcher.cli._command import Command

HALF_LIFE_SECONDS = 7 * 86_400.0  # a strike counts half after a week
EXCLUDED_FROM = 2  # counted strikes within a week
WEEK_SECONDS = 7 * 86_400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--slurm", action="store_true", help="only the --exclude= line: struck twice in a week")
    parser.add_argument("--json", action="store_true", help="one JSON object a strike")
    parser.add_argument("--database", type=Path, metavar="FILE", help="read the daemon's database, ask no daemon")
    add_daemon_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from watcher.daemon.store import StoreError

    try:
        strikes, now = _strikes(args)
    except (Refused, StoreError) as error:
        print(f"runwatch suspects: {error}", file=sys.stderr)
        return 1
    if args.json:
        for strike in strikes:
            print(json.dumps(strike))
    elif args.slurm:
        if nodes := excluded(strikes, now):
            print(f"--exclude={','.join(nodes)}")
    else:
        print("\n".join(account(strikes, now)) or "no node has been struck")
    return 0


def _strikes(args: argparse.Namespace) -> tuple[list[dict[str, Any]], float]:
    """And the moment at which they are looked at."""
    if args.database is None:
        answer = DaemonApi(args).get("/api/suspects")
        return answer["strikes"], answer["now"]
    from watcher.clock import SystemClock
    from watcher.daemon.state_file import read_ledger

    return read_ledger(args.database), SystemClock().time()


def excluded(strikes: Sequence[Mapping[str, Any]], now: float) -> list[str]:
    """Nodes with at least two counted strikes within a week."""
    counts: dict[str, int] = defaultdict(int)
    for strike in strikes:
        counts[strike["node"]] += bool(strike["counted"]) and now - strike["at"] <= WEEK_SECONDS
    return sorted(node for node, count in counts.items() if count >= EXCLUDED_FROM)


def account(strikes: Sequence[Mapping[str, Any]], now: float) -> list[str]:
    """Nodes, the worst first; old strikes weigh less."""
    by_node: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for strike in strikes:
        by_node[strike["node"]].append(strike)
    lines = []
    for node in sorted(by_node, key=lambda n: -weight(by_node[n], now)):
        lines.append(f"{node}  weight {weight(by_node[node], now):.2f}")
        lines += [f"  {_line(strike)}" for strike in sorted(by_node[node], key=lambda s: -s["at"])]
    return lines


def weight(strikes: Sequence[Mapping[str, Any]], now: float) -> float:
    return float(sum(0.5 ** (max(0.0, now - s["at"]) / HALF_LIFE_SECONDS) for s in strikes if s["counted"]))


def _line(strike: Mapping[str, Any]) -> str:
    at = datetime.fromtimestamp(strike["at"], UTC).strftime("%Y-%m-%d %H:%M")
    gpu = f" gpu {strike['gpu_index']} {strike['gpu_uuid']}" if strike.get("gpu_uuid") else ""
    serial = f" serial {strike['serial']}" if strike.get("serial") else ""
    counted = "" if strike["counted"] else " (not counted)"
    return f"{at}  {strike['kind']}{gpu}{serial}{counted}  {strike.get('detail', '')}".rstrip()


COMMAND = Command("suspects", "nodes with hardware strikes, and what to exclude", add_arguments, run, order=24)
