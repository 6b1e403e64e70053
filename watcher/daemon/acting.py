"""Does what the rules of `actions:` ask for, in a thread with a deadline, and tells it: a row first, then the deed."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import IO, Any

from alerts._text import one_line
from alerts.actions import ActionRule, Deed, Due, decide_actions, deed_from_json, deed_to_json
from alerts.incidents import Incident, Judged
from alerts.outbox import JournalError
from detectors.verdict import Finding, Severity, Subject, firing
from watcher.actions._api import ActionPlugin
from watcher.daemon.store import Store

log = logging.getLogger(__name__)
STATE = "actions"
MAX_DEEDS = 1_000
TOLD_SECONDS = 600.0  # so long the page about it stays open
DEADLINE_REAL_SECONDS = 30.0
LINGER_REAL_SECONDS = 2.0
TAIL_BYTES = 2_000
WATCHDOG = "watchdog"
CUT_SHORT = "the daemon ended in the middle of it: look whether it was done"
Ready = tuple[ActionRule, ActionPlugin, Any]
Run = Callable[[tuple[str, ...]], tuple[bool, str]]


def run_command(argv: tuple[str, ...]) -> tuple[bool, str]:
    """Whether it went well, and one line of the last that it said, however much that is."""
    try:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
    except (OSError, ValueError) as error:
        return False, f"{argv[0]}: {getattr(error, 'strerror', None) or error}"
    assert child.stdout is not None
    tail = bytearray()
    reader = threading.Thread(target=_keep_tail, args=(child.stdout, tail), daemon=True)
    reader.start()
    code = None
    with contextlib.suppress(subprocess.TimeoutExpired):
        code = child.wait(DEADLINE_REAL_SECONDS)
    if code is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # one that hangs in the kernel
            child.wait(LINGER_REAL_SECONDS)
        return False, f"no end after {DEADLINE_REAL_SECONDS:g} s, killed"
    reader.join(LINGER_REAL_SECONDS)  # something that it started may hold the pipe
    said = one_line(bytes(tail).decode("utf-8", "replace"), 200)
    return code == 0, said if code == 0 else f"exit {code}: {said}".rstrip(": ")


def _keep_tail(pipe: IO[bytes], tail: bytearray) -> None:
    with pipe:
        while chunk := os.read(pipe.fileno(), 1 << 16):
            tail[:] = (tail + chunk)[-TAIL_BYTES:]


class Actor:
    """Remembers over restarts: a deed whose row is written is never done a second time for the same incident."""

    def __init__(self, rules: Sequence[Ready], store: Store, run: Run = run_command) -> None:
        self._rules, self._store, self._run = rules, store, run
        self._lock = threading.Lock()
        self._deeds = _load(store)
        self.refused: Mapping[tuple[str, str], str] = {}

    @property
    def deeds(self) -> tuple[Deed, ...]:
        """The audit, oldest first."""
        with self._lock:
            return tuple(self._deeds)

    def consider(self, incidents: Mapping[str, Incident], jobs: Mapping[str, str], now: float) -> None:
        """Starts what is due; never waits for it. `jobs`: run -> id of its job."""
        decided = decide_actions([rule for rule, _, _ in self._rules], incidents, self.deeds, jobs, now)
        self.refused = refused = decided.refused
        for due in decided.due:
            plugin, section = next((plugin, section) for rule, plugin, section in self._rules if rule is due.rule)
            if not self._begin(due, plugin.argv(section, due), now):
                refused[due.rule.name, due.incident.key] = "its row cannot be written"

    def _begin(self, due: Due, argv: tuple[str, ...], now: float) -> bool:
        rule, incident = due.rule, due.incident
        deed = Deed(
            at=now, rule=rule.name, kind=rule.kind, target=due.target, key=incident.key, incident_id=incident.id,
            signature=incident.signature, run=incident.run, signals=due.signals, dry_run=rule.dry_run, command=argv,
            outcome="would have been done" if rule.dry_run else "", ok=True if rule.dry_run else None,
        )  # fmt: skip
        with self._lock:
            self._deeds = [*self._deeds, deed][-MAX_DEEDS:]
            if not self._save(now):
                self._deeds = self._deeds[:-1]  # what cannot be remembered is not done
                return False
        log.warning("action rule=%s target=%s dry_run=%s: %s", rule.name, due.target, rule.dry_run, " ".join(argv))
        if not rule.dry_run:
            threading.Thread(target=self._do, args=(deed, now), name=f"action-{rule.name}", daemon=True).start()
        return True

    def _do(self, deed: Deed, now: float) -> None:
        ok, said = self._run(deed.command)
        done = replace(deed, ok=ok, outcome=said or "done")
        with self._lock:
            self._deeds = [done if known is deed else known for known in self._deeds]
            self._save(now)
        log.warning("action rule=%s target=%s ok=%s: %s", deed.rule, deed.target, ok, done.outcome)

    def _save(self, now: float) -> bool:
        try:
            self._store.put_state(STATE, json.dumps([deed_to_json(deed) for deed in self._deeds]).encode(), now)
        except JournalError as error:
            log.warning("no action is taken while its row cannot be written: %s", error)
            return False
        return True

    def judged(self, now: float) -> list[Judged]:
        """`action_taken`, as long as it is news."""
        recent = [deed for deed in self.deeds if 0 <= now - deed.at < TOLD_SECONDS and deed.ok is not None]
        return [
            Judged(
                signature=_family(rule.name), family=_family(rule.name), run=WATCHDOG,
                verdict=firing(_finding(deed) for deed in recent if deed.rule == rule.name),
            )
            for rule, _, _ in self._rules
        ]  # fmt: skip


def _family(rule: str) -> str:
    return f"action_taken.{rule}"


def _finding(deed: Deed) -> Finding:
    command = " ".join(deed.command)
    said = f"Would have run: {command}" if deed.dry_run else f"Ran: {command} ({deed.outcome})"
    what = "Dry run of action" if deed.dry_run else "Action" if deed.ok else "FAILED action"
    return Finding(
        signature="action_taken",
        family=_family(deed.rule),
        subject=Subject(node=deed.target),
        severity=Severity.WARNING,
        summary=one_line(f"{what} {deed.rule} for {deed.key}. {said}", 600),
        evidence={
            "rule": deed.rule, "kind": deed.kind, "target": deed.target, "for": deed.key, "signature": deed.signature,
            "signals": list(deed.signals), "command": command, "outcome": deed.outcome, "dry_run": deed.dry_run,
        },
        hint="`runwatch actions` lists all that was done. A drained node is given back by hand.",
        since_at=deed.at,
    )  # fmt: skip


def _load(store: Store) -> list[Deed]:
    saved = store.get_state(STATE)
    try:
        deeds = [deed_from_json(raw) for raw in json.loads(saved)] if saved is not None else []
        return [replace(deed, ok=False, outcome=CUT_SHORT) if deed.ok is None else deed for deed in deeds]
    except (ValueError, KeyError, TypeError) as error:
        log.warning("the record of actions cannot be read, it starts anew err=%r", error)
        return []
