"""Any loop that prints a step and a loss in one line, where no other format knows the line."""

from __future__ import annotations

import re
from typing import Any

from watcher.events import LogEvent
from watcher.formats._api import Format
from watcher.formats._numbers import NUMBER, number, seconds
from watcher.formats._phases import phase_table

# from the most to the least certain to count over the whole run
_STEPS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\bglobal[_ -]?step\w{0,4}[\"']?\s{0,3}[:=#]?\s{0,3}\[?(\d{1,12})(?:\s?/\s?(\d{1,12}))?",
        r"\bGS(\d{4,12})()\b",
        r"\b(?:train[_ ]?)?(?:steps?|iter(?:ation)?s?|update|num_updates|itr)[\"']?\]?\s{0,3}[:=#]?\s{0,4}"
        r"[\[(]?\s{0,9}(\d{1,12})(?:\s{0,3}(?:/|of)\s{0,3}(\d{1,12}))?",
        r"\b(?:batch|mini-?batch)(?: idx| id)?[\"']?\]?\s{0,3}[:=#]?\s{0,3}[\[(]?\s{0,6}(\d{1,12})"
        r"(?:\s{0,3}(?:/|of)\s{0,3}(\d{1,12}))?",
        r"^\W{0,3}\[\s{0,6}(\d{1,12})\s{0,3}/\s{0,3}(\d{1,12})\s?(?:\(\s?[\d.]{1,6}%\))?\]",
        r"Epoch:? \[?\d{1,7}\]? \[(\d{1,12})/(\d{1,12})\s?(?:\(\s?[\d.]{1,6}%\))?\]",
    )
)
_OF_EPOCH = 3  # from here on the counter restarts every epoch
_EPOCH = re.compile(
    r"\bepochs?\b[\"']?\]?\s{0,3}[:=#]?\s{0,3}[\[(]?\s{0,4}(\d{1,7})(?:\.\d+)?(?!\d)|\bE(\d{3,5})\b", re.IGNORECASE
)
_LOSS = re.compile(
    rf"\b(?:(?:train(?:ing)?|lm|total|avg|average|mean|batch|step|ce|running)[_ /.-]?)?loss(?:es)?(?:_\w{{1,20}})?"
    rf"(?: [A-Za-z]{{1,12}})?[\"']?\s{{0,3}}[:=]?\s{{0,4}}(?:[A-Za-z]\w{{0,15}}\s?[=:]\s?)?\(?({NUMBER})",
    re.IGNORECASE,
)
_VALIDATION = re.compile(r"\b(?:val(?:id(?:ation)?)?|eval(?:uation)?|test(?:ing)?)\b[^|]{0,40}", re.IGNORECASE)
_TRAINING = re.compile(r"\btrain", re.IGNORECASE)
_PER_SECOND = r"(?:/|per[_ ])s(?:ec(?:ond)?)?"
_SAMPLES = "samples|images|imgs|seqs|sequences|examples"
_RATES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("learning_rate", re.compile(rf"\b(?:lr|learning[_ ]rate)[\"']?\s{{0,3}}[:=]?\s{{0,3}}\[?({NUMBER})", re.I)),
    ("grad_norm", re.compile(rf"\b(?:grad(?:ient)?[_ ]?norm|gnorm)[\"']?\s{{0,3}}[:=]?\s{{0,3}}({NUMBER})", re.I)),
    ("tokens_per_second", re.compile(
        rf"\b(?:tok(?:en)?s?[_ ]?{_PER_SECOND})[\"']?\s{{0,3}}[:=]\s{{0,3}}({NUMBER})|"
        rf"({NUMBER})\s?tok(?:en)?s?/s", re.I)),
    ("samples_per_second", re.compile(
        rf"\b(?:{_SAMPLES})[_ ]?{_PER_SECOND}[\"']?\s{{0,3}}[:=]\s{{0,3}}({NUMBER})|"
        rf"({NUMBER})\s?(?:{_SAMPLES}|img)/s", re.I)),
    ("iterations_per_second", re.compile(
        rf"\b(?:ips|(?:it|iter|step)s?[_ ]?{_PER_SECOND})[\"']?\s{{0,3}}[:=]\s{{0,3}}({NUMBER})|"
        rf"({NUMBER})\s?(?:it|iter|step)s?/s", re.I)),
    ("tflops_per_gpu", re.compile(rf"\btflops?\b[^\d\n]{{0,20}}({NUMBER})|({NUMBER})\s?tflops?\b", re.I)),
)  # fmt: skip
_TIME = re.compile(
    rf"(?<![\w-])(?:(?:step|iter(?:ation)?|batch|train)?[_ ]?(?:time|dt)|elapsed|took)"
    rf"(?:\([\w/]{{1,12}}\))?(?:[_ /]per[_ ](?:step|iter\w{{0,6}}))?[\"']?\s{{0,3}}[:=]?\s{{0,3}}"
    rf"({NUMBER})(?:/[\d.]{{1,12}})?\s?(ms|s|sec|secs|seconds)\b",
    re.IGNORECASE,
)
_MODEL = r"(?:the )?(?:model |training )?(?:checkpoint|content|weights|state|model)\b"
_phases = phase_table(
    ("checkpoint", "start", rf"(?i:^\W{{0,4}}saving {_MODEL})"),
    ("checkpoint", "end", rf"(?i:^\W{{0,4}}(?:saved {_MODEL}|checkpoint saved\b))"),
    ("evaluation", "start", r"(?i:^\W{0,4}(?:running|starting|start) (?:evaluation|validation|eval)\b)"),
    ("evaluation", "start", r"(?i:^Computing validation loss)"),
    ("evaluation", "end", r"(?i:^Epoch \d+, validation loss=|^\W{0,4}(?:validation|eval(?:uation)?|val|test)(?: set)?\b"
                          r"[^|\d]{0,40}\b(?:loss|accuracy|acc)\b\s?[:=]?\s?\d)"),
    ("finished", "start", r"(?i:^\W{0,4}training (?:is )?(?:complete[d]?|finished|done)\b[.! ]{0,3}$)|^Done!$"),
)  # fmt: skip


class GenericReader:
    """A counter that restarts every epoch is continued over epochs where their length is printed."""

    def __init__(self) -> None:
        self._first_epoch: int | None = None
        self._epoch: int | None = None
        self._seen = False  # a record: only then can the words of an end be the run's
        self._before = self._last = 0  # steps of the epochs before where their length is not printed

    def feed(self, line: str, at: int) -> list[LogEvent]:
        text = line[:2000]
        loss = _LOSS.search(text)
        marks = _phases(line[:300], at)
        if loss is None or marks:
            return [mark for mark in marks if self._seen or mark.phase != "finished"]
        found = _step_of(text)
        if found is None:
            return self._epoch_only(text, at)
        match, of_epoch = found
        validation = _VALIDATION.search(text)
        if validation and validation.start() <= min(match.start(), loss.start()) and not _TRAINING.search(text):
            return [LogEvent(event="progress", line=at, counter=float(match[1]))]
        epoch = _epoch(text)
        step, total = int(match[1]), int(match[2]) if match[2] else None
        if of_epoch and epoch is not None:
            step, total = self._over_epochs(step, total, epoch), None
        self._seen = True
        taken = _TIME.search(text)
        return [
            LogEvent(
                event="step", line=at, step=step, total_steps=total, epoch=None if epoch is None else float(epoch),
                loss=number(loss[1]), step_seconds=seconds(taken[1], taken[2].lower()) if taken else None,
                **_rates(text),
            )
        ]  # fmt: skip

    def flush(self) -> list[LogEvent]:
        return []

    def _over_epochs(self, step: int, length: int | None, epoch: int) -> int:
        first = self._first_epoch = epoch if self._first_epoch is None else self._first_epoch
        if length is not None:
            return step + max(0, epoch - min(first, 1)) * length
        if self._epoch is not None and epoch != self._epoch:
            self._before = self._before + self._last if epoch > self._epoch else 0
        self._epoch, self._last = epoch, step
        return self._before + step

    def _epoch_only(self, text: str, at: int) -> list[LogEvent]:
        epoch = _epoch(text)
        return [] if epoch is None else [LogEvent(event="progress", line=at, counter=float(epoch))]


def _step_of(text: str) -> tuple[re.Match[str], bool] | None:
    for index, pattern in enumerate(_STEPS):
        match = pattern.search(text)
        if match:
            return match, index >= _OF_EPOCH
    return None


def _epoch(text: str) -> int | None:
    found = _EPOCH.search(text)
    return int(found[1] or found[2]) if found else None


def _rates(text: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, pattern in _RATES:
        match = pattern.search(text)
        value = number(match[match.lastindex or 1]) if match else None
        if value is not None:
            out[name] = value
    return out


FORMAT = Format(
    "generic",
    GenericReader,
    hints=("loss", "saving", "saved", "training", "running", "starting", "done!", "accuracy"),
    priority=-100,
)
