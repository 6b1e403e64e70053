"""`runwatch agent`: the node agent; `--release` asks a running one to let go of the GPUs for a reset."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from watcher.cli._command import Command, UsageError

if TYPE_CHECKING:
    from watcher.agent.app import Agent
    from watcher.agent.push import Pusher
    from watcher.config.agent import AgentSection

log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="the agent's file (default: all defaults)")
    parser.add_argument("--release", action="store_true", help="ask the running agent to let go of the GPUs")
    parser.add_argument("--resume", action="store_true", help="ask it to take them again")


def run(args: argparse.Namespace) -> int:
    import asyncio

    from alerts.secret import secret_file
    from watcher.agent.app import Agent
    from watcher.agent.follow import LogFollower
    from watcher.agent.http import build_app, serve
    from watcher.bind import ListenError, bind
    from watcher.clock import SystemClock
    from watcher.config.agent import AgentConfig
    from watcher.config.load import ConfigError, load
    from watcher.config.notes import unreadable_files
    from watcher.guard import package_problems
    from watcher.log_setup import set_up_logging
    from watcher.sources.bindings import check_pynvml
    from watcher.sources.host import HostSource
    from watcher.sources.kernel import Kernel
    from watcher.sources.nvml import NvmlSource
    from watcher.tls import TlsError, server_tls

    try:
        config = AgentConfig() if args.config is None else load(args.config, AgentConfig)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    section = config.agent
    if args.release or args.resume:
        return _ask(section, "release" if args.release else "resume")
    if problems := package_problems():
        raise UsageError("\n".join(problems))
    try:
        check_pynvml()
    except ImportError as error:
        raise UsageError(str(error)) from error
    set_up_logging()
    for note in unreadable_files(config):
        log.warning("%s", note)
    clock = SystemClock(config.clock_scale, config.clock_epoch)
    follower = LogFollower(section.logs, section.node, section.state_file, clock) if section.logs else None
    gpus = NvmlSource(clock, stuck_seconds=section.gpu_stuck_seconds)
    folders = [Path(log.path).parent for log in section.logs]
    agent = Agent(section, clock, gpus, follower, HostSource(clock, folders), Kernel(clock))
    token = secret_file(section.token_file) if section.token_file is not None else None
    try:
        tls = agent.tls = server_tls(section.tls)
        pusher = _pusher(agent, section)
        sock = bind(section.listen)
    except (ListenError, TlsError) as error:
        print(f"runwatch agent: {error}", file=sys.stderr)
        return 1
    asyncio.run(serve(agent, build_app(agent, token), sock, _say, tls, pusher))
    return 0


def _pusher(agent: Agent, section: AgentSection) -> Pusher | None:
    """Raises TlsError."""
    if section.push is None:
        return None
    from watcher.agent.push import Pusher  # an HTTP client in memory only where it is needed
    from watcher.agent.push_http import HttpPost

    return Pusher(agent, HttpPost(section.push, section.node))


def _say(address: str) -> None:
    print(f"runwatch agent listens on {address}", file=sys.stderr, flush=True)


def _ask(section: AgentSection, what: str) -> int:
    import requests

    from alerts.secret import SecretError, secret_file
    from watcher.cli._here import place, session
    from watcher.tokens import lines_of

    url = f"{place(section.listen, section.tls is not None)}/{what}"
    try:
        token = lines_of(secret_file(section.token_file))[0] if section.token_file is not None else ""
        asking = session(section.tls.cert_file if section.tls is not None else None)
        reply = asking.post(url, headers={"Authorization": f"Bearer {token}"}, timeout=10)
        reply.raise_for_status()
    except (requests.RequestException, SecretError, OSError) as error:
        print(f"runwatch agent: {url}: {error}", file=sys.stderr)
        return 1
    print("the GPUs are let go; start them again with --resume" if what == "release" else "the GPUs are read again")
    return 0


COMMAND = Command("agent", "the node agent: reads GPUs and logs, answers the daemon", add_arguments, run, order=20)
