"""NVIDIA's own NVML bindings, and none of the old packages that bring a module of the same name."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

OWNER = "nvidia-ml-py"
RECORDS = "nvidia_ml_py-*.dist-info/RECORD"


def check_pynvml() -> None:
    """Raises ImportError, in one line, where the module `pynvml` is missing or not NVIDIA's. Does not load it."""
    spec = find_spec("pynvml")
    if spec is None or spec.origin is None:
        raise ImportError(f"the module pynvml is missing: pip install {OWNER}")
    place = Path(spec.origin).resolve()
    if not (_recorded_beside(place) or _recorded_anywhere(place)):
        raise ImportError(
            f"the module pynvml at {place} does not come from {OWNER}: an old package shadows it. "
            f"Remove it (pip uninstall pynvml; pip install --force-reinstall {OWNER})"
        )


def load_pynvml() -> Any:
    """The module `pynvml`. Raises ImportError as `check_pynvml` does."""
    check_pynvml()
    return import_module("pynvml")


def _recorded_beside(place: Path) -> bool:
    """As pip installs it. Spares the child the weight of importlib.metadata."""
    for root in (place.parent, place.parent.parent):
        start = f"{place.relative_to(root).as_posix()},"
        for record in root.glob(RECORDS):
            if any(line.startswith(start) for line in record.read_text("utf-8", "replace").splitlines()):
                return True
    return False


def _recorded_anywhere(place: Path) -> bool:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return place in {Path(str(file.locate())).resolve() for file in distribution(OWNER).files or ()}
    except PackageNotFoundError:
        return False
