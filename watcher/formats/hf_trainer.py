"""Hugging Face Trainer (and TRL, accelerate): dict lines without a step beside a bar that has one.

`{'loss': 2.98, 'grad_norm': 0.97, 'learning_rate': 4e-05, 'epoch': 0.16}` or ` 19%|#9 | 18/97 [01:50<08:31, 6.3s/it]`.
A dict takes the step of the bar before or after it where its epoch agrees; where bars run apart from the dicts (an
other rank's, a throttled one) both stand alone.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any

from watcher.events import LogEvent
from watcher.formats._api import Format, Held
from watcher.formats._bars import Bar, find_bar
from watcher.formats._numbers import number, whole
from watcher.formats._phases import phase_table
from watcher.formats.tqdm import bar_event, is_training

_DICT = re.compile(r"\{['\"][\w/ ().-]{1,80}['\"]: [^{}\n]{0,12000}\}")
_PAIR = re.compile(r"['\"]([\w/ ().-]{1,80})['\"]: (?:np\.float\d\d\()?['\"]?([-+\w.]{1,40})")
_HEADER = re.compile(r"(Num Epochs|Total optimization steps|Num examples) = ([\d,]{1,30})")
WAIT_PARTS = 6

_phases = phase_table(
    ("training", "start", r"\*{5} Running training \*{5}"),
    ("evaluation", "start", r"\*{5} Running (?:Evaluation|Prediction)"),
    ("checkpoint", "start", r"Saving model checkpoint to|Saving (?:current state|FSDP model|Optimizer state) to|"
                            r"\[save_checkpoint\]|Saving FSDP model to "),
    ("checkpoint", "end", r"Optimizer state saved in|Special tokens file saved in|tokenizer config file saved in|"
                          r"Random states saved in"),
    ("training", "end", r"^Training completed\. Do not forget"),
)  # fmt: skip
_RECORD_KEYS = ("loss", "learning_rate", "reward", "lr")


@dataclass(slots=True)
class _Span:
    """Steps of an epoch, as far as pairs of (step, epoch) have told."""

    low: float = 0.0
    high: float = float("inf")

    def accepts(self, step: int, epoch: float, half: float) -> bool:
        """Whether the pair agrees with those before; learns from it if so. `half`: how far the epoch was rounded."""
        if epoch <= half:
            return step <= max(1.0, self.high * 2 * half)
        low, high = step / (epoch + half), step / max(epoch - half, 1e-9)
        if max(low, self.low) > min(high, self.high) * 1.001:
            return False
        self.low, self.high = max(low, self.low), min(high, self.high)
        return True


class HfReader:
    def __init__(self) -> None:
        self._total: int | None = None
        self._epochs: int | None = None
        self._active = False  # a header or a dict was seen: bars here are the Trainer's
        self._waiting: tuple[LogEvent, float] | None = None  # a dict's event, its epoch's rounding
        self._age = 0
        self._bar: Bar | None = None  # the last one whose step no dict has
        self._told: int | None = None  # the step of the last dict that has one
        self._span = _Span()
        self._misses = 0

    @property
    def busy(self) -> bool:
        return self._waiting is not None

    def feed(self, line: str, at: int) -> list[LogEvent]:
        found = _DICT.search(line) if "{" in line else None
        if found:
            return self._dict(found[0], at, _bar_before(line, found.start()))
        bar = find_bar(line) if "/" in line and "[" in line else None
        if bar is not None and self._active:
            return self._on_bar(bar, at) + self._marks(line, at)
        if bar is not None and is_training(bar):
            self._bar = bar  # perhaps the Trainer's: the first dict will tell
        out = self._marks(line, at)
        if self._waiting is not None and line.strip():
            self._age += 1
            if self._age > WAIT_PARTS:
                out += self.flush()
        return out

    def flush(self) -> list[LogEvent]:
        waiting, self._waiting = self._waiting, None
        return [] if waiting is None else [waiting[0]]

    def _marks(self, line: str, at: int) -> list[LogEvent]:
        header = _HEADER.search(line)
        if header:
            count = whole(header[2])
            self._active = True
            if header[1] == "Total optimization steps":
                self._total = count
            elif header[1] == "Num Epochs" and count is not None and count < 1_000_000:
                self._epochs = count
        out = _phases(line, at)
        if any(event.phase == "training" and event.edge == "start" for event in out):
            self.__dict__.update(HfReader().__dict__)
            self._active = True
        return out

    # ---- dicts -----------------------------------------------------------------------------------------------------
    def _dict(self, text: str, at: int, bar: Bar | None) -> list[LogEvent]:
        pairs = dict_pairs(text)
        if "train_runtime" in pairs and ("train_loss" in pairs or "train_samples_per_second" in pairs):
            self._active = True
            return [*self.flush(), LogEvent(event="phase", line=at, phase="finished", edge="start")]
        if "eval_runtime" in pairs or "eval_loss" in pairs or any(k.startswith("eval_") for k in pairs):
            self._active = True
            return [*self.flush(), LogEvent(event="phase", line=at, phase="evaluation", edge="end")]
        if not any(key in pairs for key in _RECORD_KEYS) or not ("epoch" in pairs or "step" in pairs):
            return []
        self._active = True
        out = self.flush()
        event = record(pairs, at)
        if event.step is not None:
            return [*out, event]
        half = _rounding(event.epoch or 0.0, quoted="'epoch': '" in text)
        if bar is not None:
            self._bar = bar
        if self._bar is not None and self._agrees(self._bar, event, half):
            merged = self._merge(event, self._bar)
            self._told, self._bar = self._bar.done, None
            return [*out, merged]
        self._waiting, self._age = (event, half), 0
        return Held(out)

    def _agrees(self, bar: Bar, event: LogEvent, half: float) -> bool:
        if event.epoch is None or self._misses >= 2:
            return False
        if self._span.low == 0.0 and self._total and self._epochs:
            per_epoch = self._total / self._epochs
            self._span = _Span(per_epoch * 0.985 - 0.5, per_epoch * 1.015 + 0.5)
        return self._span.accepts(bar.done, event.epoch, half)

    def _merge(self, event: LogEvent, bar: Bar) -> LogEvent:
        self._misses = 0
        return replace(
            event, step=bar.done, total_steps=bar.total, iterations_per_second=bar.per_second,
            step_seconds=event.step_seconds if event.step_seconds is not None else bar.seconds_per,
        )  # fmt: skip

    # ---- bars ------------------------------------------------------------------------------------------------------
    def _on_bar(self, bar: Bar, at: int) -> list[LogEvent]:
        if self._total is None and is_training(bar):
            self._total = bar.total
        if not is_training(bar) or (bar.total is not None and bar.total != self._total):
            return [LogEvent(event="progress", line=at, counter=bar.done, counter_total=bar.total)]
        out: list[LogEvent] = []
        if self._waiting is not None:
            event, half = self._waiting
            self._waiting = None
            if self._agrees(bar, event, half):
                self._told, self._bar = bar.done, None
                return [self._merge(event, bar)]
            self._misses += 1
            out.append(event)
        self._bar = bar if bar.done != self._told else None  # drawn again after its dict
        return [*out, replace(bar_event(bar, at), format="tqdm")]


def _rounding(epoch: float, quoted: bool) -> float:
    """Half a unit of the last place: two decimals, or four significant digits where the value is a string."""
    return 0.5 * 10.0 ** (math.floor(math.log10(epoch)) - 3) if quoted and epoch > 0 else 0.005


def _bar_before(line: str, end: int) -> Bar | None:
    """A bar in the same line, in front of the dict (a terminal's copy)."""
    return find_bar(line[:end]) if "|" in line[:end] else None


def dict_pairs(text: str) -> dict[str, str]:
    """The flat pairs of a printed dict, values as text without quotes."""
    return {match[1]: match[2] for match in _PAIR.finditer(text)}


def record(pairs: dict[str, str], at: int) -> LogEvent:
    """The step event that a dict of the Trainer tells."""
    known: dict[str, Any] = {}
    for name, keys in (
        ("loss", ("loss",)), ("grad_norm", ("grad_norm",)), ("learning_rate", ("learning_rate", "lr")),
        ("epoch", ("epoch",)), ("step_seconds", ("step_time", "train_speed(s/it)")),
        ("iterations_per_second", ("train_speed(iter/s)",)),
        ("tokens_per_second", ("train_tokens_per_second", "tokens_per_second", "train/tokens_per_second")),
        ("samples_per_second", ("samples_per_second",)),
    ):  # fmt: skip
        value = next((number(pairs[key]) for key in keys if key in pairs), None)
        if value is not None:
            known[name] = value
    if "tokens_per_second_per_gpu" in pairs and "tokens_per_second" not in known:
        known |= {"tokens_per_second": number(pairs["tokens_per_second_per_gpu"]), "throughput_scope": "per_device"}
    step = whole(pairs.get("step") or pairs.get("global_step"))
    return LogEvent(event="step", line=at, step=step, **known)


FORMAT = Format(
    "hf_trainer",
    HfReader,
    hints=(
        "{'", '{"', "%|", "it/s", "s/it", "*****", "num epochs", "total optimization", "saving model", "saved in",
        "training completed", "saving current state", "saving optimizer", "saving fsdp",
    ),
    priority=-10,
)  # fmt: skip
