"""What the daemon recorded: JSON lines of answers, plain, gzip or zstd; a line that cannot be read is left out."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, cast

from watcher.daemon.answer import Answer
from watcher.snapshot import SnapshotError, parse_snapshot

LINE_BYTES = 16 << 20


class RecordingError(Exception):
    """The file is no recording; the text says why."""


@dataclass(slots=True)
class Recording:
    """Answers in order of time. `skipped`: lines that could not be read."""

    answers: list[Answer] = field(default_factory=list)
    skipped: int = 0

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(answer.node for answer in self.answers))

    @property
    def interval_seconds(self) -> float:
        """Between two answers of one node, as usual in this recording."""
        last: dict[tuple[str, str], float] = {}
        gaps = []
        for answer in self.answers:
            key = (answer.node, answer.part)
            if key in last:
                gaps.append(answer.received_at - last[key])
            last[key] = answer.received_at
        return max(1.0, sorted(gaps)[len(gaps) // 2]) if gaps else 10.0

    def ticks(self) -> Iterator[tuple[float, Sequence[Answer]]]:
        """Answers that came within half an interval belong to one evaluation, at the time of the last of them."""
        half = self.interval_seconds / 2
        batch: list[Answer] = []
        for answer in self.answers:
            again = any((answer.node, answer.part) == (other.node, other.part) for other in batch)
            if batch and (again or answer.received_at - batch[0].received_at > half):
                yield batch[-1].received_at, batch
                batch = []
            batch.append(answer)
        if batch:
            yield batch[-1].received_at, batch


def read_recordings(paths: Sequence[Path]) -> Recording:
    """All files as one. Raises RecordingError and OSError."""
    recording = Recording()
    for path in paths:
        with open_any(path) as file:
            while line := file.readline(LINE_BYTES):
                answer = _answer(line)
                if answer is None:
                    recording.skipped += 1
                else:
                    recording.answers.append(answer)
    if not recording.answers:
        raise RecordingError(f"{', '.join(map(str, paths))}: no line of a recording in it")
    recording.answers.sort(key=lambda answer: answer.received_at)
    return recording


def open_any(path: Path) -> IO[bytes]:
    """Plain, .gz or .zst by the first bytes, not by the name. Raises RecordingError."""
    with path.open("rb") as file:
        magic = file.read(4)
    if magic[:2] == b"\x1f\x8b":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if magic == b"\x28\xb5\x2f\xfd":
        try:
            import zstandard
        except ImportError:
            raise RecordingError(f"{path} is zstd: pip install 'runwatch[zstd]'") from None
        return cast(IO[bytes], zstandard.open(path, "rb"))
    return path.open("rb")


def _answer(line: bytes) -> Answer | None:
    try:
        value: Any = json.loads(line)
        node, at = str(value["node"]), float(value["received_at"])
        part: Literal["agent", "gpus"] = "gpus" if value.get("part") == "gpus" else "agent"
        if "snapshot" in value:
            return Answer(node, at, parse_snapshot(value["snapshot"]), part=part)
        return Answer(node, at, None, str(value["error"])[:300], part)
    except (ValueError, KeyError, TypeError, SnapshotError):
        return None
