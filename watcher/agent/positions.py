"""How far each log was read, kept on disk so that a restart neither loses nor doubles a line."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_FILES = 2_000
MAX_STATE_BYTES = 4 << 20
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Position:
    """`offset`: the first byte that was not understood yet. `before`: the bytes in front of it, to know them again.

    `generation` counts the times the same file began anew with the same first line. `settled`: what was still being
    gathered there was given out, for nothing came for a while.
    """

    path: str
    offset: int
    lines: int
    before: bytes
    generation: int = 0
    settled: bool = False


class Positions:
    """By file identity. The oldest go first when there are more than MAX_FILES. `error` says why saving failed."""

    def __init__(self, state_path: Path | None) -> None:
        self._state_path = state_path
        self._known: dict[str, Position] = {}
        self._patterns: set[str] = set()
        self._dirty = False
        self.error: str | None = None
        if state_path is not None:
            self._known, self._patterns = _load(state_path)
        self._of_before = set(self._known)

    def was_followed(self, pattern: str) -> bool:
        """Whether a configured path was followed before this start: then a file we do not know is a new one."""
        return pattern in self._patterns

    def follow(self, patterns: set[str]) -> None:
        """The configured paths that are followed from now on."""
        self._dirty |= self._patterns != patterns
        self._patterns = patterns

    def get(self, identity: str) -> Position | None:
        return self._known.get(identity)

    def take_up(self, identity: str) -> bool:
        """Whether this file was read before this start, and is taken up for the first time since."""
        known = identity in self._of_before
        self._of_before.discard(identity)
        return known

    def put(self, identity: str, position: Position) -> None:
        if self._known.get(identity) == position or position.offset == 0:
            return
        self._known.pop(identity, None)
        self._known[identity] = position
        while len(self._known) > MAX_FILES:
            del self._known[next(iter(self._known))]
        self._dirty = True

    def under(self, path: str) -> list[str]:
        """The files that were read under this path."""
        return [identity for identity, position in self._known.items() if position.path == path]

    def of_original(self, path: str, identity: str) -> list[Position]:
        """Of files that `path` may be a copy of, the furthest first: `train.log.1` after a copytruncate."""
        head = identity.rpartition(":")[2]
        found = [p for known, p in self._known.items() if known.endswith(head) and _is_rotated(path, p.path)]
        return sorted((p for p in found if p.before), key=lambda p: -p.offset)

    def save(self) -> None:
        """Writes atomically, when something changed. A full disk costs the positions, never the reading."""
        if self._state_path is None or not self._dirty:
            return
        files = {
            identity: {
                "path": p.path, "offset": p.offset, "lines": p.lines,
                "before": p.before.hex(), "generation": p.generation, "settled": p.settled,
            }
            for identity, p in self._known.items()
        }  # fmt: skip
        temporary = self._state_path.with_name(self._state_path.name + ".new")
        try:
            self._state_path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps({"version": 1, "paths": sorted(self._patterns), "files": files}), "utf-8")
            os.replace(temporary, self._state_path)
        except OSError as error:
            if self.error is None:
                log.warning("log positions cannot be saved in %s: %s", self._state_path, error.strerror)
            self.error = f"log positions cannot be saved in {self._state_path}: {error.strerror}"
            return
        self._dirty, self.error = False, None


def _is_rotated(path: str, original: str) -> bool:
    name, base = os.path.basename(path), os.path.basename(original)
    return name != base and name.startswith(base)


def _load(path: Path) -> tuple[dict[str, Position], set[str]]:
    try:
        with path.open("rb") as file:
            data = json.loads(file.read(MAX_STATE_BYTES))
        known = {str(identity): _position(raw) for identity, raw in data["files"].items()}
        return known, {str(path) for path in data["paths"]}
    except FileNotFoundError:
        return {}, set()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("log positions in %s cannot be read (%s): logs are read from near their ends", path, error)
        return {}, set()


def _position(raw: dict[str, Any]) -> Position:
    return Position(
        str(raw["path"]), max(0, int(raw["offset"])), max(0, int(raw["lines"])),
        bytes.fromhex(raw["before"]), int(raw["generation"]), bool(raw["settled"]),
    )  # fmt: skip
