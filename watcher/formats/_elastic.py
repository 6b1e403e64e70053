"""What torchrun (and launchers made of it) say of dead workers: `failed (exitcode: -11) local_rank: 0 (pid: 222)`,
then a report that knows rank and host of each pid. The two are one story, so the first waits for the second."""

from __future__ import annotations

import re
from dataclasses import dataclass

from watcher.events import ErrorKind

_FAILED = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: (\d+) \(pid: (\d+)\)")
_FIELD = re.compile(
    r"\s{0,20}(time|host|rank|exitcode)\s{1,10}:\s{1,4}(\S{1,255})(?:\s+\((?:pid|local_rank): (\d+)\))?"
)
_RANKS = re.compile(r"(local|global)_ranks=\[([\d, ]{1,20000})\]")
WAIT_LINES = 120


@dataclass(slots=True)
class Death:
    """A worker that ended. `summary`: from the report, which repeats what was known before."""

    line: int
    exit_code: int
    pid: str
    message: str
    local_rank: int | None = None
    rank: int | None = None
    host: str | None = None
    summary: bool = False

    @property
    def kind(self) -> ErrorKind:
        return {-11: "segfault", -7: "bus_error"}.get(self.exit_code, "other")  # type: ignore[return-value]


class ElasticReport:
    def __init__(self) -> None:
        self._waiting: list[Death] = []
        self._entry: dict[str, tuple[str, str | None, int]] = {}
        self._local: list[int] = []
        self.hints = ("exitcode", "rank", "host ", "time ")

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._entry)

    def feed(self, text: str, number: int) -> list[Death]:
        """Deaths of which all is known that ever will be."""
        failed = _FAILED.search(text) if "exitcode:" in text else None
        if failed:
            self._waiting.append(Death(number, int(failed[1]), failed[3], text.strip(), local_rank=int(failed[2])))
            return []
        if not self.busy and "time " not in text and "_ranks=" not in text:
            return []
        out: list[Death] = []
        found = _FIELD.match(text)
        if found:
            self._entry[found[1]] = (found[2], found[3], number)
            if found[1] == "exitcode":
                out += self._close(text)
        else:
            self._map_ranks(text)
        old = [death for death in self._waiting if number - death.line > WAIT_LINES]
        self._waiting = [death for death in self._waiting if number - death.line <= WAIT_LINES]
        return out + old

    def flush(self) -> list[Death]:
        out, self._waiting, self._entry = self._waiting, [], {}
        return out

    def _close(self, text: str) -> list[Death]:
        entry, self._entry = self._entry, {}
        code, pid, _ = entry["exitcode"]
        if "rank" not in entry or not code.lstrip("-").isdigit() or not entry["rank"][0].isdigit():
            return []
        rank, host = int(entry["rank"][0]), entry.get("host", (None,))[0]
        death = Death(entry["rank"][2], int(code), pid or "", f"rank {rank} {text.strip()}", None, rank, host, True)
        known = [d for d in self._waiting if d.pid == death.pid]
        self._waiting = [d for d in self._waiting if d.pid != death.pid]
        for first in known:
            first.rank, first.host = rank, host
        return [*known, death]

    def _map_ranks(self, text: str) -> None:
        found = _RANKS.search(text) if "_ranks=[" in text else None
        if found is None:
            return
        numbers = [int(part) for part in found[2].split(",") if part.strip()]
        if found[1] == "local":
            self._local = numbers
        elif len(self._local) == len(numbers):
            ranks = dict(zip(self._local, numbers, strict=True))
            for death in self._waiting:
                death.rank = ranks.get(death.local_rank) if death.local_rank is not None else None
