"""What was seen around an incident that was none, kept as a recording: `replay` then proves a better rule."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from alerts.incidents import Incident

BEFORE_SECONDS = 3600.0  # enough for what the run had taught by then
MAX_BYTES = 512 << 20


def keep(recording: Path, incident: Incident, now: float, folder: Path) -> Path | None:
    """Copies the lines of the recording from an hour before the incident to `now`; None where there are none."""
    since = incident.suspect_since_at - BEFORE_SECONDS
    name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in incident.key)[:120]
    target = folder / f"{name}.{int(incident.suspect_since_at)}.jsonl.gz"
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    with gzip.open(target, "wb") as out:
        for file in reversed(_parts(recording)):
            with file.open("rb") as lines:
                for line in lines:
                    if since <= _at(line) <= now and written < MAX_BYTES:
                        out.write(line)
                        written += len(line)
    if not written:
        target.unlink()
        return None
    return target


def _parts(recording: Path) -> list[Path]:
    """The newest first: FILE, FILE.1, FILE.2 ..."""
    parts = [recording] if recording.exists() else []
    number = 1
    while (older := recording.with_name(f"{recording.name}.{number}")).exists():
        parts.append(older)
        number += 1
    return parts


def _at(line: bytes) -> float:
    """The time of a line without reading all of it; it stands first."""
    head = line[:60].split(b",", 1)[0]
    try:
        return float(json.loads(head + b"}")["received_at"])
    except (ValueError, KeyError, TypeError):
        return 0.0
