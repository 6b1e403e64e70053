"""`runwatch actions`: what the watchdog did or would have done, and for what is open why it does nothing."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from typing import Any

from watcher.cli._api import DaemonApi, Refused, add_daemon_arguments
from watcher.cli._command import Command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object an action")
    add_daemon_arguments(parser)


def run(args: argparse.Namespace) -> int:
    try:
        answer = DaemonApi(args).get("/api/actions")
    except Refused as error:
        print(f"runwatch actions: {error}", file=sys.stderr)
        return 1
    if args.json:
        for deed in answer["actions"]:
            print(json.dumps(deed))
        return 0
    for deed in answer["actions"]:
        print(*_lines(deed), sep="\n")
    for one in answer["not_done"]:
        print(f"nothing is done for {one['key']} by rule {one['rule']}: {one['why']}")
    if not answer["actions"] and not answer["not_done"]:
        print("no action was taken, and none is due")
    return 0


def _lines(deed: dict[str, Any]) -> list[str]:
    at = datetime.fromtimestamp(deed["at"], UTC).strftime("%Y-%m-%d %H:%M")
    state = "dry run" if deed["dry_run"] else "under way" if deed["ok"] is None else "done" if deed["ok"] else "FAILED"
    by = " and ".join(deed["signals"])
    return [
        f"{at}  {state}  {deed['rule']}: {' '.join(deed['command'])}",
        f"    for {deed['key']} ({deed['signature']}), by {by}; {deed['outcome'] or 'waiting'}",
    ]


COMMAND = Command("actions", "what the watchdog did or would have done", add_arguments, run, order=25)
