"""What Slurm says of its jobs -> jobs. Pure. JSON of 22.05 and of 24.11 differ; the rows of `scontrol` do for both.

22.05: "job_state": "RUNNING", plain numbers, 0 or null where nothing is known. 24.11: ["RUNNING"], {"set", "infinite",
"number"}. Neither expands `%N` in the paths that it reports, and the older one expands nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from watcher.fleet._api import FleetError, Job, JobState, Place
from watcher.fleet._hostlist import expand

FAR_SECONDS = 3 * 366 * 86_400.0  # an end so far away is no time limit
BASE: dict[str, JobState] = {
    "PENDING": "pending", "RUNNING": "running", "SUSPENDED": "running", "COMPLETED": "completed",
    "CANCELLED": "cancelled", "FAILED": "failed", "TIMEOUT": "timeout", "NODE_FAIL": "node_fail",
    "PREEMPTED": "preempted", "BOOT_FAIL": "node_fail", "DEADLINE": "timeout", "OUT_OF_MEMORY": "out_of_memory",
    "LAUNCH_FAILED": "failed", "RECONFIG_FAIL": "failed",
}  # fmt: skip
# what an older Slurm says alone, in the place of the base state
FLAGS: dict[str, JobState] = {
    "COMPLETING": "running", "CONFIGURING": "pending", "POWER_UP_NODE": "pending", "RESIZING": "running",
    "SIGNALING": "running", "STAGE_OUT": "running", "STOPPED": "running", "EXPEDITING": "pending",
    "REQUEUED": "pending", "REQUEUE_FED": "pending", "REQUEUE_HOLD": "pending", "SPECIAL_EXIT": "pending",
    "RESV_DEL_HOLD": "pending",
}  # fmt: skip
HOLDS = frozenset({"REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
NEVER = re.compile(r"held|DependencyNeverSatisfied|BadConstraints|InvalidAccount|InvalidQOS|PartitionNodeLimit", re.I)
DEVICES = re.compile(r"\bgpu(?::[^:(,\s]+)?:\d+\(IDX:([0-9,-]+)\)")
ALLOCATED = re.compile(r" Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)")
WORDS = (
    "JobId", "ArrayJobId", "ArrayTaskId", "HetJobId", "HetJobOffset", "UserId", "JobState", "Reason", "Dependency",
    "Restarts", "ExitCode", "SubmitTime", "StartTime", "EndTime", "Partition", "NodeList", "BatchHost", "Priority",
)  # fmt: skip
PAIRS = re.compile(rf"(?:^| )({'|'.join(WORDS)})=(\S*)")


def jobs_from_json(data: bytes) -> list[Job]:
    """`squeue --json` or `scontrol show job --json`. Raises FleetError where it is neither, or holds no answer.

    A name that is not UTF-8 is one job's matter, not that of all.
    Slurm 22.05 ends well and prints no jobs where its controller does not answer; only `errors` tells.
    """
    try:
        answer = json.loads(data.decode("utf-8", "replace"))
        rows, failures = answer["jobs"], answer.get("errors")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FleetError(f"Slurm's JSON cannot be read: {error!r}"[:200]) from None
    if failures:
        raise FleetError(f"Slurm does not answer: {failures}"[:200])
    if not isinstance(rows, list):
        raise FleetError("Slurm's JSON cannot be read: its jobs are no list")
    return [job for row in rows if isinstance(row, dict) and (job := _of_json(row)) is not None]


def jobs_from_rows(data: bytes) -> list[Job]:
    """`scontrol --details --oneliner show job` with times as unix seconds."""
    return [job for row in _rows(data.decode("utf-8", "replace")) if (job := _of_row(row)) is not None]


def _rows(text: str) -> Iterator[str]:
    """A name may hold line breaks, and behind one what looks like another job: a row goes on until it is whole."""
    row = ""
    for line in text.split("\n"):
        row = f"{row} {line}" if row else line
        if not row.startswith("JobId="):
            row = ""
        elif " UserId=" in row and " SubmitTime=" in row:
            yield row
            row = ""


def _of_json(row: Mapping[str, Any]) -> Job | None:
    state = row.get("job_state")
    words = [word.upper() for word in (state if isinstance(state, list) else [state]) if isinstance(word, str)]
    detail = row.get("gres_detail") or []
    array, task = _number(row.get("array_job_id")), _number(row.get("array_task_id"))
    waiting = row.get("array_task_string")
    if array and task is None and not waiting:
        array = None  # 22.05 leaves array_job_id at the job's own id for some
    gres = tuple(str(text) for text in detail) if isinstance(detail, list) else ()
    return _job(
        words=words,
        number=_number(row.get("job_id")),
        array=array,
        task=None if array is None else str(int(task)) if task is not None else f"[{waiting}]",
        name=_text(row.get("name")),
        user=_text(row.get("user_name")),
        partition=_text(row.get("partition")),
        reason=_text(row.get("state_reason")),
        restarts=_number(row.get("restart_cnt")),
        held=row.get("hold") is True or _number(row.get("priority")) == 0,
        places=_places(_text(row.get("nodes")), gres),
        submitted_at=_number(row.get("submit_time")),
        started_at=_number(row.get("start_time")),
        ended_at=_number(row.get("end_time")),
        failed_node=_text(row.get("failed_node")),
        het=_number(row.get("het_job_id")),
        output=_text(row.get("standard_output")),
        folder=_text(row.get("current_working_directory")),
        batch=_text(row.get("batch_host")),
        exit_code=_exit_code(row.get("exit_code")),
    )


def _of_row(line: str) -> Job | None:
    head, _, tail = line.partition(" JobName=")
    name, _, rest = tail.partition(" UserId=")  # a name may hold blanks, and words like ours
    words = dict(PAIRS.findall(head)) | dict(reversed(PAIRS.findall(f"UserId={rest}")))  # the first of each counts
    devices = {node: _devices(gres) for nodes, gres in ALLOCATED.findall(line) for node in _hosts(nodes)}
    task = words.get("ArrayTaskId")
    output = re.search(r" StdOut=(.*?) (?:Power|Switches|TresPer\w+|MailUser|NtasksPerTRES)\b", f"{line} Power")
    folder = re.search(r" WorkDir=(.*?) (?:StdErr|AdminComment|SystemComment|Comment)=", line)
    return _job(
        words=[words.get("JobState", "")],
        number=_number(words.get("JobId")),
        array=_number(words.get("ArrayJobId")) if task is not None else None,
        task=None if task is None else task if task.isdigit() else f"[{task}]",
        name=name,
        user=words.get("UserId", "").partition("(")[0],
        partition=_known(words.get("Partition")),
        reason=_known(words.get("Reason")),
        restarts=_number(words.get("Restarts")),
        held=words.get("Priority") == "0",
        places=tuple(Place(node=n, gpu_minors=devices.get(n)) for n in _hosts(_known(words.get("NodeList")))),
        submitted_at=_number(words.get("SubmitTime")),
        started_at=_number(words.get("StartTime")),
        ended_at=_number(words.get("EndTime")),
        failed_node="",
        het=_number(words.get("HetJobId")),
        output=output[1] if output else "",
        folder=folder[1] if folder else "",
        batch=_known(words.get("BatchHost")),
        exit_code=words.get("ExitCode", ""),
    )


def _job(
    *, words: list[str], number: float | None, array: float | None, task: str | None, name: str, user: str,
    partition: str, reason: str, restarts: float | None, held: bool, places: tuple[Place, ...],
    submitted_at: float | None, started_at: float | None, ended_at: float | None, failed_node: str, het: float | None,
    output: str, folder: str, batch: str, exit_code: str,
) -> Job | None:  # fmt: skip
    state = state_of(words)
    if state is None or not number:
        return None
    raw = str(int(number))
    own = f"{int(array)}_{task}" if array else raw
    over = state not in ("pending", "running")
    pending = state == "pending"
    start = started_at or None
    limit = ended_at if state == "running" and ended_at and start and ended_at - start < FAR_SECONDS else None
    waits = pending and (held or bool(HOLDS & set(words)) or bool(NEVER.search(reason)))
    shown = {"%j": raw, "%A": str(int(array)) if array else raw, "%x": name, "%u": user}
    shown["%a"] = task if task is not None and task.isdigit() else "4294967294"
    shown["%N"] = batch.partition(".")[0]
    return Job(
        id=own,
        state=state,
        name=name,
        labels={
            "job_name": name, "user": user, "partition": partition, "job_id": own,
            "array_job_id": str(int(array)) if array else raw,
        },
        restarts=int(restarts or 0),
        places=() if pending else places,
        part_of=str(int(het)) if het else "",
        submitted_at=submitted_at or None,
        started_at=None if pending else start,  # of a job that waits it is an estimate
        ended_at=ended_at or None if over else None,
        ends_by_at=limit,
        held=waits,
        releasing="COMPLETING" in words,
        reason=_reason(words, reason, exit_code, over),
        failed_node=failed_node or None,
        log_path=_log_path(output, folder, bool(array)),
        log_names=shown,
    )  # fmt: skip


def state_of(words: Iterable[str]) -> JobState | None:
    """The base state, else what a flag alone lets know. None: a job of another cluster, or no state at all."""
    words = [word.partition(" ")[0] for word in words]
    if "REVOKED" in words or not any(words):
        return None
    if set(words) & {"REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"}:
        return "pending"
    for table in (BASE, FLAGS):
        for word in words:
            if word in table:
                return "pending" if table[word] == "running" and "CONFIGURING" in words else table[word]
    return "running"  # a state of a newer Slurm: whatever it is, it is not over


def _reason(words: list[str], reason: str, exit_code: str, over: bool) -> str:
    said = "" if reason in ("None", "") else reason
    if "SUSPENDED" in words or "STOPPED" in words:
        said = "suspended"
    if over and exit_code not in ("", "0", "0:0"):
        said = f"{said}, exit code {exit_code}".removeprefix(", ")
    return said[:200]


def _log_path(output: str, folder: str, is_array: bool) -> str | None:
    """With its placeholders. Without --output Slurm writes into the job's folder."""
    output = output or ("slurm-%A_%a.out" if is_array else "slurm-%j.out")
    if output.startswith("/"):
        return output if output != "/dev/null" else None
    return f"{folder.rstrip('/')}/{output}" if folder.startswith("/") else None


def _number(value: Any) -> float | None:
    """A number of either shape; None: not set, infinite, or no number."""
    if isinstance(value, Mapping):
        if not value.get("set") or value.get("infinite"):
            return None
        value = value.get("number")
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else None
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return value


def _exit_code(value: Any) -> str:
    """As `sacct` writes it: code:signal."""
    if isinstance(value, Mapping):
        code, signal = _number(value.get("return_code")), value.get("signal")
        number = _number(signal.get("id") or signal.get("signal_id")) if isinstance(signal, Mapping) else None
        return f"{int(code or 0)}:{int(number or 0)}"
    raw = _number(value)
    return "" if raw is None else f"{int(raw) >> 8 & 255}:{int(raw) & 127}"


def _devices(text: str) -> tuple[int, ...] | None:
    """Device numbers in "gpu:a100:4(IDX:0-1,6-7)"; none of them named = not known, never none."""
    found = [part for ranges in DEVICES.findall(text) for part in ranges.split(",") if part]
    minors: list[int] = []
    for part in found:
        low, _, high = part.partition("-")
        if not low.isdigit() or (high and not high.isdigit()) or int(high or low) - int(low) > 64:
            return None
        minors += range(int(low), int(high or low) + 1)
    return tuple(minors) or None


@lru_cache(maxsize=512)  # the same jobs are told at every poll
def _places(nodes: str, gres: tuple[str, ...]) -> tuple[Place, ...]:
    names = _hosts(nodes)
    told = gres if len(gres) == len(names) else ("",) * len(names)
    return tuple(Place(node=name, gpu_minors=_devices(text)) for name, text in zip(names, told, strict=True))


def _hosts(text: str) -> tuple[str, ...]:
    try:
        return expand(text) if text else ()
    except ValueError:
        return ()


def _text(value: Any) -> str:
    """Without half characters, which JSON can write and no file or page can take."""
    text = value[:100_000] if isinstance(value, str) else ""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _known(value: str | None) -> str:
    return "" if value is None or value in ("(null)", "N/A", "n/a", "Unknown") else value
