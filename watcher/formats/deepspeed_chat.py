"""DeepSpeed-Chat (PPO): `epoch: 0|step: 3|ppo_ep: 1|act_loss: 0.2|...`, its times some lines later."""

from __future__ import annotations

import re
from dataclasses import replace

from watcher.events import LogEvent
from watcher.formats._api import Format, Held
from watcher.formats._numbers import NUMBER, number

_CHAT = re.compile(
    rf"[Ee]poch: (\d{{1,9}}) ?\| ?[Ss]tep: (\d{{1,12}}) ?\| ?(?:ppo_ep|PPO Epoch): \d+ ?\| ?"
    rf"(?:act_loss|Actor Loss): ({NUMBER})"
)
_LATENCY = re.compile(
    r"E2E latency=([\d.]{1,20})s.{0,300}?CurSamplesPerSec=([\d.]{1,20})|"
    r"End-to-End => Latency: ([\d.]{1,20})s,.{0,100}?Samples/sec: ([\d.]{1,20})"
)
WAIT_LINES = 8


class DeepSpeedChatReader:
    def __init__(self) -> None:
        self._held: LogEvent | None = None
        self._age = 0

    @property
    def busy(self) -> bool:
        return self._held is not None

    def feed(self, line: str, at: int) -> list[LogEvent]:
        found = _CHAT.search(line)
        if found:
            out = self.flush()
            epoch, step, loss = float(found[1]), int(found[2]), number(found[3])
            self._held, self._age = LogEvent(event="step", line=at, step=step, epoch=epoch, loss=loss), 0
            return Held(out)
        if self._held is None:
            return []
        latency = _LATENCY.search(line)
        if latency:
            taken, rate = number(latency[1] or latency[3]), number(latency[2] or latency[4])
            event = replace(self._held, step_seconds=taken, samples_per_second=rate, throughput_scope="global")
            self._held = None
            return [event]
        self._age += 1
        return self.flush() if self._age > WAIT_LINES else []

    def flush(self) -> list[LogEvent]:
        held, self._held = self._held, None
        return [] if held is None else [held]


FORMAT = Format("deepspeed_chat", DeepSpeedChatReader, hints=("act_loss", "actor loss"), priority=50)
