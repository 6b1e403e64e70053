"""`runwatch test-page`: a real notification through each channel, marked as a test."""

from __future__ import annotations

import argparse
from pathlib import Path

from watcher.cli._command import Command, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the daemon's file")
    parser.add_argument("--channel", metavar="NAME", help="only this one")


def run(args: argparse.Namespace) -> int:
    from alerts.notification import Rejected, Sent
    from alerts.trial import try_channel
    from watcher.clock import SystemClock
    from watcher.config.alerting import build_channels
    from watcher.config.daemon import DaemonConfig
    from watcher.config.load import ConfigError, load

    try:
        config = load(args.config, DaemonConfig)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    if args.channel is not None and args.channel not in config.channels:
        known = ", ".join(config.channels) or "none"
        raise UsageError(f"--channel {args.channel}: no such channel in {args.config}; there are {known}")
    channels = build_channels(config.channels)
    failed = 0
    for name, channel in channels.items():
        if args.channel not in (None, name):
            continue
        outcome = try_channel(name, channel, SystemClock().time())
        if isinstance(outcome, Sent):
            print(f"{name}: sent, and resolved again")
        else:
            failed += 1
            later = " (it will not work later either)" if isinstance(outcome, Rejected) else ""
            print(f"{name}: FAILED: {outcome.error}{later}")
    if not channels:
        print("no channel is configured: nobody will be paged")
    return 1 if failed or not channels else 0


COMMAND = Command("test-page", "send a real test notification through each channel", add_arguments, run, order=31)
