"""`runwatch incidents list|show|ack|snooze|resolve`: incidents of a running daemon."""

from __future__ import annotations

import argparse
import getpass
import json
import sys
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from watcher.cli._api import DaemonApi, Refused, add_daemon_arguments
from watcher.cli._command import Command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", choices=["list", "show", "ack", "snooze", "resolve"],
        help="list them, show one, stop its reminders, hush it for a while, end it by hand",
    )  # fmt: skip
    parser.add_argument("key", nargs="?", metavar="KEY", help="as `list` prints it")
    parser.add_argument("--all", action="store_true", help="list: also those that ended")
    parser.add_argument("--minutes", type=float, default=60.0, help="snooze: for how long (default: %(default)g)")
    parser.add_argument("--why", default="", help="resolve: e.g. 'false alarm: planned pause'")
    parser.add_argument("--false-alarm", action="store_true", help="resolve: keep what was seen, to be replayed")
    parser.add_argument("--json", action="store_true", help="one JSON object an incident")
    add_daemon_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.action != "list" and not args.key:
        print(f"runwatch incidents {args.action}: name the KEY of an incident", file=sys.stderr)
        return 2
    api = DaemonApi(args)
    try:
        found = _ask(api, args)
    except Refused as error:
        print(f"runwatch incidents: {error}", file=sys.stderr)
        return 1
    for incident in found:
        if args.json:
            print(json.dumps(incident))
        elif args.action == "show":
            print("\n".join(_whole(incident)))
        else:
            print(_line(incident))
            if "kept" in incident:
                print(f"kept: {incident['kept']}")
    if not found and not args.json:
        print("no incident")
    return 0


def _ask(api: DaemonApi, args: argparse.Namespace) -> list[dict[str, Any]]:
    if args.action == "list":
        answer = api.get("/api/incidents", state="all" if args.all else "live")
        return list(answer["incidents"])
    path = f"/api/incidents/{quote(args.key)}"
    if args.action == "show":
        return [api.get(path)]
    body: dict[str, Any] = {"by": getpass.getuser()}
    if args.action == "snooze":
        body["seconds"] = args.minutes * 60
    if args.action == "resolve":
        body |= {"why": args.why, "false_alarm": args.false_alarm}
    return [api.post(f"{path}/do/{args.action}", body)]


def _line(incident: dict[str, Any]) -> str:
    since = incident["opened_at"] or incident["suspect_since_at"]
    return f"{incident['severity']:8}  {incident['state']:8}  {_time(since)}  {incident['key']}  {incident['summary']}"


def _whole(incident: dict[str, Any]) -> list[str]:
    words = ("key", "signature", "severity", "state", "run", "acknowledged_by")
    times = ("suspect_since_at", "opened_at", "resolved_at", "snoozed_until_at")
    lines = [incident["summary"], ""]
    lines += [f"{name:16} {incident[name]}" for name in words]
    lines += [f"{name:16} {_time(incident[name])}" for name in times]
    if incident["resolve_reason"]:
        lines.append(f"{'resolve_reason':16} {incident['resolve_reason']}")
    lines += ["", "evidence"]
    for name, value in incident["evidence"].items():
        if name == "log_tail":
            lines += ["  log_tail", *(f"    {text}" for text in value)]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            lines += [f"  {name}", *(f"    {json.dumps(item)}" for item in value[:64])]
        else:
            lines.append(f"  {name:24} {value}")
    return [*lines, "", f"do: {incident['hint']}"]


def _time(at: float | None) -> str:
    return "-" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


COMMAND = Command("incidents", "list, show, acknowledge, snooze or end incidents", add_arguments, run, order=23)
