"""torchrun and launchers made of it: when a group of workers begins and when it ends well."""

from __future__ import annotations

from watcher.formats._api import Format, Stateless
from watcher.formats._phases import phase_table

_phases = phase_table(
    ("startup", "start", r"\] Starting worker group$|\] Rendezvous complete for workers\. Result:"),
    ("finished", "start", r"worker group successfully finished"),
)

FORMAT = Format("torchrun", lambda: Stateless(_phases), hints=("worker group", "rendezvous complete"), priority=80)
