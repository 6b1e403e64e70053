"""Programs that tests run: in CI one that is missing fails the test, elsewhere it skips and says what to install."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest


def tool(name: str, source: str) -> str:
    """Path of a program, beside this Python or on the PATH. `source`: where it comes from, for a person."""
    beside = Path(sys.executable).parent / name
    path = str(beside) if beside.exists() else shutil.which(name)
    if path is None:
        assert "CI" not in os.environ, f"CI has no {name} ({source})"
        pytest.skip(f"needs {name} ({source})")
    return path
