"""nanoGPT and its descendants: build-nanogpt, nanochat, modded-nanogpt, llm.c (standard output and main.log)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Held
from watcher.formats._numbers import NUMBER, number, seconds
from watcher.formats._phases import phase_table

_N = NUMBER
_NANO = re.compile(rf"^iter (\d{{1,12}}): loss ({_N}), time ({_N})(ms|s)\b")
_MODDED = re.compile(
    rf"^step:(\d{{1,12}})/(\d{{1,12}}) (?:train_loss:({_N}) )?(val_loss:{_N} )?.{{0,80}}?train_time:[\d.]{{1,20}}m?s"
    rf"(?: step_avg:({_N})ms)?"
)
_MAIN_LOG = re.compile(rf"^s:(\d{{1,12}}) (?:trl:({_N})(?: lr:({_N}))?(?: norm:({_N}))?|(tel|eval):)")
_BARS = re.compile(r"^step\s{1,9}(\d{1,12})(?:/(\d{1,12}))?(?: \([\d.]{1,9}%\))?\s?\|")
_LOSS = re.compile(rf"\|\s(?:train )?loss:? ({_N})")
_FIELDS = {
    "learning_rate": re.compile(rf"\|\slr:? ({_N})"),
    "grad_norm": re.compile(rf"\|\s(?:grad )?norm:? ({_N})"),
    "tokens_per_second": re.compile(rf"tok/sec: ({_N})|({_N}) tok/s"),
}
_TIME = re.compile(rf"\|\s(?:dt: )?({_N}) ?(ms|s)\b")
_WHOLE = "total time:"  # the last field but one of a nanochat record
_phases = phase_table(
    ("evaluation", "end", rf"^step \d+: train loss {_N}, val loss|^(?:validation|val) loss:? {_N}|"
                          r"^Step \d+ \| Validation|^HellaSwag "),
    ("checkpoint", "start", r"^saving checkpoint to|^Writing (?:model|state) to"),
)  # fmt: skip


class NanoGptReader:
    """Joins nanochat's records where a terminal has wrapped them."""

    def __init__(self) -> None:
        self._cut: tuple[int, str, int] | None = None  # line, text so far, lines since

    @property
    def busy(self) -> bool:
        return self._cut is not None

    def feed(self, line: str, at: int) -> list[LogEvent]:
        begins = line.startswith(("step", "Step"))
        out = self.flush() if begins else []
        if self._cut is not None:
            first, text, lines = self._cut
            text += line.strip("\n")
            whole = _WHOLE in text
            if whole or lines >= 2:
                self._cut = None
                return [*_parse(text, first)] if whole else [*_parse(self._text(text), first), *_parse(line, at)]
            self._cut = (first, text, lines + 1)
            return Held()
        if begins and "| lrm: " in line and _WHOLE not in line:
            self._cut = (at, line, 1)
            return Held(out)
        return [*out, *_parse(line, at)]

    def flush(self) -> list[LogEvent]:
        cut, self._cut = self._cut, None
        return [] if cut is None else list(_parse(self._text(cut[1]), cut[0]))

    @staticmethod
    def _text(text: str) -> str:
        """Without the last field, which may be half."""
        return text.rpartition(" | ")[0] + " |"


def _parse(line: str, at: int) -> Iterable[LogEvent]:
    if found := _NANO.match(line):
        yield LogEvent(
            event="step", line=at, step=int(found[1]), loss=number(found[2]), step_seconds=seconds(found[3], found[4])
        )
    elif found := _MODDED.match(line):
        yield from _modded(found, at)
    elif found := _MAIN_LOG.match(line):
        if found[5]:
            yield LogEvent(event="phase", line=at, phase="evaluation", edge="end")
            return
        yield LogEvent(
            event="step", line=at, step=int(found[1]), loss=number(found[2]), learning_rate=number(found[3]),
            grad_norm=number(found[4]),
        )  # fmt: skip
    elif (found := _BARS.match(line)) and (loss := _LOSS.search(line)):
        yield _barred(line, at, found, number(loss[1]))
    else:
        yield from _phases(line, at)


def _modded(found: re.Match[str], at: int) -> Iterable[LogEvent]:
    if found[4]:
        yield LogEvent(event="phase", line=at, phase="evaluation", edge="end")
        yield LogEvent(event="progress", line=at, counter=float(found[1]), counter_total=float(found[2]))
        return
    taken = seconds(found[5], "ms")
    yield LogEvent(
        event="step", line=at, step=int(found[1]), total_steps=int(found[2]), loss=number(found[3]),
        step_seconds=None if taken is None or taken != taken else taken,
    )  # fmt: skip


def _barred(line: str, at: int, found: re.Match[str], loss: float | None) -> LogEvent:
    known: dict[str, float | None] = {}
    for name, pattern in _FIELDS.items():
        match = pattern.search(line)
        known[name] = number(match[1] or match[match.lastindex or 1]) if match else None
    taken = _TIME.search(line)
    return LogEvent(
        event="step", line=at, step=int(found[1]), total_steps=int(found[2]) if found[2] else None, loss=loss,
        step_seconds=seconds(taken[1], taken[2]) if taken else None, learning_rate=known["learning_rate"],
        grad_norm=known["grad_norm"], tokens_per_second=known["tokens_per_second"],
        throughput_scope="global" if known["tokens_per_second"] is not None else None,
    )  # fmt: skip


FORMAT = Format(
    "nanogpt",
    NanoGptReader,
    hints=("iter ", "step", "trl:", "tel:", " eval:", "val loss", "validation loss", "saving checkpoint", "writing ",
           "hellaswag"),
    priority=20,
)  # fmt: skip
