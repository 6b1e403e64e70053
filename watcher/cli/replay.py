"""`runwatch replay`: the incidents that a recording would have raised, and when."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from watcher.cli._command import Command, UsageError

if TYPE_CHECKING:
    from alerts.incidents import Transition


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recording", nargs="*", type=Path, metavar="RECORDING", help="JSON lines the daemon recorded")
    parser.add_argument(
        "--nvidia-smi", action="append", default=[], metavar="NODE=FILE", help="nvidia-smi CSV of a node (repeatable)"
    )
    parser.add_argument(
        "--log", action="append", default=[], metavar="[NODE=]FILE", help="training log, of one node or of all"
    )
    parser.add_argument("--run", default="run", metavar="NAME", help="name of the run (default: %(default)s)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the daemon's config, or a part of it")
    parser.add_argument("--timezone", default="UTC", metavar="ZONE", help="of the CSV's times (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON object a transition")


def run(args: argparse.Namespace) -> int:
    from alerts.incidents import transition_to_json
    from watcher.config.load import ConfigError
    from watcher.replay.nvidia_smi import ReadingsError
    from watcher.replay.recording import RecordingError

    try:
        transitions = _recorded(args) if args.recording else _from_files(args)
        count = 0
        for transition in transitions:
            count += transition.event == "opened"
            item = transition_to_json(transition)
            print(json.dumps(item) if args.json else line_of(item), flush=True)
    except (OSError, EOFError, ReadingsError, RecordingError, ConfigError) as error:
        raise UsageError(str(error)) from error
    return 1 if count else 0


def _recorded(args: argparse.Namespace) -> Iterator[Transition]:
    from watcher.replay.recording import read_recordings
    from watcher.replay.run import play_recording
    from watcher.replay.setup import watched_run

    if args.nvidia_smi or args.log:
        raise UsageError("give recordings, or --nvidia-smi and --log, not both")
    recording = read_recordings(args.recording)
    if recording.skipped:
        print(f"runwatch replay: {recording.skipped} lines could not be read and are left out", file=sys.stderr)
    run, hysteresis = watched_run(args.run, recording.nodes, args.config, False, recording.interval_seconds)
    return play_recording(run, recording, hysteresis)


def _from_files(args: argparse.Namespace) -> Iterator[Transition]:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    from watcher.replay.feed import NodeFile, read_log
    from watcher.replay.run import play
    from watcher.replay.setup import watched_run

    try:
        zone = ZoneInfo(args.timezone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise UsageError(f"--timezone {args.timezone}: no such time zone, e.g. UTC or Europe/Paris") from error
    nodes = [NodeFile(node, path, zone) for node, path in (_pair(text) for text in args.nvidia_smi)]
    names = {node.node for node in nodes}
    logs = [_log(text, names) for text in args.log]
    start = min((node.first_at for node in nodes if node.first_at is not None), default=0.0)
    lines = [line for node, path in logs for line in read_log(path, node, start)]
    if not nodes and not lines:
        raise UsageError("nothing to replay: name a recording, --nvidia-smi NODE=FILE or --log FILE")
    interval = max([node.interval_seconds() for node in nodes], default=10.0)
    per_node = any(node for node, _ in logs)
    run, hysteresis = watched_run(args.run, sorted(names), args.config, per_node, interval)
    return play(run, nodes, lines, interval, hysteresis)


def line_of(item: dict[str, object]) -> str:
    from datetime import UTC, datetime

    at = datetime.fromtimestamp(float(str(item["at"])), UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}  {item['event']:9}  {item['severity']:8}  {item['key']}: {item['summary']}"


def _pair(text: str) -> tuple[str, Path]:
    node, sign, path = text.partition("=")
    if not sign or not node or not path:
        raise UsageError(f"--nvidia-smi {text}: write NODE=FILE")
    return node, Path(path)


def _log(text: str, nodes: set[str]) -> tuple[str | None, Path]:
    node, sign, path = text.partition("=")
    return (node, Path(path)) if sign and node in nodes else (None, Path(text))


COMMAND = Command("replay", "the incidents a recording would have raised, and when", add_arguments, run, order=40)
