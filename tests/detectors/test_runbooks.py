"""Every detector has a runbook beside it that a person can follow at night and that names its settings, all of them."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import detectors
from detectors.registry import load_plugins

FOLDER = Path(detectors.__path__[0])
PLUGINS = {name: p for name, p in load_plugins().items() if (FOLDER / f"{name}.py").exists()}
HEADINGS = ["## What it means", "## What to do", "## What looks like it", "## Settings"]


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PLUGINS)
def test_a_runbook_has_its_four_parts_in_order_and_fits_a_screen(name: str):
    lines = text_of(name).splitlines()
    assert lines[0] == f"# {name}"
    assert [line for line in lines if line.startswith("## ")] == HEADINGS
    assert 12 <= len(lines) <= 40
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("name", PLUGINS)
def test_what_to_do_holds_a_command_to_type(name: str):
    part = text_of(name).split("## What to do")[1].split("\n## ")[0]
    assert re.search(r"`[a-z][\w-]+ [^`]+`", part)


@pytest.mark.parametrize("name", PLUGINS)
def test_the_settings_are_those_of_the_detector_and_no_others(name: str):
    part = text_of(name).split("## Settings")[1]
    assert set(re.findall(r"^- `(\w+)`", part, re.MULTILINE)) == {f.name for f in fields(PLUGINS[name].config)}


def test_no_runbook_is_left_of_a_detector_that_is_gone():
    assert {file.stem for file in FOLDER.glob("*.md")} == set(PLUGINS)
