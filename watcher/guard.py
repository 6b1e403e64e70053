"""Start-up checks: the three packages come from one place and have one owner. Their names are generic."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path

PACKAGES = ("watcher", "alerts", "detectors")
OURS = "runwatch"


def package_problems(
    places: Mapping[str, Sequence[str]] | None = None, owners: Mapping[str, Sequence[str]] | None = None
) -> list[str]:
    """One line for each package that is not ours alone. Arguments are for tests."""
    if places is None:
        places = {name: list(importlib.import_module(name).__path__) for name in PACKAGES}
    if owners is None:
        owners = _owners()
    problems = []
    roots = {name: sorted({str(Path(place).parent) for place in places[name]}) for name in PACKAGES}
    ours = roots["watcher"][0] if roots["watcher"] else ""
    for name in PACKAGES:
        if roots[name] != [ours]:
            problems.append(
                f"package {name} comes from {', '.join(roots[name]) or 'nowhere'}, watcher from {ours}: something "
                f"shadows it. Start runwatch from an environment of its own, without PYTHONPATH"
            )
        others = sorted({owner for owner in owners.get(name, ()) if owner.lower() != OURS})
        if others:
            problems.append(
                f"package {name} is also installed by {', '.join(others)}: give runwatch an environment of its own"
            )
    return problems


def _owners() -> dict[str, list[str]]:
    """Package -> who installed files into it. Records are read as text: as objects they weigh much."""
    owners: dict[str, list[str]] = {name: [] for name in PACKAGES}
    for distribution in distributions():
        record = "\n" + (distribution.read_text("RECORD") or "")
        for name in PACKAGES:
            if f"\n{name}/" in record:
                owners[name].append(distribution.name)
    return owners
