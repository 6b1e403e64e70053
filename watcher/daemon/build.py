"""A checked config -> a daemon with all its parts."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Iterable, Iterator, Sequence
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
from watcher.config.alerting import alert_policy, alertmanager_of, build_channels, fallbacks
from watcher.config.daemon import DaemonConfig, DeadManSection, RunSection
from watcher.config.detectors import settled
from watcher.config.fleet import build_feeds
from watcher.config.telemetry import build_progress, build_telemetry
from watcher.daemon.acting import Actor
from watcher.daemon.addresses import Addresses
from watcher.daemon.answer import AnswerSource
from watcher.daemon.app import Daemon
from watcher.daemon.collect import Collector
from watcher.daemon.dead_man import DeadManSwitch
from watcher.daemon.evaluate import build_detectors
from watcher.daemon.fleet import FleetWatch
from watcher.daemon.fold import RunFold, RunSettings
from watcher.daemon.job_logs import JobLogs
from watcher.daemon.ledger import Ledger
from watcher.daemon.pipeline import WatchedRun
from watcher.daemon.pushed import Pushed
from watcher.daemon.recording import Recorder
from watcher.daemon.shared_logs import LogReader, SharedLogs
from watcher.daemon.silences import Silences
from watcher.daemon.store import Store
from watcher.daemon.watchdog_alert import WatchdogAlert
from watcher.telemetry._api import NodesNow
from watcher.tls import ClientTls
from watcher.tokens import NodeTokens

log = logging.getLogger(__name__)
SAVE_SECONDS = 60.0
PRUNE_SECONDS = 86_400.0
LEDGER = "ledger"
FLEET = "fleet"


class Keeper:
    """Writes what the runs taught and the strike ledger, once a minute and at the end; a failure costs nothing else.

    Once a day, and soon after the start, it lets the store forget what ended months ago.
    """

    def __init__(self, store: Store, ledger: Ledger, clock: Clock, fleet: FleetWatch | None = None) -> None:
        self._store, self._ledger, self._clock, self._fleet = store, ledger, clock, fleet
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
            if self._fleet is not None:
                self._store.put_state(FLEET, self._fleet.dump(), now)
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
    configured = [run for run in config.runs if run.match is None]
    runs = [_run(run, run.name, config, ledger, store) for run in configured]
    readers = [
        reader
        for run, watched in zip(configured, runs, strict=True)
        for reader in _readers(run, watched, section.database, clock)
    ]
    fleet = _fleet(config, runs, ledger, store, clock)
    channels = build_channels(config.channels)
    outbox = Outbox(
        list(channels), clock, store, warn=log.warning, fallbacks=fallbacks(config.channels),
        fall_back_after_seconds=config.paging.fall_back_after_seconds,
    )  # fmt: skip
    desk = AlertDesk(
        store, outbox, alert_policy(config), clock, hysteresis=config.paging.hysteresis(),
        public_url=section.public_url, link_key=_link_key(store, clock), warn=log.warning,
    )  # fmt: skip
    keeper = Keeper(store, ledger, clock, fleet)
    recording = section.recording
    daemon = Daemon(
        runs=runs,
        sources=build_sources(config, clock, lambda: nodes_of(runs)),
        desk=desk,
        workers=[Worker(name, channel, outbox) for name, channel in channels.items()],
        clock=clock,
        interval_seconds=section.interval_seconds,
        save=keeper,
        shared_logs=readers,
        fleet=fleet,
        ledger=ledger,
        recorder=Recorder(recording.path, recording.file_bytes, recording.keep_files) if recording else None,
        dead_man=_dead_man(section.dead_man),
        watchdog_alert=_watchdog_alert(config, clock),
        silences=Silences(desk, store, clock),
        actor=Actor(action_rules(config.actions), store) if config.actions else None,
        config_hash=hashlib.sha256(config.model_dump_json().encode()).hexdigest()[:12],
    )
    return daemon, keeper


def build_sources(config: DaemonConfig, clock: Clock, nodes: NodesNow) -> list[AnswerSource]:
    """Whoever tells of the nodes. `nodes`: those of all runs at this moment. Raises TlsError."""
    agents = config.daemon.agents
    sources: list[AnswerSource] = []
    tokens = node_tokens(config)
    if agents.ask:
        tls = ClientTls(agents.ca_file) if agents.tls or agents.ca_file is not None else None
        sources.append(Collector(Addresses(agents, nodes), clock, tokens, agents.timeout_seconds, tls))
    if agents.push:
        sources.append(Pushed(lambda: [node for node in nodes() if agents.pushes(node)], clock, tokens))
    return [*sources, *build_telemetry(config.daemon.telemetry, nodes, clock)]


def node_tokens(config: DaemonConfig) -> NodeTokens:
    agents = config.daemon.agents
    return NodeTokens(token_of(agents.token_file), token_of(agents.master_file))


def nodes_of(runs: Iterable[WatchedRun]) -> list[str]:
    """Each node once."""
    return list(dict.fromkeys(node for run in runs for node in run.fold.nodes))


def _fleet(
    config: DaemonConfig, runs: list[WatchedRun], ledger: Ledger, store: Store, clock: Clock
) -> FleetWatch | None:
    """None where no run is found by a source."""
    feeds = build_feeds(config, clock)
    if not feeds:
        return None
    sections = {run.name: run for run in config.runs}

    def make(rule: str, name: str) -> tuple[WatchedRun, list[LogReader]]:
        watched = _run(sections[rule], name, config, ledger, store)
        return watched, list(_readers(sections[rule], watched, config.daemon.database, clock))

    fleet = FleetWatch(feeds, make, runs, clock)
    fleet.restore(store.get_state(FLEET))
    return fleet


def token_of(path: Path | None) -> Secret | None:
    return secret_file(path) if path is not None else None


def _run(section: RunSection, name: str, config: DaemonConfig, ledger: Ledger, store: Store) -> WatchedRun:
    fold = run_fold(section, config, ledger, store.get_state(f"run/{name}"), name)
    configs, modes = settled(config.detectors, section.detectors)
    return WatchedRun(fold, build_detectors(load_plugins(), configs, modes))


def run_fold(
    section: RunSection, config: DaemonConfig, ledger: Ledger, saved: bytes | None, name: str | None = None
) -> RunFold:
    """The run as its config says, with what was learnt before. `name`: of one that was found, where it has its own."""
    settings = RunSettings(
        name=section.name if name is None else name,
        nodes=section.nodes,
        interval_seconds=config.daemon.interval_seconds,
        expected_gpus=section.expected_gpus,
        gpu_hour_price=section.gpu_hour_price,
        currency=section.currency,
        logs_are_per_node=section.logs_are_per_node,
        follows=section.match is not None,
        log_paths=tuple(log.path for log in section.logs if log.tail == "agent") if section.match is not None else (),
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
    name = watched.fold.settings.name
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
    state = database.with_name(f"{database.stem}.logs.{safe}.json")
    if run.match is not None:
        yield JobLogs(watched.fold, logs, LogFollower((), "daemon", state, clock), clock)
    else:
        yield SharedLogs(watched.fold, LogFollower(logs, "daemon", state, clock), clock)


def _dead_man(section: DeadManSection | None) -> DeadManSwitch | None:
    if section is None or (section.url is None and section.url_file is None):
        return None
    url = secret_file(section.url_file) if section.url_file is not None else Secret(section.url or "")
    return DeadManSwitch(url, section.interval_seconds, start_and_fail=section.start_and_fail)


def _watchdog_alert(config: DaemonConfig, clock: Clock) -> WatchdogAlert | None:
    section = config.daemon.dead_man
    channel = alertmanager_of(config.channels, section.alertmanager) if section is not None else None
    return WatchdogAlert(channel, clock.time()) if channel is not None else None
