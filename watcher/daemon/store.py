"""What the daemon remembers over a crash, in one SQLite file: incidents, their history, the outbox, learnt state.

One transaction writes what an evaluation decided together with the messages about it. Nothing else opens SQLite.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import TypeAdapter

from alerts.incidents import Incident, StepResult, Transition, bounded_key, transition_to_json
from alerts.notification import incident_from_json, incident_to_json, notification_from_json, notification_to_json
from alerts.outbox import Accepted, Delivery, JournalError
from alerts.policy import Told
from watcher.daemon.store_files import NETWORK_FILE_SYSTEMS, create_private, file_system_of, move_aside
from watcher.daemon.store_schema import STEPS, VERSION

_TOLD: TypeAdapter[dict[str, Told]] = TypeAdapter(dict[str, Told])
KEEP_SECONDS = 90 * 86_400.0


class StoreError(JournalError):
    """The database cannot be used now; one line with the file, what happened and what to do."""


@dataclass(slots=True)
class Loaded:
    """What an earlier process left. `notes`: readable lines about what could not be read."""

    incidents: dict[str, Incident] = field(default_factory=dict)
    told: dict[str, dict[str, Told]] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    accepted: list[Accepted] = field(default_factory=list)
    next_id: int = 1
    notes: list[str] = field(default_factory=list)


class Store:
    """Thread-safe; each method is one short transaction. Every method may raise StoreError."""

    def __init__(self, path: str | Path, now: float = 0.0, busy_seconds: float = 5.0, read_only: bool = False) -> None:
        """Opens or creates the file. A broken one is moved aside and `notes` says so. `now` only names that copy.

        `read_only`: looks at a file that must be there, and that a daemon may be using; nothing is changed.
        """
        self.path = Path(path)
        self.notes: list[str] = []
        self.owner = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._busy_seconds = busy_seconds
        self._lock = threading.RLock()
        self._written: dict[str, tuple[Incident, Mapping[str, Told]]] = {}
        self._inherited: set[int] = set()  # rows that a process claimed which is gone
        if read_only:
            try:
                self._db = self._look()
            except sqlite3.Error as error:
                raise self._error(error) from error
            return
        kind = file_system_of(self.path.parent)
        if kind in NETWORK_FILE_SYSTEMS:
            self.notes.append(f"{self.path} lies on {kind}: SQLite needs a local disk, set daemon.database to one")
        try:
            self._db = self._open()
        except (sqlite3.Error, OSError) as error:
            if not _broken(error):
                raise self._error(error) from error
            kept = move_aside(self.path, int(now))
            self.notes.append(f"{self.path} was broken ({error}); it is kept as {kept}, starting with an empty one")
            self._db = self._open()

    def close(self) -> None:
        with self._lock:
            self._db.close()

    # -- incidents and their messages

    def commit(
        self, result: StepResult, told: Mapping[str, Mapping[str, Told]], deliveries: Sequence[Delivery], now: float
    ) -> None:
        """Writes incidents that changed, the transitions and the rows of the outbox: all of it or nothing."""
        fresh = {key: (incident, told.get(key, {})) for key, incident in result.incidents.items()}
        with self._transaction() as db:
            gone = [(key,) for key in self._written if key not in fresh]
            past = {(one.incident.key, one.incident.id): one.incident for one in result.transitions}
            for (key, number), incident in past.items():  # those that are over: in this step, or while nothing was kept
                if key not in fresh:
                    self._put_incident(db, incident, told.get(key, {}), live=False)
                elif fresh[key][0].id != number:
                    self._put_incident(db, incident, self._heard_before(incident), live=False)
            for key, (incident, heard) in fresh.items():
                if self._written.get(key) != (incident, heard):
                    self._put_incident(db, incident, heard, live=True)
            db.executemany("UPDATE incidents SET live = 0 WHERE key = ?", gone)
            self._put_transitions(db, result.transitions)
            self._put_deliveries(db, deliveries, now)
        self._written = fresh

    def load(self) -> Loaded:
        """Live incidents and what is still to be sent. A row that cannot be read is left and noted."""
        loaded = Loaded()
        with self._reading() as db:
            for key, body, heard in db.execute("SELECT key, body, told FROM incidents WHERE live = 1"):
                try:
                    loaded.incidents[key], loaded.told[key] = incident_from_json(body), _TOLD.validate_json(heard)
                except ValueError:
                    loaded.notes.append(f"{self.path}: incident {key} cannot be read and is left out")
            for row in db.execute("SELECT * FROM outbox WHERE state IN ('pending', 'claimed') ORDER BY id"):
                if row["state"] == "claimed":
                    self._inherited.add(row["id"])
                try:
                    loaded.deliveries.append(_delivery(row))
                except ValueError:
                    loaded.notes.append(f"{self.path}: outbox row {row['id']} cannot be read and is left out")
            loaded.accepted = [
                Accepted(*row) for row in db.execute("SELECT channel, dedup_key, fallback_of, receipt FROM accepted")
            ]
            loaded.next_id = int(db.execute("SELECT coalesce(max(id), 0) + 1 FROM outbox").fetchone()[0])
        self._written = {key: (incident, loaded.told[key]) for key, incident in loaded.incidents.items()}
        return loaded

    def history(self, key: str | None = None, limit: int = 100) -> list[Incident]:
        """Incidents, live ones too, the latest change first."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT body FROM incidents WHERE ?1 IS NULL OR key = ?1 ORDER BY changed_at DESC LIMIT ?2",
                (key, limit),
            ).fetchall()
        return [incident_from_json(row[0]) for row in rows]

    def transitions(self, key: str | None = None, limit: int = 1000) -> list[dict[str, Any]]:
        """The latest transitions in order of time, as `replay --json` prints them, plus `id` and `reason`."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT body, id, reason FROM transitions WHERE ?1 IS NULL OR key = ?1 ORDER BY number DESC LIMIT ?2",
                (key, limit),
            ).fetchall()
        return [{**json.loads(row[0]), "id": row[1], "reason": row[2]} for row in reversed(rows)]

    def deliveries(self, dedup_key: str | None = None, limit: int = 100) -> list[Delivery]:
        """Rows of the outbox, finished ones too, the newest first."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT * FROM outbox WHERE ?1 IS NULL OR dedup_key = ?1 ORDER BY id DESC LIMIT ?2", (dedup_key, limit)
            ).fetchall()
        return [_delivery(row) for row in rows]

    def told_of(self, incident: Incident, limit: int = 200) -> list[Delivery]:
        """What was sent about this opening of an incident, also as a part of a group, the newest first."""
        with self._reading() as db:
            rows = db.execute(
                "SELECT * FROM outbox WHERE dedup_key = ?1 OR dedup_key IN (SELECT heard.value FROM incidents,"
                " json_each(incidents.told) AS channel, json_each(channel.value, '$.dedup_keys') AS heard"
                " WHERE incidents.key = ?2 AND incidents.id = ?3) ORDER BY id DESC LIMIT ?4",
                (bounded_key(incident.key), incident.key, incident.id, limit),
            ).fetchall()
        return [one for one in map(_delivery, rows) if _is_about(one, incident)]

    # -- the journal of the outbox

    def claim(self, delivery: Delivery, now: float) -> bool:
        """Compare and set. A row that was never written (the disk was full) may be sent: that is a yes."""
        if delivery.id in self._inherited:
            return True
        with self._transaction() as db:
            taken = db.execute(
                "UPDATE outbox SET state = 'claimed', owner = ?1 WHERE id = ?2 AND (state = 'pending' OR"
                " (state = 'claimed' AND owner IS ?1))",
                (self.owner, delivery.id),
            ).rowcount
            return taken == 1 or db.execute("SELECT 1 FROM outbox WHERE id = ?", (delivery.id,)).fetchone() is None

    def record(self, deliveries: Sequence[Delivery], now: float) -> None:
        with self._transaction() as db:
            self._put_deliveries(db, deliveries, now)

    # -- anything else that must survive

    def get_state(self, name: str) -> bytes | None:
        with self._reading() as db:
            row = db.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    def put_state(self, name: str, value: bytes, now: float = 0.0) -> None:
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO state (name, value, changed_at) VALUES (?, ?, ?)", (name, value, now))

    def prune(self, now: float, keep_seconds: float = KEEP_SECONDS) -> None:
        """Forgets what ended long ago and gives the write-ahead log back; once a day is enough."""
        before = now - keep_seconds
        with self._transaction() as db:
            db.execute("DELETE FROM incidents WHERE live = 0 AND changed_at < ?", (before,))
            db.execute("DELETE FROM outbox WHERE state NOT IN ('pending', 'claimed') AND finished_at < ?", (before,))
        with self._reading() as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    # -- inside

    def _heard_before(self, incident: Incident) -> Mapping[str, Told]:
        """What its row says already about who was told of this opening."""
        before = self._written.get(incident.key)
        return before[1] if before is not None and before[0].id == incident.id else {}

    def _put_incident(self, db: sqlite3.Connection, incident: Incident, told: Mapping[str, Told], live: bool) -> None:
        db.execute(
            "INSERT INTO incidents (key, id, live, state, severity, signature, run, node, opened_at, resolved_at,"
            " changed_at, body, told) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (key, id) DO UPDATE SET"
            " live=excluded.live, state=excluded.state, severity=excluded.severity, signature=excluded.signature,"
            " run=excluded.run, node=excluded.node, opened_at=excluded.opened_at, resolved_at=excluded.resolved_at,"
            " changed_at=excluded.changed_at, body=excluded.body, told=excluded.told",
            (incident.key, incident.id, live, incident.state, int(incident.severity), incident.signature, incident.run,
             incident.subject.node, incident.opened_at, incident.resolved_at, incident.last_changed_at,
             incident_to_json(incident), _TOLD.dump_json(dict(told)).decode()),
        )  # fmt: skip
        if live:  # one live row per key, whatever happened before
            db.execute("UPDATE incidents SET live = 0 WHERE key = ? AND id <> ?", (incident.key, incident.id))

    def _put_transitions(self, db: sqlite3.Connection, transitions: Sequence[Transition]) -> None:
        db.executemany(
            "INSERT INTO transitions (at, event, key, id, reason, body) VALUES (?,?,?,?,?,?)",
            [
                (one.at, one.event, one.incident.key, one.incident.id, one.reason, json.dumps(transition_to_json(one)))
                for one in transitions
            ],
        )

    def _put_deliveries(self, db: sqlite3.Connection, deliveries: Sequence[Delivery], now: float) -> None:
        for one in deliveries:
            db.execute(
                "INSERT INTO outbox (id, channel, dedup_key, kind, state, owner, created_at, due_at, attempts,"
                " first_attempt_at, finished_at, error, minimal, fell_back, fallback_of, notification)"
                " VALUES (?,?,?,?,?,NULL,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO UPDATE SET state=excluded.state,"
                " owner=NULL, due_at=excluded.due_at, attempts=excluded.attempts,"
                " first_attempt_at=excluded.first_attempt_at, finished_at=excluded.finished_at, error=excluded.error,"
                " minimal=excluded.minimal, fell_back=excluded.fell_back",
                (one.id, one.channel, one.dedup_key, _kind(one), one.state, one.created_at, one.due_at,
                 one.attempts, one.first_attempt_at, one.finished_at, one.error, one.minimal, one.fell_back,
                 one.fallback_of, notification_to_json(one.notification)),
            )  # fmt: skip
            place = (one.channel, one.dedup_key)
            if one.notification.repeated and one.state != "pending":  # once a minute: only the last one is kept
                db.execute(
                    "DELETE FROM outbox WHERE dedup_key = ?2 AND channel = ?1 AND kind = 'repeated' AND id < ?3"
                    " AND state NOT IN ('pending', 'claimed')",
                    (*place, one.id),
                )
            if one.state == "sent" and one.notification.action == "trigger":
                db.execute(
                    "INSERT OR REPLACE INTO accepted (channel, dedup_key, at, fallback_of, receipt) VALUES (?,?,?,?,?)",
                    (*place, now, one.fallback_of, one.receipt),
                )
            elif one.state == "sent" and one.notification.action == "resolve":
                db.execute("DELETE FROM accepted WHERE channel = ? AND dedup_key = ?", place)

    def _open(self) -> sqlite3.Connection:
        create_private(self.path)
        db = sqlite3.connect(self.path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False)
        try:
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA journal_mode = WAL").fetchall()
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA foreign_keys = ON")
            if (said := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                raise sqlite3.DatabaseError(f"malformed: {said}")
            _migrate(db, self.path)
        except BaseException:
            db.close()
            raise
        return db

    def _look(self) -> sqlite3.Connection:
        if not self.path.is_file():
            raise StoreError(f"database {self.path}: no such file; daemon.database in the config names it")
        place = f"file:{quote(str(self.path))}?mode=ro"
        db = sqlite3.connect(place, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False, uri=True)
        try:
            db.row_factory = sqlite3.Row
            db.execute("SELECT 1 FROM state LIMIT 1").fetchall()
        except sqlite3.Error as error:
            db.close()
            raise StoreError(
                f"database {self.path}: {error}; is it the file of a runwatch daemon, and may you read it?"
            ) from error
        return db

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._db
            except (sqlite3.Error, OSError) as error:
                raise self._error(error) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def _error(self, error: Exception) -> StoreError:
        text = str(error)
        advice = "see the file and its disk"
        if "full" in text:
            advice = "free space on its disk"
        elif "locked" in text or "busy" in text:
            advice = "another process holds it: is a second daemon or a backup running on it?"
        elif isinstance(error, OSError) or "readonly" in text or "unable to open" in text:
            advice = "check that its folder exists and that the daemon's user may write there"
        return StoreError(f"database {self.path}: {text}; {advice}")


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise StoreError(
            f"database {path} was written by a newer runwatch (schema {version}, this one knows {VERSION})"
        )
    for number, script in enumerate(STEPS[version:], start=version + 1):
        db.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version = {number}; COMMIT;")


def _broken(error: Exception) -> bool:
    text = str(error)
    return "malformed" in text or "not a database" in text


def _kind(delivery: Delivery) -> str:
    return "repeated" if delivery.notification.repeated else delivery.notification.kind


def _is_about(delivery: Delivery, incident: Incident) -> bool:
    """Its own messages and those of its group; an earlier opening of its key is another incident."""
    first = delivery.notification.incident
    return first.id == incident.id or first.key != incident.key


def _delivery(row: sqlite3.Row) -> Delivery:
    state: Any = "pending" if row["state"] == "claimed" else row["state"]  # its process died: again, same key
    return Delivery(
        id=row["id"], channel=row["channel"], notification=notification_from_json(row["notification"]),
        created_at=row["created_at"], due_at=row["due_at"], state=state, attempts=row["attempts"],
        first_attempt_at=row["first_attempt_at"], finished_at=row["finished_at"], error=row["error"],
        minimal=bool(row["minimal"]), fell_back=bool(row["fell_back"]), fallback_of=row["fallback_of"],
    )  # fmt: skip
