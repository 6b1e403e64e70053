"""Runbooks as HTML. They are our own files; raw HTML in them is shown as text all the same."""

from __future__ import annotations

import functools
from importlib import resources

from markdown_it import MarkdownIt
from markupsafe import Markup

ACTIONS = "## What to do"
PLACES = ("detectors", "alerts", "watcher.daemon")  # a runbook stands beside whatever finds its signature


def names() -> list[tuple[str, str]]:
    """(name, first sentence) of every runbook."""
    found = []
    for place in PLACES:
        for file in resources.files(place).iterdir():
            if file.name.endswith(".md"):
                text = file.read_text(encoding="utf-8")
                found.append((file.name.removesuffix(".md"), _first_sentence(text)))
    return sorted(found)


def source(name: str) -> str | None:
    """The Markdown, or None where there is no such runbook."""
    if not name.isascii() or not name.replace("_", "").isalnum():
        return None
    files = [resources.files(place).joinpath(f"{name}.md") for place in PLACES]
    return next((file.read_text(encoding="utf-8") for file in files if file.is_file()), None)


@functools.lru_cache(maxsize=256)
def html(text: str) -> Markup:
    return Markup(MarkdownIt("commonmark", {"html": False}).enable("table").render(text))


def what_to_do(name: str) -> Markup | None:
    """The one section that a person at night needs."""
    _, found, rest = (source(name) or "").partition(f"{ACTIONS}\n")
    return html(rest.partition("\n## ")[0].strip()) if found else None


def _first_sentence(text: str) -> str:
    body = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    return body.partition(". ")[0].rstrip(".") + "."
