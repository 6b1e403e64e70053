"""The child process that owns NVML: one request line in, one JSON line out. It ends when its parent does.

A request is `read`, with `careful` where each GPU's index shall come on a line of its own before it is read, and with
the indices that shall be left out. The first argument is how many seconds one GPU may take.
"""

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

        reader = NvmlReader(pynvml, *map(float, sys.argv[1:2]))
    except ImportError as error:
        _say({"error": str(error), "kind": "no_bindings"})
        return 2
    for line in sys.stdin:
        words = line.split()
        skip = [int(word) for word in words if word.isdigit()]
        _say(reader.read(skip, _say if "careful" in words else None))
    return 0


def _say(value: dict[str, Any] | int) -> None:
    sys.stdout.write(json.dumps(value, separators=(",", ":")) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
