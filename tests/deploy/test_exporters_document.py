"""deploy/exporters.md: its examples load, its commands are commands, its counters are read."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from watcher.cli.backtest import add_arguments
from watcher.cli.main import main
from watcher.telemetry._api import load_telemetry

TEXT = (Path(__file__).resolve().parents[2] / "deploy" / "exporters.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n")[0])
def test_examples_pass_the_loader(block, tmp_path, capsys):
    file = tmp_path / "c.yaml"
    if block.startswith(" "):
        block = f"runs:\n  - name: my-run\n    nodes: node001\n{block}"
    file.write_text(block)
    assert main(["check-config", str(file)]) == 0, capsys.readouterr().err


def test_commands_have_these_options():
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    lines = re.findall(r"^runwatch backtest (.*)$", TEXT, re.MULTILINE)
    assert len(lines) == 2
    for line in lines:
        parser.parse_args(shlex.split(line))


def test_counters_to_add_are_counters_that_are_read():
    dialect = load_telemetry()["dcgm_exporter"].dialect
    assert dialect is not None
    names = re.findall(r"^(DCGM_\w+), ", TEXT, re.MULTILINE)
    assert len(names) == 5
    assert set(names) <= set(dialect.metrics())


def test_every_exporter_has_its_column():
    for name, plugin in load_telemetry().items():
        if plugin.dialect is not None:
            assert name in TEXT, name
