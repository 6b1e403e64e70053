"""The tables of the store and the steps between their versions. Steps are only ever added at the end."""

from __future__ import annotations

STEPS: tuple[str, ...] = (
    """
    CREATE TABLE incidents (
        key TEXT NOT NULL, id TEXT NOT NULL, live INTEGER NOT NULL, state TEXT NOT NULL, severity INTEGER NOT NULL,
        signature TEXT NOT NULL, run TEXT, node TEXT, opened_at REAL, resolved_at REAL, changed_at REAL NOT NULL,
        body TEXT NOT NULL, told TEXT NOT NULL,
        PRIMARY KEY (key, id)
    );
    CREATE INDEX incidents_live ON incidents (live) WHERE live = 1;
    CREATE INDEX incidents_changed ON incidents (changed_at);
    CREATE TABLE transitions (
        number INTEGER PRIMARY KEY, at REAL NOT NULL, event TEXT NOT NULL, key TEXT NOT NULL, id TEXT NOT NULL,
        reason TEXT NOT NULL, body TEXT NOT NULL,
        FOREIGN KEY (key, id) REFERENCES incidents (key, id) ON DELETE CASCADE
    );
    CREATE INDEX transitions_key ON transitions (key, id);
    CREATE TABLE outbox (
        id INTEGER PRIMARY KEY, channel TEXT NOT NULL, dedup_key TEXT NOT NULL, kind TEXT NOT NULL,
        state TEXT NOT NULL, owner TEXT, created_at REAL NOT NULL, due_at REAL NOT NULL, attempts INTEGER NOT NULL,
        first_attempt_at REAL, finished_at REAL, error TEXT NOT NULL, minimal INTEGER NOT NULL,
        fell_back INTEGER NOT NULL, fallback_of TEXT, notification TEXT NOT NULL
    );
    CREATE INDEX outbox_pending ON outbox (state) WHERE state IN ('pending', 'claimed');
    CREATE TABLE accepted (
        channel TEXT NOT NULL, dedup_key TEXT NOT NULL, at REAL NOT NULL, fallback_of TEXT,
        PRIMARY KEY (channel, dedup_key)
    );
    CREATE TABLE state (name TEXT PRIMARY KEY, value BLOB NOT NULL, changed_at REAL NOT NULL);
    """,
    "CREATE INDEX outbox_key ON outbox (dedup_key);",
    "ALTER TABLE accepted ADD COLUMN receipt TEXT NOT NULL DEFAULT '';",
)
VERSION = len(STEPS)
