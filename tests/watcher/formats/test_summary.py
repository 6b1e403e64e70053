"""How a log ends and what broke it first, by what was read of it."""

from __future__ import annotations

from typing import Any

import pytest

from watcher.events import LogEvent
from watcher.formats._summary import Summary


def step(line: int, number: int, total: int | None = None) -> LogEvent:
    return LogEvent(event="step", line=line, step=number, total_steps=total, format="megatron")


def error(line: int, kind: Any, *, cascade: bool = False, message: str = "") -> LogEvent:
    return LogEvent(event="error", line=line, kind=kind, cascade=cascade, message=message)


def phase(line: int, name: Any, edge: Any = "start") -> LogEvent:
    return LogEvent(event="phase", line=line, phase=name, edge=edge)


ENDS = [
    ("nothing was understood", [], "unknown"),
    ("records and then nothing", [step(1, 1, 10)], "running"),
    ("the last step of the run", [step(1, 10, 10)], "completed"),
    ("the last step, but an evaluation is open", [step(1, 10, 10), phase(2, "evaluation")], "running"),
    ("an end marker", [step(1, 3, 10), phase(2, "finished")], "completed"),
    ("aborts after the end marker", [phase(1, "finished"), error(2, "other", cascade=True)], "completed"),
    ("training is over, the save fails", [step(1, 5, 5), phase(2, "training", "end"), error(3, "other")], "crashed"),
    ("an error at the end", [step(1, 1), error(2, "oom_gpu")], "crashed"),
    ("an error that the run survived", [error(1, "dataloader"), step(2, 1), step(3, 2), step(4, 3)], "running"),
    ("a record of another rank after the error", [error(1, "oom_gpu"), step(2, 8)], "crashed"),
    ("cancelled", [step(1, 1), error(2, "slurm_cancelled")], "stopped"),
    ("the time limit after a crash", [error(1, "ecc"), error(2, "slurm_time_limit", cascade=True)], "crashed"),
    ("asked to stop, and it did so in order",
     [step(1, 1), error(2, "other", message="Received signal 15"), phase(3, "finished")], "stopped"),
    ("Ctrl-C", [step(1, 1), error(2, "other", message="KeyboardInterrupt")], "stopped"),
    ("a restart after a crash", [step(1, 1), error(2, "ecc"), phase(3, "startup")], "running"),
    ("a restart that finished", [step(1, 1), error(2, "ecc"), phase(3, "startup"), step(4, 2), phase(5, "finished")],
     "completed"),
    ("the kernel's log", [error(1, "xid")], "unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "events", "ends"), ENDS, ids=[case[0] for case in ENDS])
def test_a_log_ends_as_its_last_words_say(what: str, events: list[LogEvent], ends: str) -> None:
    summary = Summary()
    for event in events:
        summary.add(event)
    assert summary.ends == ends, what


CAUSES = [
    ("time-outs that were printed first", [error(1, "nccl_timeout", cascade=True), error(9, "oom_gpu")], 9),
    ("only consequences: the first", [error(3, "nccl_timeout", cascade=True), error(5, "other", cascade=True)], 3),
    ("a buffered rank that is read late", [error(9, "python_exception"), error(2, "ecc")], 2),
    ("a node that died explains the CUDA errors before", [error(1, "cuda_error"), error(8, "node_fail")], 8),
    ("the host's memory explains a kill", [error(1, "other", message="Killed"), error(2, "oom_host")], 2),
    ("the last attempt that has errors",
     [error(1, "ecc"), phase(2, "startup"), error(3, "cuda_error"), phase(4, "startup"), step(5, 1)], 3),
]  # fmt: skip


@pytest.mark.parametrize(("what", "events", "line"), CAUSES, ids=[case[0] for case in CAUSES])
def test_the_root_cause_is_the_first_that_is_no_consequence(what: str, events: list[LogEvent], line: int) -> None:
    summary = Summary()
    for event in events:
        summary.add(event)
    cause = summary.root_cause
    assert cause is not None
    assert cause.line == line, what


def test_the_summary_leaves_out_what_is_not_known() -> None:
    assert Summary().to_json() == {"event": "summary", "steps": 0, "errors": 0, "ends": "unknown"}
