"""Files -> the answers that agents would have given, in order of time."""

from __future__ import annotations

import gzip
import io
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import IO, Any

from detectors.telemetry import SourceHealth
from watcher.daemon.answer import Answer
from watcher.events import LogEvent
from watcher.formats._reader import LogReader
from watcher.replay.nvidia_smi import Reading, read_csv
from watcher.snapshot import Snapshot

STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d) ?")
LINE_BYTES = 1 << 20
TAIL = 20


def open_text(path: Path) -> IO[str]:
    """Plain or gzip, bytes that are no UTF-8 replaced, lines ended by `\\n` alone."""
    raw: Any = gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115 - the caller closes
    return io.TextIOWrapper(raw, encoding="utf-8", errors="replace", newline="\n")


class NodeFile:
    """The readings of one node; answers a snapshot for any instant."""

    def __init__(self, node: str, path: Path, zone: tzinfo) -> None:
        self.node = node
        with open_text(path) as lines:
            readings = sorted(read_csv(lines, zone, str(path)), key=lambda reading: reading.at)
        self._polls = _polls(readings)
        self._starts = [poll[-1].at for poll in self._polls]
        self.first_at = readings[0].at if readings else None
        self.last_at = readings[-1].at if readings else None

    def interval_seconds(self) -> float:
        gaps = sorted(b - a for a, b in zip(self._starts, self._starts[1:], strict=False))
        return gaps[len(gaps) // 2] if gaps else 10.0

    def answer(self, now: float, interval: float) -> Answer:
        """The newest poll that is younger than an interval and a half; else the agent said nothing."""
        place = bisect_right(self._starts, now) - 1
        if place < 0 or now - self._starts[place] > 1.5 * interval:
            return Answer(self.node, now, None, "no rows in the recording")
        gpus = tuple(reading.gpu for reading in self._polls[place])
        snapshot = Snapshot.model_construct(
            node=self.node,
            stream="recording",
            sent_at=now,
            gpus=gpus,
            gpus_age_seconds=now - self._starts[place],
            health={"nvml": SourceHealth(ok=True)},
        )
        return Answer(self.node, now, snapshot)


def _polls(readings: list[Reading]) -> list[list[Reading]]:
    """Rows of one poll: until a GPU comes again, or a second passes."""
    polls: list[list[Reading]] = []
    seen: set[str] = set()
    for reading in readings:
        if not polls or reading.gpu.uuid in seen or reading.at - polls[-1][0].at > 5.0:
            polls.append([])
            seen = set()
        polls[-1].append(reading)
        seen.add(reading.gpu.uuid)
    return polls


@dataclass(frozen=True, slots=True)
class Timed:
    """One line of a log: when it came, what it said, and its text for the tail."""

    at: float
    events: tuple[LogEvent, ...]
    text: str
    node: str | None


def read_log(path: Path, node: str | None, start_at: float) -> Iterator[Timed]:
    """Lines with the time of their stamp; a line without one came with the line before (or at the start)."""
    reader = LogReader()
    at = start_at
    with open_text(path) as lines:
        number = 0
        while line := lines.readline(LINE_BYTES):
            number += 1
            text = line.rstrip("\n")
            stamp = STAMP.match(text)
            if stamp:
                at = _instant(stamp)
            yield Timed(at, tuple(reader.feed(text, number)), text, node)
    last = tuple(reader.flush())
    if last:
        yield Timed(at, last, "", node)


def _instant(stamp: re.Match[str]) -> float:
    moment = datetime.fromisoformat(stamp[1] + ("+00:00" if stamp[3] == "Z" else stamp[3])).astimezone(UTC)
    fraction = f"0.{stamp[2]}" if stamp[2] else "0"
    return moment.timestamp() + float(fraction)
