"""The page on standard output: for a terminal, for the journal, and for a first try."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TextIO

from alerts.channels._api import ChannelPlugin, ChannelSection
from alerts.notification import Notification, Outcome, Retry, Sent


class ConsoleSection(ChannelSection):
    """Nothing to set."""


@dataclass(frozen=True, slots=True)
class Console:
    section: ConsoleSection
    out: TextIO = field(default_factory=lambda: sys.stdout)

    def send(self, notification: Notification, minimal: bool = False) -> Outcome:
        text = notification.title if minimal else notification.text
        try:
            self.out.write(f"\n=== {notification.kind} {'=' * 60}\n{text}\n{'=' * 70}\n")
            self.out.flush()
        except (OSError, ValueError):
            return Retry("standard output is closed")
        return Sent()


PLUGIN = ChannelPlugin("console", ConsoleSection, Console)
