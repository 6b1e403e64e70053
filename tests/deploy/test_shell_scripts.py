"""Every shell script that is shipped or run by CI is clean by shellcheck."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.tools import tool

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(
    file
    for file in [*(ROOT / "deploy").rglob("*"), *(ROOT / ".ci").iterdir()]
    if file.is_file() and file.read_bytes()[:2] == b"#!" and b"sh" in file.read_bytes().split(b"\n")[0]
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: str(script.relative_to(ROOT)))
def test_shell_scripts_are_clean_and_can_be_run(script):
    shellcheck = tool("shellcheck", "Debian package shellcheck")
    done = subprocess.run([shellcheck, "-x", str(script)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
    assert os.access(script, os.X_OK) or script.suffix == ".sbatch"
