"""Silences that people ask for while the daemon runs: by run, node and signature, with an end, kept over restarts."""

from __future__ import annotations

import json
import logging
import re
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from alerts.desk import AlertDesk
from alerts.policy import Match, Silence
from watcher.clock import Clock
from watcher.daemon.store import Store

log = logging.getLogger(__name__)
STATE = "silences"
LEAST_SECONDS, MOST_SECONDS = 60.0, 30 * 86_400.0
MAX_SILENCES = 200
MAX_PATTERNS, MAX_PATTERN = 50, 200
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")


class SilenceError(ValueError):
    """What was asked for cannot be a silence; one line."""


@dataclass(frozen=True, slots=True)
class _Asked:
    silence: Silence
    by: str
    why: str
    made_at: float


class Silences:
    """Those of the config are the desk's already; these come and go. Thread-safe."""

    def __init__(self, desk: AlertDesk, store: Store, clock: Clock) -> None:
        self._desk, self._store, self._clock = desk, store, clock
        self._lock = threading.Lock()
        self._of_config = {one.name for one in desk.silences}
        self._asked: dict[str, _Asked] = {}
        for one in self._load():
            self._asked[one.silence.name] = one
            desk.silence(one.silence)

    def all(self) -> list[dict[str, Any]]:
        """What is or will be silent, the next end first; `origin`: config or asked."""
        now = self._clock.time()
        with self._lock:
            asked = dict(self._asked)
        shown = []
        for one in sorted(self._desk.silences, key=lambda silence: silence.until_at):
            if one.until_at <= now:
                continue
            more = asked.get(one.name)
            shown.append(
                {
                    "name": one.name, "origin": "config" if more is None else "asked",
                    "from_at": one.from_at, "until_at": one.until_at, "active": one.from_at <= now,
                    "runs": list(one.match.runs), "nodes": list(one.match.nodes),
                    "signatures": list(one.match.signatures),
                    "by": more.by if more is not None else "config", "why": more.why if more is not None else "",
                }
            )  # fmt: skip
        return shown

    def add(self, wanted: Mapping[str, Any]) -> str:
        """Answers its name. Raises SilenceError, and JournalError where it cannot be kept."""
        now = self._clock.time()
        match = Match(
            runs=_patterns(wanted, "runs"), nodes=_patterns(wanted, "nodes"), signatures=_patterns(wanted, "signatures")
        )
        if not (match.runs or match.nodes or match.signatures) and wanted.get("everything") is not True:
            raise SilenceError("name runs, nodes or signatures; everything: true if all shall be silent")
        seconds = wanted.get("seconds")
        if not isinstance(seconds, int | float) or not LEAST_SECONDS <= seconds <= MOST_SECONDS:
            raise SilenceError(f"seconds must lie between {LEAST_SECONDS:.0f} and {MOST_SECONDS:.0f}: each has an end")
        name = str(wanted.get("name") or f"silence-{secrets.token_hex(3)}")
        if not NAME.fullmatch(name):
            raise SilenceError("name: letters, digits, dots, dashes and underscores, at most 80")
        if name in self._of_config:
            raise SilenceError(f"{name} stands under maintenance: in the config; choose another name")
        one = _Asked(
            Silence(name=name, from_at=now, until_at=now + seconds, match=match),
            str(wanted.get("by") or "api")[:120], str(wanted.get("why") or "")[:300], now,
        )  # fmt: skip
        with self._lock:
            kept = {key: old for key, old in self._asked.items() if old.silence.until_at > now}
            if len(kept) >= MAX_SILENCES and name not in kept:
                raise SilenceError(f"{MAX_SILENCES} silences are in force already")
            self._save({**kept, name: one}, now)
            self._desk.silence(one.silence)
        log.warning("silence added name=%s by=%s until=%d", name, one.by, one.silence.until_at)
        return name

    def remove(self, name: str) -> bool:
        """False where there is none of that name that people asked for. Raises JournalError."""
        with self._lock:
            if name not in self._asked:
                return False
            self._save({key: old for key, old in self._asked.items() if key != name}, self._clock.time())
            self._desk.end_silence(name)
        log.warning("silence removed name=%s", name)
        return True

    def _save(self, asked: dict[str, _Asked], now: float) -> None:
        rows = [
            {
                "name": one.silence.name, "from_at": one.silence.from_at, "until_at": one.silence.until_at,
                "runs": one.silence.match.runs, "nodes": one.silence.match.nodes,
                "signatures": one.silence.match.signatures, "by": one.by, "why": one.why, "made_at": one.made_at,
            }
            for one in asked.values()
        ]  # fmt: skip
        self._store.put_state(STATE, json.dumps(rows).encode(), now)
        self._asked = asked

    def _load(self) -> list[_Asked]:
        saved = self._store.get_state(STATE)
        try:
            rows = json.loads(saved) if saved is not None else []
            found = [
                _Asked(
                    Silence(
                        name=row["name"], from_at=row["from_at"], until_at=row["until_at"],
                        match=Match(
                            runs=tuple(row["runs"]), nodes=tuple(row["nodes"]), signatures=tuple(row["signatures"])
                        ),
                    ),
                    row["by"], row["why"], row["made_at"],
                )
                for row in rows
            ]  # fmt: skip
        except (ValueError, KeyError, TypeError) as error:
            log.warning("silences cannot be read, none is in force err=%r", error)
            return []
        now = self._clock.time()
        return [one for one in found if one.silence.until_at > now and one.silence.name not in self._of_config]


def _patterns(wanted: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = wanted.get(key) or []
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or len(given) > MAX_PATTERNS:
        raise SilenceError(f"{key}: a list of at most {MAX_PATTERNS} names or patterns")
    if not all(isinstance(text, str) and 0 < len(text) <= MAX_PATTERN for text in given):
        raise SilenceError(f"{key}: each a text of at most {MAX_PATTERN} letters")
    return tuple(given)
