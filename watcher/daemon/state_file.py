"""What the daemon's database holds, read without a daemon and without touching the file."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from watcher.daemon.ledger import Ledger
from watcher.daemon.store import StoreError

BUSY_SECONDS = 5.0


def read_state(path: Path, name: str) -> bytes | None:
    """A value that the daemon keeps: `ledger`, `run/NAME`. A daemon may be running on the file. Raises StoreError."""
    if not path.is_file():
        raise StoreError(f"database {path}: no such file; daemon.database in the config names it")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=BUSY_SECONDS)) as db:
            row = db.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
    except sqlite3.Error as error:
        raise StoreError(
            f"database {path}: {error}; is it the file of a runwatch daemon, and may you read it?"
        ) from error
    return None if row is None else bytes(row[0])


def read_ledger(path: Path) -> list[dict[str, Any]]:
    """The strikes, oldest first. Raises StoreError."""
    value = read_state(path, "ledger")
    if value is None:
        return []
    try:
        return Ledger.load(json.loads(value)).dump()
    except (ValueError, TypeError) as error:
        raise StoreError(f"database {path}: the strikes in it cannot be read ({error})") from error
