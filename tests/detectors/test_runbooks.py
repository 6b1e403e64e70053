"""Every detector has a runbook that a person can use at night, and its settings are the ones of the program."""

from __future__ import annotations

import re
from dataclasses import fields
from importlib import resources

import pytest

from detectors.registry import load_plugins

PLUGINS = load_plugins()
HEADINGS = ["What it means", "What to do", "What looks like it", "Settings"]


@pytest.mark.parametrize("name", PLUGINS)
def test_a_detector_has_a_runbook(name):
    text = resources.files("detectors").joinpath(f"{name}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {name}\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS
    config = PLUGINS[name].config()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE))
    assert rows == {field.name: shown(getattr(config, field.name)) for field in fields(config)}


def shown(value: object) -> str:
    if value is None:
        return "not set"
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
