"""What every test may use: the place of the reference data, skipped with a reason where it is absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("RUNWATCH_SHARED") or Path(__file__).resolve().parents[2] / "shared")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of real logs, traces and scripted cases that is not part of the project."""
    if not (SHARED / "data").is_dir():
        pytest.skip(f"the reference data is not here ({SHARED}); set RUNWATCH_SHARED to its folder")
    return SHARED
