"""Lines of one log to events: takes prefixes off, asks the formats that may know the line, and finds errors."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import re2

from watcher.events import LogEvent
from watcher.formats._api import Format, FormatReader, Held, load_formats
from watcher.formats._bar_gate import BarGate
from watcher.formats._errors import ERROR_HINTS, ErrorCollector
from watcher.formats._prefix import Prefix, split_prefix, strip_control
from watcher.formats._skim import Skimmer, bytes_search
from watcher.formats._user import UserReader

MAX_LINE = 65_536  # characters of one part that errors are searched in
RECENT_LINES = 256
LAST_RESORT = -100  # formats of this priority see only lines that nobody else knows
MAX_FORMAT_LINE = 16_384  # characters that a format is given


@functools.cache
def _formats() -> tuple[Format, ...]:
    return tuple(load_formats().values())


@functools.cache
def _by_name() -> dict[str, Format]:
    return {form.name: form for form in _formats()}


@functools.cache
def _any_hint(names: tuple[str, ...]) -> Any:
    """One compiled search for every hint of these formats and of errors; None where one wants every line."""
    chosen = [f for f in _formats() if f.name in names]
    if any(not f.hints for f in chosen):
        return None
    words = sorted({hint for f in chosen for hint in f.hints} | set(ERROR_HINTS))
    return bytes_search(b"|".join(re.escape(word.encode()) for word in words), case_sensitive=False)


@functools.cache
def _hint_set(names: tuple[str, ...]) -> Any:
    """For a line in lower case: the places in `names` of the formats whose hints stand in it, in one pass.

    The place after the last is that of errors.
    """
    options = re2.Options()
    options.max_mem = 64 << 20  # far more than the hints can need: with too little it would find nothing
    found = re2.Set.SearchSet(options)
    for form in (_by_name()[name] for name in names):
        found.Add("|".join(re2.escape(hint) for hint in form.hints) if form.hints else "")
    found.Add("|".join(re2.escape(hint) for hint in ERROR_HINTS))
    found.Compile()
    return found


class LogReader:
    """State of one log. Never raises, whatever the lines hold; the cost of a line is bounded.

    Some events wait for the next lines (a bar for the record that it repeats, a traceback for its chain): call
    `flush` at the end, or when the log has been quiet for a while; reading may go on after it.

    only: name of the one format to use beside errors. user: the user's own patterns, asked first.
    """

    def __init__(self, only: str | None = None, user: UserReader | None = None) -> None:
        chosen = [f for f in _formats() if only is None or f.name == only]
        self._readers = [(f, f.build()) for f in chosen]
        self._names = tuple(f.name for f in chosen)
        self._user = user
        self._errors = ErrorCollector()
        self._gate = BarGate(frozenset(f.name for f in chosen if f.bars))
        self._found: Counter[str] = Counter()
        self._busy: set[int] = set()  # places of the formats that want every line now
        self._hints = _hint_set(self._names)
        searches = [_any_hint(self._names)] + ([user.search] if user is not None else [])
        self._searches = searches if None not in searches else []  # without: every line is read
        self._number = 0
        self._recent: dict[int, Prefix] = {}  # what stood in front of recent lines, for records of several lines

    @property
    def format(self) -> str | None:
        """The format of most records so far."""
        return self._found.most_common(1)[0][0] if self._found else None

    def feed(self, line: str, number: int) -> list[LogEvent]:
        """A line (or what is left of one whose `\\r` parts were given before) without its `\\n`."""
        if "\r" not in line:
            return self.feed_part(line, number)
        events: list[LogEvent] = []
        for part in line.split("\r"):
            if part and not part.isspace():
                events += self.feed_part(part, number)
        return events

    def feed_part(self, text: str, number: int) -> list[LogEvent]:
        """One complete part of a line that is redrawn with `\\r`."""
        self._number = number
        prefix = split_prefix(strip_control(text[:MAX_LINE]))
        lower = prefix.text.lower()
        hinted = self._hints.Match(lower) or ()
        if prefix.told:
            self._remember(number, prefix)
        events = self._records(prefix, hinted, number)
        for event in events:
            _add_prefix(event, prefix if event.line in (0, number) else self._recent.get(event.line), number)
        for event in events:
            self._tell_errors(event)
        events = _once(events)
        found = self._errors.feed(prefix, lower, number, maybe=len(self._readers) in hinted)
        if found and any(event.event == "error" for event in events):
            found = [e for e in found if e.line != number]  # the user's own word for this line stands
        if found and prefix.logged_at is not None:
            found = [replace(e, logged_at=prefix.logged_at) if e.line == number else e for e in found]
        return self._gate.pass_on(events + found)

    def feed_block(self, block: bytes, number: int) -> list[LogEvent]:
        """Whole lines at once, the first of them `number`: lines that hold nothing cost next to nothing."""
        skimmer = Skimmer(block, self._searches) if self._searches else None
        events: list[LogEvent] = []
        position, end = 0, len(block)
        while position < end:
            if skimmer is not None and not self._wants_all():
                start = skimmer.skip(position)
                number += block.count(b"\n", position, start)
                position = start
                if position == end:
                    break
            stop = block.find(b"\n", position)
            stop = end if stop < 0 else stop
            found = self.feed(block[position:stop].decode("utf-8", "replace"), number)
            if found:
                events += found
            elif skimmer is not None:
                skimmer.wasted()
            position, number = stop + 1, number + 1
        return events

    def flush(self) -> list[LogEvent]:
        """What is still being gathered, at the end of the log."""
        events: list[LogEvent] = []
        self._busy.clear()
        for form, reader in self._readers:
            events += self._named(form.name, _safely_flush(reader))
        if self._user is not None:
            events += self._named("user", _safely_flush(self._user))
        events += self._errors.flush()
        return self._gate.pass_on([e if e.line else replace(e, line=self._number) for e in events]) + self._gate.flush()

    def _remember(self, number: int, prefix: Prefix) -> None:
        self._recent[number] = prefix
        if len(self._recent) > RECENT_LINES:
            del self._recent[next(iter(self._recent))]

    def _wants_all(self) -> bool:
        return bool(self._busy) or self._errors.busy or self._gate.busy

    def _tell_errors(self, event: LogEvent) -> None:
        if event.event == "step":
            self._errors.stepped()
        elif event.event == "phase" and event.edge == "start":
            if event.phase == "startup":
                self._errors.began()
            elif event.phase == "finished":
                self._errors.finished()

    def _records(self, prefix: Prefix, hinted: Iterable[int], number: int) -> list[LogEvent]:
        text = prefix.text if len(prefix.text) <= MAX_FORMAT_LINE else prefix.text[:MAX_FORMAT_LINE]
        events: list[LogEvent] = []
        if self._user is not None:
            events = self._named("user", _safely_feed(self._user, text, number))
            if _claims(events, number):
                return events
        for place in sorted(self._busy.union(hinted)):
            if place == len(self._readers):
                break
            form, reader = self._readers[place]
            if form.priority <= LAST_RESORT and any(event.line in (0, number) for event in events):
                break
            found = _safely_feed(reader, text, number)
            if getattr(reader, "busy", False):
                self._busy.add(place)
            else:
                self._busy.discard(place)
            if found:
                events += self._named(form.name, found)
            if _claims(found, number):
                break
        return events

    def _named(self, name: str, events: Iterable[LogEvent]) -> list[LogEvent]:
        out = []
        for event in events:
            self._found[name] += event.event == "step"
            if event.format is None:
                _fill(event, "format", name)
            out.append(event)
        return out


def _once(events: list[LogEvent]) -> list[LogEvent]:
    """Without phase edges that two formats read in the same line."""
    if len(events) < 2:
        return events
    seen: set[tuple[object, ...]] = set()
    out = []
    for event in events:
        key = (event.line, event.phase, event.edge)
        if event.event == "phase" and key in seen:
            continue
        seen.add(key)
        out.append(event)
    return out


def _claims(events: list[LogEvent], number: int) -> bool:
    if isinstance(events, Held):
        return True
    return any(event.event in ("step", "progress") and event.line in (0, number) for event in events)


def _safely_feed(reader: FormatReader, text: str, number: int) -> list[LogEvent]:
    try:
        return reader.feed(text, number)
    except Exception:  # noqa: BLE001 - one format's fault on a strange line may not cost the other formats' events
        return []


def _safely_flush(reader: FormatReader) -> list[LogEvent]:
    try:
        return reader.flush()
    except Exception:  # noqa: BLE001 - as in _safely_feed
        return []


def _add_prefix(event: LogEvent, prefix: Prefix | None, number: int) -> None:
    """Gives the event the rank, host and time of its own line, where it does not say them itself."""
    if not event.line:
        _fill(event, "line", number)
    if prefix is None:
        return
    if event.rank is None and prefix.rank is not None:
        _fill(event, "rank", prefix.rank)
    if event.host is None and prefix.host is not None:
        _fill(event, "host", prefix.host)
    if event.logged_at is None and prefix.logged_at is not None:
        _fill(event, "logged_at", prefix.logged_at)


def _fill(event: LogEvent, name: str, value: object) -> None:
    """Sets a field of an event that a format has just made: nobody else holds it yet, and a copy would cost more than
    the parsing of its line."""
    object.__setattr__(event, name, value)
