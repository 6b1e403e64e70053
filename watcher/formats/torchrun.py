"""torchrun and launchers made of it: when a group of workers begins and when it ends well."""

from __future__ import annotations

from watcher.formats._api import Format, Stateless
from watcher.formats._phases import phase_table

_phases = phase_table(
    ("startup", "start", r"Setting OMP_NUM_THREADS environment variable for each|\] Starting worker group$|"
                         r"\] Rendezvous complete for workers\. Result:"),
    ("finished", "start", r"worker group successfully finished"),
)  # fmt: skip

FORMAT = Format(
    "torchrun",
    lambda: Stateless(_phases),
    hints=("worker group", "setting omp_num", "rendezvous complete"),
    priority=80,
)
