"""What the daemon's database holds, read without a daemon and without touching the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from watcher.daemon.ledger import Ledger
from watcher.daemon.store import Store, StoreError


@contextmanager
def looking_at(path: Path) -> Iterator[Store]:
    """A daemon may be running on the file. Raises StoreError."""
    store = Store(path, read_only=True)
    try:
        yield store
    finally:
        store.close()


def read_state(path: Path, name: str) -> bytes | None:
    """A value that the daemon keeps: `ledger`, `run/NAME`. Raises StoreError."""
    with looking_at(path) as store:
        return store.get_state(name)


def read_ledger(path: Path) -> list[dict[str, Any]]:
    """The strikes, oldest first. Raises StoreError."""
    value = read_state(path, "ledger")
    if value is None:
        return []
    try:
        return Ledger.load(json.loads(value)).dump()
    except (ValueError, TypeError) as error:
        raise StoreError(f"database {path}: the strikes in it cannot be read ({error})") from error
