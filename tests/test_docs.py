"""What the documents list is what the program has. RUNWATCH_UPDATE=1 writes the tables anew."""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path

import pytest

from alerts.channels._api import load_channels
from detectors.registry import load_plugins
from watcher.cli.main import commands
from watcher.formats._api import load_formats
from watcher.telemetry._api import load_telemetry

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"


def signatures() -> str:
    rows = []
    for name, plugin in load_plugins().items():
        doc = (importlib.import_module(plugin.build.__module__).__doc__ or "").strip()
        first = re.split(r"(?<=[.:]) |\n\n", " ".join(doc.split()), maxsplit=1)[0].rstrip(".:")
        rows.append(f"| [`{name}`](detectors/{name}.md) | {first} |")
    return "\n".join(["| signature | what it means |", "|---|---|", *rows])


def command_table() -> str:
    rows = [f"| `runwatch {command.name}` | {command.help} |" for command in commands()]
    return "\n".join(["| command | for |", "|---|---|", *rows])


def format_list() -> str:
    return ", ".join(f"`{name}`" for name in sorted(load_formats()) if name != "user")


def channel_list() -> str:
    return ", ".join(f"`{name}`" for name in sorted(load_channels()))


def telemetry_list() -> str:
    return ", ".join(f"`{name}`" for name in sorted(load_telemetry()))


GENERATED = {
    "signatures": signatures, "commands": command_table, "formats": format_list, "channels": channel_list,
    "telemetry": telemetry_list,
}  # fmt: skip


@pytest.mark.parametrize("name", GENERATED)
def test_generated_parts_of_the_readme_are_what_the_program_says(name):
    text = README.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", text, re.DOTALL)
    assert found, f"README.md has no <!-- {name} --> ... <!-- /{name} -->"
    wanted = GENERATED[name]()
    if os.environ.get("RUNWATCH_UPDATE") and found[1] != wanted:
        README.write_text(text[: found.start(1)] + wanted + text[found.end(1) :], encoding="utf-8")
        return
    assert found[1] == wanted


def test_links_between_documents_lead_somewhere():
    for file in [README, *(ROOT / "deploy").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", file.read_text(encoding="utf-8")):
            assert (file.parent / target).exists(), f"{file.name}: {target}"
