"""Writes the dashboards: `python -m deploy.grafana.source [FOLDER]`, from the root of the project."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from deploy.grafana.source.fleet import fleet
from deploy.grafana.source.node import node
from deploy.grafana.source.run import run
from deploy.grafana.source.watchdog import watchdog


def boards() -> dict[str, str]:
    """File name -> JSON text."""
    return {f"{made.__name__}.json": _text(made()) for made in (fleet, run, node, watchdog)}


def _text(made: Dashboard) -> str:
    model = json.loads(json.dumps(made.build(), cls=JSONEncoder))
    for number, panel in enumerate(model["panels"], 1):
        panel["id"] = number
    for variable in model["templating"]["list"]:  # what only a variable of intervals has
        for key in [key for key in variable if key.startswith("auto")]:
            del variable[key]
    return json.dumps(_without_nulls(model), indent=1, ensure_ascii=False) + "\n"


def _without_nulls(value: Any) -> Any:
    """What is not set is left out: Grafana's types know no null there. The first step of a threshold has one."""
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None or set(value) == {"value", "color"}}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    for name, text in boards().items():
        (folder / name).write_text(text, encoding="utf-8")
