"""`runwatch incidents list|show|ack|snooze|resolve`: incidents of a running daemon."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from watcher.cli._api import DaemonApi, Refused, add_daemon_arguments, who
from watcher.cli._command import Command, UsageError


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
    parser.add_argument("--markdown", action="store_true", help="show: all of it, for a post-mortem")
    parser.add_argument("--database", type=Path, metavar="FILE", help="list, show: read the daemon's file")
    parser.add_argument("--json", action="store_true", help="one JSON object an incident")
    add_daemon_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.action != "list" and not args.key:
        print(f"runwatch incidents {args.action}: name the KEY of an incident", file=sys.stderr)
        return 2
    from watcher.daemon.store import StoreError

    try:
        if args.action == "show" and args.markdown:
            print(_markdown(args), end="")
            return 0
        found = _ask(args) if args.database is None else _look(args)
    except (Refused, StoreError) as error:
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


def _look(args: argparse.Namespace) -> list[dict[str, Any]]:
    """In the file of a daemon that need not run."""
    from watcher.daemon.state_file import looking_at
    from watcher.daemon.views import incident_view, jsonable

    if args.action not in ("list", "show"):
        raise UsageError(
            f"incidents {args.action} changes something: that needs a running daemon, leave --database out"
        )
    with looking_at(args.database) as store:
        found = store.history(args.key, limit=1 if args.key else 100)
    if args.key and not found:
        raise Refused(f"no incident {args.key!r} is in {args.database}")
    kept = [one for one in found if args.key or args.all or one.state != "resolved"]
    return [jsonable(incident_view(one)) for one in kept]


def _markdown(args: argparse.Namespace) -> str:
    if args.database is None:
        return DaemonApi(args).get_text(f"/api/incidents/{quote(args.key)}", "text/markdown")
    from alerts.postmortem import postmortem
    from watcher.clock import SystemClock
    from watcher.daemon.state_file import looking_at

    with looking_at(args.database) as store:
        found = next(iter(store.history(args.key, limit=1)), None)
        if found is None:
            raise Refused(f"no incident {args.key!r} is in {args.database}")
        return postmortem(found, store.transitions(args.key), store.told_of(found), SystemClock().time())


def _ask(args: argparse.Namespace) -> list[dict[str, Any]]:
    api = DaemonApi(args)
    if args.action == "list":
        answer = api.get("/api/incidents", state="all" if args.all else "live")
        return list(answer["incidents"])
    path = f"/api/incidents/{quote(args.key)}"
    if args.action == "show":
        return [api.get(path)]
    body: dict[str, Any] = {"by": who()}
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
