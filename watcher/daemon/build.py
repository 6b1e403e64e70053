"""A checked config -> a daemon with all its parts."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from alerts.ack_link import KEY_BYTES
from alerts.desk import AlertDesk
from alerts.outbox import JournalError, Outbox
from alerts.secret import Secret, secret_file
from alerts.worker import Worker
from detectors.registry import load_plugins
from watcher.agent.follow import LogFollower
from watcher.clock import Clock
from watcher.config.acting import action_rules
from watcher.config.alerting import alert_policy, build_channels, fallbacks
from watcher.config.daemon import DaemonConfig, RunSection
from watcher.config.detectors import settled
from watcher.config.telemetry import build_progress, build_telemetry
from watcher.daemon.acting import Actor
from watcher.daemon.answer import AnswerSource
from watcher.daemon.app import Daemon
from watcher.daemon.collect import Collector
from watcher.daemon.dead_man import DeadManSwitch
from watcher.daemon.evaluate import build_detectors
from watcher.daemon.fold import RunFold, RunSettings
from watcher.daemon.ledger import Ledger
from watcher.daemon.pipeline import WatchedRun
from watcher.daemon.pushed import Pushed
from watcher.daemon.recording import Recorder
from watcher.daemon.shared_logs import LogReader, SharedLogs
from watcher.daemon.silences import Silences
from watcher.daemon.store import Store
from watcher.tls import ClientTls
from watcher.tokens import NodeTokens

log = logging.getLogger(__name__)
SAVE_SECONDS = 60.0
PRUNE_SECONDS = 86_400.0
LEDGER = "ledger"


class Keeper:
    """Writes what the runs taught and the strike ledger, once a minute and at the end; a failure costs nothing else.

    Once a day, and soon after the start, it lets the store forget what ended months ago.
    """

    def __init__(self, store: Store, ledger: Ledger, clock: Clock) -> None:
        self._store, self._ledger, self._clock = store, ledger, clock
        self._due_at = clock.monotonic() + SAVE_SECONDS
        self._prune_at = self._due_at
        self._struck = len(ledger.all())

    def __call__(self, runs: Sequence[WatchedRun], force: bool = False) -> None:
        tick, struck = self._clock.monotonic(), len(self._ledger.all())
        if not force and tick < self._due_at and struck == self._struck:
            return
        self._due_at, self._struck = tick + SAVE_SECONDS, struck
        now = self._clock.time()
        try:
            for run in runs:
                self._store.put_state(f"run/{run.fold.settings.name}", run.fold.dump(), now)
            self._store.put_state(LEDGER, json.dumps(self._ledger.dump()).encode(), now)
            if tick >= self._prune_at:
                self._prune_at = tick + PRUNE_SECONDS
                self._store.prune(now)
        except JournalError as error:
            log.warning("what runs taught is not saved err=%s", error)


def build(config: DaemonConfig, clock: Clock, store: Store) -> tuple[Daemon, Keeper]:
    """Takes up what an earlier process left. Raises JournalError where the database cannot be read."""
    section = config.daemon
    ledger = _ledger(store)
    runs = [_run(run, config, ledger, store) for run in config.runs]
    channels = build_channels(config.channels)
    outbox = Outbox(
        list(channels), clock, store, warn=log.warning, fallbacks=fallbacks(config.channels),
        fall_back_after_seconds=config.paging.fall_back_after_seconds,
    )  # fmt: skip
    desk = AlertDesk(
        store, outbox, alert_policy(config), clock, hysteresis=config.paging.hysteresis(),
        public_url=section.public_url, link_key=_link_key(store, clock), warn=log.warning,
    )  # fmt: skip
    keeper = Keeper(store, ledger, clock)
    recording, dead_man = section.recording, section.dead_man
    daemon = Daemon(
        runs=runs,
        sources=build_sources(config, clock),
        desk=desk,
        workers=[Worker(name, channel, outbox) for name, channel in channels.items()],
        clock=clock,
        interval_seconds=section.interval_seconds,
        save=keeper,
        shared_logs=[
            reader
            for run, watched in zip(config.runs, runs, strict=True)
            for reader in _readers(run, watched, section.database, clock)
        ],
        recorder=Recorder(recording.path, recording.file_bytes, recording.keep_files) if recording else None,
        dead_man=DeadManSwitch(_url(dead_man.url, dead_man.url_file), dead_man.interval_seconds) if dead_man else None,
        silences=Silences(desk, store, clock),
        actor=Actor(action_rules(config.actions), store) if config.actions else None,
        config_hash=hashlib.sha256(config.model_dump_json().encode()).hexdigest()[:12],
    )
    return daemon, keeper


def build_sources(config: DaemonConfig, clock: Clock) -> list[AnswerSource]:
    """Whoever tells of the nodes. Raises TlsError."""
    agents = config.daemon.agents
    nodes = list(dict.fromkeys(node for run in config.runs for node in run.nodes))
    sources: list[AnswerSource] = []
    tokens = node_tokens(config)
    if agents.ask:
        tls = ClientTls(agents.ca_file) if agents.tls or agents.ca_file is not None else None
        sources.append(Collector(addresses(config), clock, tokens, agents.timeout_seconds, tls))
    if agents.push:
        sources.append(Pushed(lambda: [node for node in nodes if agents.pushes(node)], clock, tokens))
    return [*sources, *build_telemetry(config.daemon.telemetry, lambda: nodes, clock)]


def node_tokens(config: DaemonConfig) -> NodeTokens:
    agents = config.daemon.agents
    return NodeTokens(token_of(agents.token_file), token_of(agents.master_file))


def addresses(config: DaemonConfig) -> Mapping[str, str]:
    """node -> http[s]://HOST:PORT for every node of every run that has an agent."""
    agents = config.daemon.agents
    usual = "https" if agents.tls or agents.ca_file is not None else "http"
    out = {}
    for node in dict.fromkeys(node for run in config.runs for node in run.nodes if agents.asks(node)):
        place = agents.addresses.get(node, node)
        scheme, sign, rest = place.partition("://")
        host = rest if sign else place
        has_port = host.rpartition(":")[2].isdigit() and (host.count(":") == 1 or "]:" in host)
        out[node] = f"{scheme if sign else usual}://{host if has_port else f'{host}:{agents.port}'}"
    return out


def token_of(path: Path | None) -> Secret | None:
    return secret_file(path) if path is not None else None


def _run(section: RunSection, config: DaemonConfig, ledger: Ledger, store: Store) -> WatchedRun:
    fold = run_fold(section, config, ledger, store.get_state(f"run/{section.name}"))
    configs, modes = settled(config.detectors, section.detectors)
    return WatchedRun(fold, build_detectors(load_plugins(), configs, modes))


def run_fold(section: RunSection, config: DaemonConfig, ledger: Ledger, saved: bytes | None) -> RunFold:
    """The run as its config says, with what was learnt before."""
    settings = RunSettings(
        name=section.name,
        nodes=section.nodes,
        interval_seconds=config.daemon.interval_seconds,
        expected_gpus=section.expected_gpus,
        gpu_hour_price=section.gpu_hour_price,
        currency=section.currency,
        logs_are_per_node=section.logs_are_per_node,
    )
    fold = RunFold(settings, ledger)
    if saved is not None:
        try:
            fold.load(saved)
        except ValueError as error:
            log.warning("%s; it is learnt anew", error)
    return fold


def _link_key(store: Store, clock: Clock) -> bytes:
    """Signs the links in pages; made once and kept, so that a link outlives a restart."""
    kept = store.get_state("link_key")
    if kept is not None and len(kept) == KEY_BYTES:
        return kept
    made = secrets.token_bytes(KEY_BYTES)
    try:
        store.put_state("link_key", made, clock.time())
    except JournalError as error:
        log.warning("links in pages will not outlive this process: %s", error)
    return made


def _ledger(store: Store) -> Ledger:
    saved = store.get_state(LEDGER)
    if saved is None:
        return Ledger()
    try:
        return Ledger.load(json.loads(saved))
    except (ValueError, TypeError) as error:
        log.warning("the strike ledger cannot be read, it starts anew err=%r", error)
        return Ledger()


def _readers(run: RunSection, watched: WatchedRun, database: Path, clock: Clock) -> Iterator[LogReader]:
    """What the daemon reads of a run itself."""
    if run.progress is not None:
        yield build_progress(run.progress, watched.fold, clock)
    logs = [item for item in run.logs if item.tail == "daemon"]
    if not logs:
        return
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in run.name)
    state = database.with_name(f"{database.stem}.logs.{safe}.json")
    yield SharedLogs(watched.fold, LogFollower(logs, "daemon", state, clock), clock)


def _url(url: str | None, file: Path | None) -> Secret:
    return secret_file(file) if file is not None else Secret(url or "")
