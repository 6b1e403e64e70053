"""The child process that owns NVML: one request line in, one JSON line out. It ends when its parent does."""

from __future__ import annotations

import ctypes
import json
import signal
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
OWNER = "nvidia-ml-py"


def load_pynvml() -> Any:
    """The module `pynvml`. Raises ImportError, in one line, where it is not NVIDIA's own."""
    try:
        import pynvml
    except ImportError:
        raise ImportError(f"the module pynvml is missing: pip install {OWNER}") from None
    place = Path(str(pynvml.__file__)).resolve()
    try:
        owned = {Path(str(file.locate())).resolve() for file in distribution(OWNER).files or ()}
    except PackageNotFoundError:
        owned = set()
    if place not in owned:
        raise ImportError(
            f"the module pynvml at {place} does not come from {OWNER}: an old package shadows it. "
            f"Remove it (pip uninstall pynvml; pip install --force-reinstall {OWNER})"
        )
    return pynvml


def main() -> int:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        from watcher.sources.nvml_reader import NvmlReader

        reader = NvmlReader(load_pynvml())
    except ImportError as error:
        _say({"error": str(error), "kind": "no_bindings"})
        return 2
    for _ in sys.stdin:
        _say(reader.read())
    return 0


def _say(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value, separators=(",", ":")) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
