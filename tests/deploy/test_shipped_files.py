"""Nothing in deploy/ is untested: configs load, units verify."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.tools import tool
from watcher.cli.main import main

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


@pytest.mark.parametrize("file", sorted(DEPLOY.rglob("*.example.yaml")), ids=lambda file: file.name)
def test_example_configs_pass_the_loader(file, capsys):
    assert main(["check-config", str(file)]) == 0
    assert ": ok" in capsys.readouterr().out


@pytest.mark.parametrize("unit", sorted(DEPLOY.glob("systemd/*.service")), ids=lambda unit: unit.name)
def test_units_verify_and_can_be_enabled(unit, tmp_path):
    analyze = tool("systemd-analyze", "Debian package systemd")
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/runwatch/bin/runwatch", "/bin/true"))
    done = subprocess.run(
        [analyze, "verify", "--man=no", "--recursive-errors=no", str(copy)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "[Install]" in unit.read_text()


EXPOSURE = [  # the most that `systemd-analyze security` may say
    (("runwatch-agent.service",), 2.0),
    (("runwatch-agent.service", "process-details.conf"), 2.6),
    (("runwatch.service",), 1.6),
]


@pytest.mark.parametrize(
    ("files", "most"), EXPOSURE, ids=lambda value: "+".join(value) if isinstance(value, tuple) else ""
)
def test_units_expose_little(files, most, tmp_path):
    unit = tmp_path / files[0]
    unit.write_text("\n".join((DEPLOY / "systemd" / file).read_text() for file in files))
    gate = ["security", "--offline=yes", f"--threshold={most * 10:.0f}", "--no-pager", str(unit)]
    done = subprocess.run(
        [tool("systemd-analyze", "Debian package systemd"), *gate], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout[-300:]
