"""`runwatch silence add|list|remove`: nothing that fits is sent until then; what is still open at its end is."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from watcher.cli._api import DaemonApi, Refused, add_daemon_arguments, who
from watcher.cli._command import Command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["add", "list", "remove"])
    parser.add_argument("name", nargs="?", metavar="NAME", help="remove: which; add: how to call it")
    for word in ("run", "node", "signature"):
        parser.add_argument(f"--{word}", action="append", default=[], metavar="PATTERN", help="add: which; repeatable")
    parser.add_argument("--everything", action="store_true", help="add: all runs and nodes")
    parser.add_argument("--minutes", type=float, default=60.0, help="add: for how long (default: %(default)g)")
    parser.add_argument("--why", default="", help="add: what for, for the others")
    parser.add_argument("--json", action="store_true", help="one JSON object a silence")
    add_daemon_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.action == "remove" and not args.name:
        print("runwatch silence remove: name one, as `list` prints it", file=sys.stderr)
        return 2
    api = DaemonApi(args)
    try:
        if args.action == "add":
            body = {
                "name": args.name, "runs": args.run, "nodes": args.node, "signatures": args.signature,
                "everything": args.everything, "seconds": args.minutes * 60, "why": args.why,
                "by": who(),
            }  # fmt: skip
            found = [api.post("/api/silences", body)]
        elif args.action == "remove":
            api.delete(f"/api/silences/{quote(args.name)}")
            found = []
            print(f"{args.name} is over: what is open is told again")
        else:
            found = api.get("/api/silences")["silences"]
    except Refused as error:
        print(f"runwatch silence: {error}", file=sys.stderr)
        return 1
    for one in found:
        print(json.dumps(one) if args.json else silence_line(one))
    if args.action == "list" and not found and not args.json:
        print("nothing is silent")
    return 0


def silence_line(one: dict[str, Any]) -> str:
    """ "move  until 2026-12-01 08:00 UTC  runs tr11-*  by ada: moving the rack"."""
    until = datetime.fromtimestamp(one["until_at"], UTC).strftime("%Y-%m-%d %H:%M UTC")
    parts = [f"{name} {','.join(one[name])}" for name in ("runs", "nodes", "signatures") if one[name]]
    begins = "" if one["active"] else f"from {datetime.fromtimestamp(one['from_at'], UTC):%Y-%m-%d %H:%M UTC}  "
    why = f": {one['why']}" if one["why"] else ""
    return f"{one['name']}  {begins}until {until}  {'; '.join(parts) or 'everything'}  by {one['by']}{why}"


COMMAND = Command("silence", "hush runs, nodes or signatures for a while", add_arguments, run, order=23)
