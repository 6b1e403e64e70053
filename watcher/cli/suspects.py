"""`runwatch suspects [--slurm]`: nodes by the strikes that stand against them, or the option that leaves them out."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from watcher.cli._api import DaemonApi, Refused, add_daemon_arguments
from watcher.cli._command import Command

DAY_SECONDS = 86_400.0
WEEK_SECONDS = 7 * DAY_SECONDS
HALF_LIFE_SECONDS = WEEK_SECONDS
EXCLUDED_AT = 2  # counted strikes within a week


@dataclass(frozen=True, slots=True)
class Suspect:
    """`score`: counted strikes, each worth half as much a week later. `recent`: counted ones of the last week."""

    node: str
    strikes: tuple[dict[str, Any], ...]  # oldest first
    score: float
    recent: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--slurm", action="store_true", help=f"only --exclude=NODES of those struck {EXCLUDED_AT} times within a week"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a node")
    add_daemon_arguments(parser)


def run(args: argparse.Namespace) -> int:
    try:
        answer = DaemonApi(args).get("/api/suspects")
    except Refused as error:
        print(f"runwatch suspects: {error}", file=sys.stderr)
        return 1
    now = answer["now"]
    found = rank(answer["strikes"], now)
    if args.slurm:
        excluded = exclude_option(found)
        if excluded:
            print(excluded)
    elif args.json:
        for one in found:
            print(
                json.dumps(
                    {
                        "node": one.node,
                        "score": round(one.score, 3),
                        "strikes_in_week": one.recent,
                        "strikes": one.strikes,
                    }
                )
            )
    else:
        print("\n".join(_told(found, now)) or "no strike stands in the ledger")
    return 0


def rank(strikes: list[dict[str, Any]], now: float) -> list[Suspect]:
    """One per node, the worst first: by strikes with their age taken off, then by how many there were."""
    by_node: dict[str, list[dict[str, Any]]] = {}
    for strike in sorted(strikes, key=lambda item: float(item["at"])):
        by_node.setdefault(strike["node"], []).append(strike)
    found = []
    for node, events in by_node.items():
        ages = [max(0.0, now - event["at"]) for event in events if event["counted"]]
        score = sum(0.5 ** (age / HALF_LIFE_SECONDS) for age in ages)
        found.append(Suspect(node, tuple(events), score, sum(age <= WEEK_SECONDS for age in ages)))
    return sorted(found, key=lambda one: (-one.score, -len(one.strikes), one.node))


def exclude_option(found: list[Suspect]) -> str:
    """`--exclude=n1,n2`, or nothing where no node has to be left out."""
    names = sorted(one.node for one in found if one.recent >= EXCLUDED_AT)
    return f"--exclude={','.join(names)}" if names else ""


def _told(found: list[Suspect], now: float) -> list[str]:
    lines = []
    for one in found:
        out = "  leave it out" if one.recent >= EXCLUDED_AT else ""
        lines.append(f"{one.node}  {one.score:.2f} strikes with age, {one.recent} within a week{out}")
        lines += [f"    {_line(strike, now)}" for strike in reversed(one.strikes[-8:])]
    return lines


def _line(strike: dict[str, Any], now: float) -> str:
    when = datetime.fromtimestamp(strike["at"], UTC).strftime("%Y-%m-%d %H:%M")
    age = max(0.0, now - strike["at"]) / DAY_SECONDS
    gpu = "" if strike["gpu_index"] is None else f"gpu {strike['gpu_index']}"
    counted = "" if strike["counted"] else "(not counted)"
    parts = (
        when, f"{age:.1f} d ago", strike["kind"], gpu, strike["gpu_uuid"] or "", strike["serial"] or "",
        strike["run"] or "", counted, str(strike["detail"])[:80],
    )  # fmt: skip
    return "  ".join(part for part in parts if part)


COMMAND = Command("suspects", "nodes by their hardware strikes; which to leave out", add_arguments, run, order=24)
