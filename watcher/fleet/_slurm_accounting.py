"""How jobs ended that squeue no longer lists: rows of `sacct`. Pure. Without slurmdbd there are none."""

from __future__ import annotations

from dataclasses import dataclass

from watcher.fleet._api import JobState
from watcher.fleet._slurm_jobs import state_of

FIELDS = ("JobID", "State", "Start", "End", "ExitCode", "NodeList")


@dataclass(frozen=True, slots=True)
class Record:
    """One launch of a job. `id` as squeue's jobs are called."""

    id: str
    state: JobState
    started_at: float | None
    ended_at: float | None
    exit_code: str


def records(data: bytes) -> list[Record]:
    """Rows of `sacct --parsable2 --noheader --format=...`, the launches of one job in their order."""
    out = []
    for line in data.decode("utf-8", "replace").splitlines():
        parts = line.split("|")
        if len(parts) != len(FIELDS):
            continue
        job, word, start, end, code, _ = parts
        state = state_of([word])
        if state is not None and state != "pending":
            out.append(Record(job, state, _instant(start), _instant(end), code))
    return out


def _instant(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() else None
