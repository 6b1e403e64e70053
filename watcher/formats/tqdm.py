"""Progress bars of any loop (tqdm), where no other format knows the line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watcher.events import LogEvent
from watcher.formats._api import Format, Stateless
from watcher.formats._bars import Bar, find_bar
from watcher.formats._numbers import number

# what loops around training are called: their bars are progress, no training record
_OTHER_WORK = re.compile(
    r"\b(?:eval\w*|valid\w*|val|test\w*|predict\w*|inference|sanity|map|tokeniz\w*|download\w*|load\w*|fetch\w*|"
    r"filter\w*|generating|cach\w*|scan\w*|sav\w*|extract\w*|preprocess\w*|process\w*|upload\w*|convert\w*|pack\w*|"
    r"captur\w*|compil\w*|shard\w*|calibrat\w*|rollout|index\w*|decod\w*|encod\w*|read\w*|writ\w*|merg\w*|quantiz\w*|"
    r"running|generat\w*|make_experience|episode|reset\w*|adding|creating|building|prefetch\w*)\b",
    re.IGNORECASE,
)
_STEP_UNITS = {"it", "step", "steps", "batch", "iter", "batches", "iters"}
_EPOCH = re.compile(r"epoch\s{0,2}[:=#]?\s{0,2}\[?(\d{1,7})", re.IGNORECASE)


def is_training(bar: Bar) -> bool:
    """Whether the bar counts training steps, as far as its own words tell."""
    return bar.unit in _STEP_UNITS and not _OTHER_WORK.search(bar.description)


def bar_event(bar: Bar, line: int) -> LogEvent:
    """The step that a bar tells."""
    epoch = _EPOCH.search(bar.description)
    losses = {key.lower(): value for key, value in bar.postfix.items()}
    loss = next(
        (losses[k] for k in ("loss", "gpt_loss", "train_loss", "step_loss", "train/loss", "loss_mean") if k in losses),
        None,
    )
    return LogEvent(
        event="step", line=line, step=bar.done, total_steps=bar.total, epoch=float(epoch[1]) if epoch else None,
        step_seconds=bar.seconds_per, iterations_per_second=bar.per_second, loss=number(loss),
        learning_rate=number(losses.get("lr")), grad_norm=number(losses.get("grad_norm")),
    )  # fmt: skip


def _parse(line: str, number: int) -> Iterable[LogEvent]:
    bar = find_bar(line)
    if bar is None:
        return
    if is_training(bar):
        yield bar_event(bar, number)
    else:
        yield LogEvent(event="progress", line=number, counter=bar.done, counter_total=bar.total)


FORMAT = Format(
    "tqdm", lambda: Stateless(_parse), hints=("%|", "it/s", "s/it", "step/s", "batch/s"), priority=-50, bars=True
)
