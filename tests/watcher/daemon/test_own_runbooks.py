"""What the watchdog finds about itself has a runbook as well: whoever is paged can read what to do."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from detectors.registry import load_plugins
from watcher.daemon.page.runbook import names, source, what_to_do

ROOT = Path(__file__).resolve().parents[3]


def signatures_in(*folders: str) -> set[str]:
    """Every signature that a finding of the program is made with."""
    found = set()
    for folder in folders:
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding":
                    given = {k.arg: k.value for k in node.keywords}.get("signature")
                    if isinstance(given, ast.Constant):
                        found.add(str(given.value))
    return found


def test_every_signature_that_can_be_paged_has_a_runbook():
    own = signatures_in("alerts", "watcher") - {"test_page"}
    assert {"delivery_failed", "store_failed", "watchdog_late", "action_taken"} <= own
    for name in own | set(load_plugins()):
        text = source(name)
        assert text is not None, f"{name} has no runbook"
        assert text.startswith(f"# {name}\n")
        assert re.search(r"^## What it means$", text, re.MULTILINE), name
        assert what_to_do(name), name


def test_all_of_them_are_listed_once():
    listed = [name for name, _ in names()]
    assert len(listed) == len(set(listed))
    assert {"delivery_failed", "low_power_deadlock"} <= set(listed)
