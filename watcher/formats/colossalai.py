"""ColossalAI: `colossalai - colossalai - INFO: Distributed environment is initialized`; its records are bars."""

from __future__ import annotations

from watcher.formats._api import Format, Stateless
from watcher.formats._phases import phase_table

_phases = phase_table(
    ("startup", "start", r"Distributed environment is initialized"),
    ("checkpoint", "start", r"Start saving (?:model )?checkpoint"),
    ("checkpoint", "end", r"Saved (?:model )?checkpoint at epoch"),
    ("finished", "start", r"Training (?:is )?(?:complete|finished)"),
)


FORMAT = Format(
    "colossalai",
    lambda: Stateless(_phases),
    hints=("colossalai", "saving model checkpoint", "saved checkpoint at"),
    priority=45,
)
