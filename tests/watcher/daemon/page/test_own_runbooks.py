"""Whatever can be paged has a runbook that its page links: also what the watchdog says of itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import alerts
import watcher
from detectors.registry import load_plugins
from watcher.daemon.page import runbook

NOT_SENT = ("simulate", "trial.py")  # what a demo plays, and a test page, which has no links


def _found_by_ourselves() -> Iterator[str]:
    """The signature of every Finding that is made outside the detectors."""
    for package in (alerts, watcher):
        root = Path(package.__path__[0])
        for file in root.rglob("*.py"):
            if not set(file.relative_to(root).parts) & set(NOT_SENT):
                yield from _findings(ast.parse(file.read_text(encoding="utf-8")))


def _findings(tree: ast.AST) -> Iterator[str]:
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Finding":
            given = {word.arg: word.value for word in call.keywords}["signature"]
            assert isinstance(given, ast.Constant), ast.dump(given)
            yield str(given.value)


OWN = sorted(set(_found_by_ourselves()))


def test_the_watchdogs_own_findings_are_known_to_this_test() -> None:
    assert {"delivery_failed", "store_failed", "detector_failed", "watching_failed", "watchdog_late"} <= set(OWN)


@pytest.mark.parametrize("name", [*load_plugins(), *OWN])
def test_every_signature_that_can_be_paged_has_a_runbook_with_what_to_do(name: str) -> None:
    text = runbook.source(name)
    assert text is not None
    assert text.startswith(f"# {name}\n")
    assert runbook.what_to_do(name)


@pytest.mark.parametrize("name", OWN)
def test_a_runbook_of_our_own_reads_like_the_others(name: str) -> None:
    headings = re.findall(r"^## (.*)$", runbook.source(name) or "", re.MULTILINE)
    assert [one for one in headings if one != "What looks like it"] == ["What it means", "What to do", "Settings"]


def test_all_are_listed_once() -> None:
    names = [name for name, _ in runbook.names()]
    assert set(names) == {*load_plugins(), *OWN}
    assert len(names) == len(set(names))
