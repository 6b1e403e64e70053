"""The one table of what an error line looks like. First match wins; matched anywhere in a line.

`weight` says what a line is worth as a cause:
    cause      may be the root cause
    weak       an exit code or a kill: the cause only where nothing came before it
    cascade    always a consequence: a time-out of those that waited, a peer that closed, a summary
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any, Literal

import re2

from watcher.events import ErrorKind

Weight = Literal["cause", "weak", "cascade"]


@dataclass(frozen=True, slots=True)
class Row:
    """`hints`: lower-case words of which one must stand in the line. Named groups `rank` and `host` are used."""

    kind: ErrorKind
    pattern: re.Pattern[str]
    hints: tuple[str, ...]
    weight: Weight = "cause"


def _row(kind: ErrorKind, weight: Weight, hints: str, pattern: str) -> Row:
    return Row(kind, re.compile(pattern, re.IGNORECASE), tuple(hints.split("|")), weight)


_TASKS = r"srun: error: (?P<host>[\w.-]+): tasks? (?P<tasks>[\d,\s-]{1,200}): "
_ON_HOST = r"\*\*\* (?:JOB|STEP) [\w.+\[\]-]{1,80} ON (?P<host>[\w.-]+) "

ROWS: tuple[Row, ...] = (
    # the kernel's own words
    _row("xid", "cause", "xid (", r"NVRM: Xid \(|nvswitch\d*: SXid \("),
    _row("gpu_lost", "cause", "off the bus|gpu is lost|gpu_is_lost|no devices were found",
         r"fallen off the bus|GPU is lost|NVML_ERROR_GPU_IS_LOST|^No devices were found"),
    _row("oom_host", "cause", "oom_kill|oom-kill|killed process|out of memory",
         r"Detected \d+ oom[-_]kill event|oom-kill:constraint=|(?:out of memory|oom-kill|oom): Killed process \d+|"
         r"Memory cgroup out of memory: Kill"),
    # Slurm and other schedulers; the host is where slurmstepd runs, not the culprit
    _row("slurm_time_limit", "weak", "time limit|runlimit|walltime|run time limit",
         _ON_HOST + r"CANCELLED (?:AT \S{1,40} )?DUE TO TIME LIMIT|TERM_RUNLIMIT|reaching LSF run time limit|"
         r"PBS: job killed: walltime|job killed: walltime \d+ exceeded limit"),
    _row("node_fail", "cause", "node failure|slice down|node_fail",
         _ON_HOST + r"CANCELLED (?:AT \S{1,40} )?DUE TO NODE FAILURE|"
         r"srun: error: Node failure on (?P<host2>[\w.,\[\]-]+)|Slice down event detected|\bNODE_FAIL\b"),
    _row("other", "weak", "stepd terminated", r"STEPD TERMINATED ON (?P<host>[\w.-]+)"),
    _row("slurm_cancelled", "weak", "cancelled at|due to preemption|due to signal|term_owner",
         _ON_HOST + r"CANCELLED AT|CANCELLED AT \S{1,40} DUE TO PREEMPTION|\*\*\* JOB \S{1,60} DUE TO|"
         r"TERM_OWNER: job killed"),
    _row("oom_host", "cause", "memory limit",
         r"Exceeded (?:job|step) memory limit|exceeded memory limit .{0,80}being killed"),
    _row("other", "weak", "srun: error: unable|task launch", r"srun: error: (?:Unable to|[Tt]ask launch)"),
    _row("oom_host", "weak", "out of memory", _TASKS + r"Out Of Memory"),
    _row("segfault", "weak", "segmentation fault", _TASKS + r"Segmentation fault"),
    _row("bus_error", "weak", "bus error", _TASKS + r"Bus error"),
    _row("other", "cascade", "terminated", _TASKS + r"Terminated"),
    _row("other", "weak", "exited with exit code|killed|aborted",
         _TASKS + r"(?:Exited with exit code [1-9]|Killed|Aborted)"),
    _row("other", "weak", "failed (non-zero", _ON_HOST + r"FAILED \(non-zero"),
    # collectives: those who report are the ones that waited
    _row("nccl_timeout", "cause", "didn't join collective",
         r"\[(?P<rank>\d+)\] finished collective #\d+, but didn't join"),
    _row("nccl_timeout", "cascade", "timeout|timed out|time out|timedout|blocking_wait|by watchdog at",
         r"(?:\[Rank (?P<rank>\d+)\] )?Watchdog caught collective operation timeout|"
         r"\[Rank \d+\] Timeout at (?:collective|NCCL work)|detected by watchdog at work|"
         r"NCCL (?:collective )?operation.{0,40}timed? ?out|"
         r"heartbeat monitor timed out|Watchdog got stuck|Timed out waiting \d+ ?ms for (?:recv|send) operation|"
         r"\b(?:HCCL|NCCL|RCCL) (?:\w{1,20} ){0,4}(?:timeout|timed out)\b(?! (?:set|of|to|is))|"
         r"error: [HN]CCL_BLOCKING_WAIT|Timed out initializing process group|"
         r"waiting for clients\. \d+/\d+ clients joined|wait timeout after \d+ms, keys|DistStoreError|"
         r"Collective .{0,40}timed out"),
    _row("nccl_error", "cascade",
         "remote peer|closed by peer|reset by peer|remote process exited|broken pipe|ncclremoteerror|was aborted",
         r"(?:gloo|NCCL|c10d|TCPStore|socket|ProcessGroup|DistNetworkError|(?:send|recv)(?:Bytes|Value)).{0,200}"
         r"(?:closed by (?:remote )?peer|reset by peer|Broken pipe)|ncclRemoteError|"
         r"remote process exited or there was a network error|NCCL communicator was aborted"),
    _row("nccl_error", "cause", "nccl|hccl|rccl|ibv_",
         r"NCCL error|nccl(?:System|Internal|UnhandledCuda)Error|ncclInvalid(?:Usage|Argument)|NCCL failure|"
         r"NCCL WARN .{0,300}(?:with error|error \d|failed|failure|timed? ?out|retry|unhandled)|RCCL error|HCCL error|"
         r"\bibv_\w+ failed"),
    # memory of a GPU or of the host
    _row("oom_gpu", "cause", "out of memory|outofmemory|resource_exhausted|oom when|alloc_failed",
         r"(?:CUDA|HIP|NPU|XPU|MUSA) out of memory|OutOfMemoryError: (?:CUDA|HIP|NPU|XPU|Allocation)|"
         r"RESOURCE_EXHAUSTED: .{0,60}(?:out of memory|allocat)|OOM when allocating tensor|CUBLAS_STATUS_ALLOC_FAILED"),
    _row("ecc", "cause", "ecc", r"uncorrectable ECC|ECCUncorrectable|double[- ]bit ECC|uncorrected ECC error"),
    _row("dataloader", "cause", "dataloader worker|encountered in worker",
         r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) (?:is killed|exited)|bus error encountered in worker|"
         r"Caught \w+ in DataLoader worker"),
    _row("cuda_error", "cause",
         "cuda|cudnn_status|cublas_status|hip error|hiperror|device-side assert|illegal memory access",
         r"CUDA (?:driver |runtime )?error|cudaError\w{3,}|CUDNN_STATUS_(?!SUCCESS)|CUBLAS_STATUS_(?!SUCCESS)|"
         r"HIP error|hipError\w{3,}|device-side assert triggered|illegal memory access was encountered|"
         r"Cuda failure|unspecified launch failure|AcceleratorError: "),
    _row("cuda_error", "cause", "assertion `", r"(?<=\] )Assertion `.{1,200}` failed"),  # one per thread
    _row("other", "cause", "assertion `", r"\w: Assertion [`'].{1,200}' failed"),
    _row("oom_host", "cause", "allocate memory|memoryerror|oomkilled|outofmemoryerror|more memory",
         r"(?:can't|Cannot|not) allocate memory|(?:^|\s)MemoryError(?::|$)|OOMKilled|"
         r"ray\.exceptions\.OutOfMemoryError|Workers? killed due to memory pressure"),
    # processes that die
    _row("segfault", "cause", "segmentation fault|sigsegv|signal 11",
         r"Segmentation fault|SIGSEGV|exited on signal 11\b|Caught signal 11\b"),
    _row("bus_error", "cause", "bus error|sigbus", r"\bBus error\b|\bSIGBUS\b"),
    _row("disk_full", "cause", "no space left|quota exceeded", r"No space left on device|Disk quota exceeded"),
    _row("filesystem", "cause",
         "stale file|input/output error|not connected|read-only file|remote i/o|pytorchstream|file write",
         r"Stale (?:NFS )?file handle|Input/output error|Transport endpoint is not connected|Read-only file system|"
         r"Remote I/O error|PytorchStream(?:Writer|Reader) failed|unexpected pos \d+ vs \d+"),
    _row("divergence", "cause",
         "loss is|loss became|nan loss|nan detected|loss scale already|minimum loss scale|found nan|unexpected result|"
         "diverged",
         r"\bloss is (?:nan|inf|infinite|not finite)\b|loss (?:became|is) (?:NaN|Inf)|NaN (?:loss|detected in loss)|"
         r"Loss is \S{1,20}, stopping training|loss scale already at minimum|Minimum loss scale reached|"
         r"found NaN in (?:local|global)|Unexpected result (?:nan|inf) \(message|Training diverged"),
    # a launcher's or a shell's words about a child
    _row("other", "cascade", "will restart worker group|worker group failed", r"Worker group FAILED"),
    _row("other", "cascade", "childfailederror|childprocesserror|signalexception|calledprocesserror",
         r"ChildFailedError|SignalException|CalledProcessError"),
    _row("other", "weak", "core dumped|aborted|killed",
         r"line \d+: +\d+ (?:Aborted|Killed|Trace/breakpoint trap|Terminated)\b|"
         r"\bAborted +\(core dumped\)|Fatal Python error: Aborted|^Killed$"),
    _row("other", "weak", "exits with return code", r"exits with return code = -?[1-9]"),
    _row("other", "weak", "exited with|mpi_abort|bad termination|exited on signal|non-zero",
         r"^Exited with exit code [1-9]|MPI_ABORT was invoked on rank (?P<rank>\d+)|BAD TERMINATION OF ONE OF YOUR|"
         r"process rank (?P<rank2>\d+) with PID \d+ on node (?P<host>[\w.-]+) exited on signal|"
         r"exited with (?:a )?non-zero (?:exit )?(?:code|status)"),
    _row("other", "weak", "received signal|preemption detected|sigterm", r"Received signal 15\b|Preemption detected|"
         r"(?:Received|Receiving|Caught|Got) SIGTERM"),
    _row("other", "weak", "dist internal error|err0", r"\bERR\d{5} \w+"),
    _row("other", "weak", "died unexpectedly|rayactorerror",
         r"\b(?:actor|worker|proc(?:ess)? \S{1,60}) died unexpectedly|RayActorError"),
)  # fmt: skip

# what a line says of itself that makes it advice or a warning, not an error
HARMLESS = re.compile(
    r"\bmay encounter\b|\bWarning:|\bwarnings\.warn\b|\bif this happens\b|\bto avoid\b.{0,40}\bfragmentation\b|"
    r"\bImport of \S{1,200} .{0,100}failed with\b|\bnum_ooms?\b|\boom=0\b|Exception ignored in|"
    r"^wandb: |NCCL INFO|Failed to open lib|NET/Plugin|"
    r"--- Logging error ---|\bTried to import\b|\bfailed call to cuInit\b|CommandNotFoundError|"
    r"Stack trace of the failed collective|First PG on this rank|dump signal|dump the debug info|"
    r"To avoid data inconsistency|^Exception raised from|frame #\d",
    re.IGNORECASE,
)

HINTS: tuple[str, ...] = tuple(sorted({hint for row in ROWS for hint in row.hints}))


@functools.cache
def _row_hints() -> Any:
    """For a text in lower case: the places of the rows that have a hint in it, in one pass."""
    options = re2.Options()
    options.max_mem = 64 << 20
    found = re2.Set.SearchSet(options)
    for row in ROWS:
        found.Add("|".join(re2.escape(hint) for hint in row.hints))
    found.Compile()
    return found


def find_row(text: str, lower: str) -> tuple[Row, re.Match[str]] | None:
    """The first row that the line is, with its match; None for most lines."""
    for place in sorted(_row_hints().Match(lower) or ()):
        row = ROWS[place]
        match = row.pattern.search(text)
        if match is not None:
            return row, match
    return None
