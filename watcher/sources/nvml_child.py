"""The child process that owns NVML: one request line in, one JSON line out. It ends when its parent does."""

from __future__ import annotations

import ctypes
import json
import signal
import sys
from typing import Any

from watcher.sources.nvml_reader import NvmlReader

PR_SET_PDEATHSIG = 1


def main() -> int:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        import pynvml  # that it is NVIDIA's own was checked when the agent started

        reader = NvmlReader(pynvml)
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
