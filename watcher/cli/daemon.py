"""`runwatch daemon`: the watchdog itself, on a host apart from the cluster."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from pathlib import Path

from watcher.cli._command import Command, UsageError

log = logging.getLogger(__name__)
FILES = 65_536  # one connection for each node; a shell allows 1,024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the daemon's file")


def run(args: argparse.Namespace) -> int:
    import asyncio

    from alerts.outbox import JournalError
    from watcher.bind import ListenError, bind
    from watcher.clock import SystemClock
    from watcher.config.daemon import DaemonConfig
    from watcher.config.load import ConfigError, load
    from watcher.config.notes import daemon_notes
    from watcher.daemon.build import build, token_of
    from watcher.daemon.http import build_app
    from watcher.daemon.serve import serve
    from watcher.daemon.store import Store
    from watcher.daemon.store_files import alone_with
    from watcher.guard import package_problems
    from watcher.log_setup import set_up_logging
    from watcher.tls import TlsError, server_tls

    try:
        config = load(args.config, DaemonConfig)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    if problems := package_problems():
        raise UsageError("\n".join(problems))
    set_up_logging()
    _allow_files()
    for note in daemon_notes(config):
        log.warning("%s", note)
    clock = SystemClock(config.clock_scale, config.clock_epoch)
    try:
        sock = bind(config.daemon.listen)
    except ListenError as error:
        print(f"runwatch daemon: {error}", file=sys.stderr)
        return 1
    lock = contextlib.ExitStack()
    try:
        lock.enter_context(alone_with(config.daemon.database))
        store = Store(config.daemon.database, clock.time())
        for note in store.notes:
            print(f"runwatch daemon: {note}", file=sys.stderr)
        daemon, keeper = build(config, clock, store)
        tls = daemon.tls = server_tls(config.daemon.tls)
    except (JournalError, OSError, TlsError) as error:
        sock.close()
        lock.close()
        print(f"runwatch daemon: {error}", file=sys.stderr)
        return 1
    app = build_app(daemon, token_of(config.daemon.token_file), store.history, store)
    asyncio.run(serve(daemon, app, sock, _say, tls))
    keeper(daemon.runs, force=True)
    store.close()
    lock.close()
    return 0


def _say(address: str) -> None:
    print(f"runwatch daemon listens on {address}", file=sys.stderr, flush=True)


def _allow_files() -> None:
    import resource

    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if most == resource.RLIM_INFINITY else min(FILES, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        with contextlib.suppress(OSError, ValueError):  # a sandbox may forbid it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


COMMAND = Command("daemon", "the watchdog, on a host apart from the cluster", add_arguments, run, order=21)
