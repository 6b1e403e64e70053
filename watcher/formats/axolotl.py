"""Axolotl around the Trainer: `[axolotl.train.train:170] ... Starting trainer...`; its records are hf_trainer's."""

from __future__ import annotations

from watcher.formats._api import Format, Stateless
from watcher.formats._phases import phase_table

_phases = phase_table(
    ("startup", "start", r"\[axolotl\.scripts\.load_datasets|\[axolotl\.common\.datasets"),
    ("training", "start", r"Starting trainer\.\.\."),
    ("finished", "start", r"Training [Cc]ompleted!?"),
)


FORMAT = Format(
    "axolotl",
    lambda: Stateless(lambda line, at: _phases(line, at) if "axolotl" in line else []),
    hints=("axolotl",),
    priority=45,
)
