"""The one table of what an error line looks like. First match wins; matched anywhere in a line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from watcher.events import ErrorKind


@dataclass(frozen=True, slots=True)
class Row:
    """`hint`: lower-case words of which one must stand in the line. `cascade`: a consequence, never the root cause."""

    kind: ErrorKind
    pattern: re.Pattern[str]
    hints: tuple[str, ...]
    cascade: bool = False


def _row(kind: ErrorKind, pattern: str, *hints: str, cascade: bool = False) -> Row:
    return Row(kind, re.compile(pattern, re.IGNORECASE), hints, cascade)


ROWS: tuple[Row, ...] = (
    _row("xid", r"NVRM: Xid \(", "nvrm: xid"),
    _row("slurm_time_limit", r"CANCELLED AT .{0,60}DUE TO TIME LIMIT", "due to time limit"),
    _row("node_fail", r"CANCELLED AT .{0,60}DUE TO NODE FAILURE|srun: error: Node failure on", "node failure"),
    _row("slurm_cancelled", r"\*\*\* (?:JOB|STEP) [\w.+-]+ ON \S+ CANCELLED AT", "cancelled at"),
    _row("nccl_timeout", r"Watchdog caught collective operation timeout", "watchdog caught collective", cascade=True),
    _row("oom_gpu", r"CUDA out of memory|OutOfMemoryError: (?:CUDA|HIP)", "out of memory", "outofmemoryerror"),
    _row("ecc", r"uncorrectable (?:ECC|NVLink) error", "uncorrectable"),
    _row("cuda_error", r"CUDA error: |CUDNN_STATUS_|CUBLAS_STATUS_", "cuda error", "cudnn_status", "cublas_status"),
)
