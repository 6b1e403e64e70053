"""Progress bars of any loop (tqdm), where no other format knows the line."""

from __future__ import annotations

import re
from dataclasses import replace

from watcher.events import LogEvent
from watcher.formats._api import Format
from watcher.formats._bars import Bar, find_bar
from watcher.formats._numbers import NUMBER, number

# what loops around training are called: their bars are progress, no training record
_OTHER_WORK = re.compile(
    r"\b(?:eval\w*|valid\w*|val|test\w*|predict\w*|inference|sanity|map|tokeniz\w*|download\w*|load\w*|fetch\w*|"
    r"filter\w*|generating|cach\w*|scan\w*|sav\w*|extract\w*|preprocess\w*|process\w*|upload\w*|convert\w*|pack\w*|"
    r"captur\w*|compil\w*|shard\w*|calibrat\w*|rollout|index\w*|decod\w*|encod\w*|read\w*|writ\w*|merg\w*|quantiz\w*|"
    r"running|generat\w*|make_experience|episode|reset\w*|adding|creating|building|prefetch\w*)\b",
    re.IGNORECASE,
)
_STEP_UNITS = {"it", "step", "steps", "batch", "iter", "batches", "iters"}
_EPOCH = re.compile(r"epoch\s{0,2}[:=#]?\s{0,2}[\[(]?(\d{1,7})(?:\s?/\s?(\d{1,7}))?", re.IGNORECASE)
_LOSS = re.compile(rf"\bloss\s?[:=]?\s{{0,2}}({NUMBER})", re.IGNORECASE)
_LOSSES = ("loss", "gpt_loss", "train_loss", "step_loss", "train/loss", "loss_mean")


def is_training(bar: Bar) -> bool:
    """Whether the bar counts training steps, as far as its own words tell."""
    return bar.unit in _STEP_UNITS and not _OTHER_WORK.search(bar.description[-80:])


def bar_event(bar: Bar, line: int) -> LogEvent:
    """The step that a bar tells, counted as the bar counts."""
    epoch = _EPOCH.search(bar.description)
    values = {key.lower(): value for key, value in bar.postfix.items()}
    loss = next((values[key] for key in _LOSSES if key in values), None)
    if loss is None and (named := _LOSS.search(bar.description)):
        loss = named[1]
    return LogEvent(
        event="step", line=line, step=bar.done, total_steps=bar.total, epoch=float(epoch[1]) if epoch else None,
        step_seconds=bar.seconds_per, iterations_per_second=bar.per_second, loss=number(loss),
        learning_rate=number(values.get("lr")), grad_norm=number(values.get("grad_norm")),
    )  # fmt: skip


class TqdmReader:
    """Continues the step over the bars of several epochs: `Epoch 3/10: 50%|` is step 2 * length + half of it."""

    def __init__(self) -> None:
        self._from_zero = False  # an epoch 0 was seen
        self._epoch: int | None = None
        self._before = self._last = 0  # steps of the epochs before, where their length is not printed

    def feed(self, line: str, at: int) -> list[LogEvent]:
        bar = find_bar(line)
        if bar is None:
            return []
        if not is_training(bar):
            return [LogEvent(event="progress", line=at, counter=bar.done, counter_total=bar.total)]
        event = bar_event(bar, at)
        epoch = _EPOCH.search(bar.description)
        return [event if epoch is None else self._over_epochs(event, bar, int(epoch[1]), epoch[2])]

    def flush(self) -> list[LogEvent]:
        return []

    def _over_epochs(self, event: LogEvent, bar: Bar, epoch: int, epochs: str | None) -> LogEvent:
        self._from_zero = self._from_zero or epoch == 0
        if bar.total is not None:
            done = (epoch if self._from_zero else epoch - 1) * bar.total + bar.done
            return replace(event, step=done, total_steps=int(epochs) * bar.total if epochs else None)
        if self._epoch is not None and epoch != self._epoch:
            self._before = self._before + self._last if epoch > self._epoch else 0
        self._epoch, self._last = epoch, bar.done
        return replace(event, step=self._before + bar.done)


FORMAT = Format("tqdm", TqdmReader, hints=("%|", "it/s", "s/it", "step/s", "batch/s"), priority=-50, bars=True)
