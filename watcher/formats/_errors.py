"""Errors of one log: one event per rank and place, a traceback being one, each marked as cause or consequence."""

from __future__ import annotations

import re
from collections import OrderedDict

from watcher.events import LogEvent
from watcher.formats._elastic import Death, ElasticReport
from watcher.formats._error_kinds import HARMLESS, HINTS, Row, Weight, find_row
from watcher.formats._prefix import Prefix
from watcher.formats._tracebacks import HEADER, Traceback, Tracebacks

ERROR_HINTS: tuple[str, ...] = (
    *HINTS, "traceback (most", 'file "', "exception in thread", "exception ignored", "terminate called", "exitcode",
    "what():",
)  # fmt: skip
_RANK = re.compile(r"\[rank(\d{1,6})\]:|\[Rank (\d{1,6})\]|\bRank:? ?(\d{1,6})\]|\bRankID:(\d{1,6})\b")
_NCCL_HOST = re.compile(r"(?:^|\s)([A-Za-z][\w.-]{0,200}):\d+:\d+ \[\d+\] ")
_SYSLOG_HOST = re.compile(r"^[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d ([\w.-]{1,255}) kernel:")
_WHAT = re.compile(r"\s{0,8}what\(\):\s{0,4}(.*)")
# a launcher's report, read by ElasticReport; a shell's trace of its commands
_NOT_SAID = re.compile(r"\s{0,8}(?:traceback|exitcode|error_file)\s{0,4}: |\+{1,6} ")
TERMINATE = "terminate called after throwing"
WAIT_LINES = 40  # how long a traceback waits for its chain, and an abort for its reason, among other writers' lines
STEPS_THAT_CLEAR = 3  # records after which an error was survived
FORGET_LINES = 2_000  # an unfinished traceback whose writer says no more
MAX_WRITERS, MAX_KNOWN = 2_000, 2_000
MAX_MESSAGE = 500

Writer = tuple[int | None, str | None, int | None]


class ErrorCollector:
    def __init__(self) -> None:
        self._tracebacks: dict[Writer, Tracebacks] = {}
        self._aborts: dict[Writer, tuple[int, Prefix]] = {}
        self._elastic = ElasticReport()
        self._known: OrderedDict[tuple[str, int | None, str | None, str], None] = OrderedDict()
        self._first: int | None = None  # line of the first error of this attempt
        self._finished = False
        self._steps = 0

    @property
    def busy(self) -> bool:
        """True while the next lines matter although they may hold no word of the table."""
        return bool(self._tracebacks or self._aborts or self._elastic.busy)

    def stepped(self) -> None:
        """A record was read: what came before it did not end the run, if more follow."""
        self._steps += 1
        if self._steps == STEPS_THAT_CLEAR:
            self._first = None
            self._known.clear()

    def finished(self) -> None:
        """The run said that it is done: what follows is a dirty exit, no cause."""
        self._finished = True

    def began(self) -> None:
        """A new attempt begins."""
        self._first, self._finished = None, False
        self._known.clear()

    def feed(self, prefix: Prefix, lower: str, number: int, *, maybe: bool) -> list[LogEvent]:
        """`maybe`: one of ERROR_HINTS stands in the line."""
        if not maybe and not self.busy:
            return []
        out: list[LogEvent] = []
        writer = (prefix.rank, prefix.host, prefix.local_rank)
        inside = self._feed_traceback(writer, prefix, number, out)
        for death in self._elastic.feed(prefix.text, number):
            out += self._death(death, prefix)
        if not inside:
            out += self._single(writer, prefix, lower if maybe else "", number)
        if self.busy:
            self._age(number, out)
        return out

    def flush(self) -> list[LogEvent]:
        """What still waits for more lines. Reading may go on after it."""
        out: list[LogEvent] = []
        for death in self._elastic.flush():
            out += self._death(death, Prefix(""))
        for writer in list(self._tracebacks):
            out += self._traceback(self._tracebacks.pop(writer).end(), writer)
        for writer, (line, prefix) in list(self._aborts.items()):
            out += self._abort(writer, line, prefix)
        return out

    # ---- tracebacks ------------------------------------------------------------------------------------------------
    def _feed_traceback(self, writer: Writer, prefix: Prefix, number: int, out: list[LogEvent]) -> bool:
        text = prefix.text
        tracebacks = self._tracebacks.get(writer)
        if tracebacks is None:
            starts = (
                HEADER in text or 'File "' in text or "Exception in thread" in text or text.startswith("Exception ig")
            )
            if not starts or len(self._tracebacks) >= MAX_WRITERS:
                return False
            tracebacks = Tracebacks()
        done, inside = tracebacks.feed(text, number)
        out += self._traceback(done, writer)
        if tracebacks.current is None and not inside:
            self._tracebacks.pop(writer, None)
        else:
            self._tracebacks[writer] = tracebacks
        return inside

    def _traceback(self, done: Traceback | None, writer: Writer) -> list[LogEvent]:
        if done is None or done.caught:
            return []
        kind, weight, message = "python_exception", "cause", "traceback without its exception"
        for text in done.exceptions:
            message = text
            found = find_row(text, text.lower())
            if found and kind == "python_exception":
                kind, weight = found[0].kind, found[0].weight
        if message.startswith(("SystemExit: 0", "SystemExit: None")):
            return []
        if done.finaliser:
            weight = "cascade"
        if message.startswith("KeyboardInterrupt"):
            kind = "other"
        line = done.last_line or done.line
        return self._event(kind, weight, line, message, writer[0], writer[1], apart=True)  # type: ignore[arg-type]

    def _age(self, number: int, out: list[LogEvent]) -> None:
        """Closes what has waited long enough while other writers went on."""
        for writer, tracebacks in list(self._tracebacks.items()):
            current = tracebacks.current
            over = current is not None and current.said and number - current.last_line > WAIT_LINES
            if over or number - tracebacks.last_number > FORGET_LINES:
                out += self._traceback(tracebacks.end(), writer)
                del self._tracebacks[writer]
        for writer, (line, prefix) in list(self._aborts.items()):
            if number - line > WAIT_LINES:
                out += self._abort(writer, line, prefix)

    # ---- single lines ----------------------------------------------------------------------------------------------
    def _single(self, writer: Writer, prefix: Prefix, lower: str, number: int) -> list[LogEvent]:
        text = prefix.text
        if TERMINATE in text:
            out = self._abort(writer, *self._aborts[writer]) if writer in self._aborts else []
            if len(self._aborts) < MAX_WRITERS:
                self._aborts[writer] = (number, prefix)
            return out
        what = _WHAT.match(text) if "what():" in lower else None
        if what:
            line, _ = self._aborts.pop(writer, (number, prefix))
            found = find_row(what[1], what[1].lower())
            row = found[0] if found else Row("other", _WHAT, (), "weak")
            return self._event(row.kind, row.weight, line, what[1], _rank(prefix), _host(prefix, None), apart=True)
        found = find_row(text, lower) if lower else None
        if found is None or _NOT_SAID.match(text):
            return []
        row, match = found
        if prefix.level in ("DEBUG", "INFO", "WARNING", "WARN") and row.kind not in _ALWAYS:
            return []
        if HARMLESS.search(text) and row.kind not in _ALWAYS and "Watchdog caught" not in text:
            return []
        rank, host = _rank(prefix), _host(prefix, match)
        groups = match.groupdict()
        if row.kind in _SCHEDULER or groups.get("tasks"):
            rank = None  # the label in front is the launcher's, not the culprit's
        for name in ("rank", "rank2"):
            rank = int(groups[name]) if groups.get(name) else rank
        tasks = (groups.get("tasks") or "").strip()
        rank = int(tasks) if tasks.isdigit() else rank
        place = text[match.start() :]
        told = place if "%|" in text[: match.start()] else text  # glued to a bar
        return self._event(row.kind, row.weight, number, place, rank, host, told)

    def _abort(self, writer: Writer, line: int, prefix: Prefix) -> list[LogEvent]:
        self._aborts.pop(writer, None)
        return self._event("other", "weak", line, prefix.text, _rank(prefix), _host(prefix, None), apart=True)

    def _death(self, death: Death, prefix: Prefix) -> list[LogEvent]:
        weight: Weight = "cascade" if death.summary else "weak"
        return self._event(death.kind, weight, death.line, death.message, death.rank, death.host or prefix.host)

    def _event(
        self,
        kind: str,
        weight: Weight,
        line: int,
        place: str,
        rank: int | None,
        host: str | None,
        text: str = "",
        *,
        apart: bool = False,
    ) -> list[LogEvent]:
        """`apart`: a process's own death; without a rank two that read alike are two processes."""
        place = place.strip()[:160]
        if kind == "nccl_timeout" and rank is not None and weight == "cascade":
            place = "watchdog"  # repeated up to three times by each rank
        if not apart or rank is not None:
            key = (kind, rank, host, place)
            if key in self._known:
                return []
            self._known[key] = None
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        after = self._first is not None and self._first < line
        cascade = weight == "cascade" or (weight == "weak" and after) or self._finished
        self._first, self._steps = line if self._first is None else min(self._first, line), 0
        message = (text or place).strip()[:MAX_MESSAGE]
        return [
            LogEvent(event="error", line=line, kind=kind, message=message, rank=rank, host=host, cascade=cascade)  # type: ignore[arg-type]
        ]


_SCHEDULER = ("slurm_cancelled", "slurm_time_limit", "node_fail")
_ALWAYS = (*_SCHEDULER, "xid", "gpu_lost", "oom_host", "ecc", "nccl_timeout", "other")


def _rank(prefix: Prefix) -> int | None:
    if prefix.says_rank:
        return prefix.rank
    found = _RANK.search(prefix.text)
    if found:
        return int(next(group for group in found.groups() if group))
    return prefix.rank


def _host(prefix: Prefix, match: re.Match[str] | None) -> str | None:
    named = [value for key, value in (match.groupdict() if match else {}).items() if key.startswith("host") and value]
    if named:
        return named[0]
    found = _NCCL_HOST.search(prefix.text) or _SYSLOG_HOST.match(prefix.text)
    return found[1] if found else prefix.host
