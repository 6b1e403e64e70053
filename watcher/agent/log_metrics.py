"""What the logs of a node tell, as series that need no daemon: a second line of defence can be built on them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from watcher.agent.heard import Heard
from watcher.agent.tally import Tally
from watcher.families import counter, gauge, one_hot

PHASES = ("startup", "training", "evaluation", "checkpoint", "finished")


def log_metrics(node: str, heard: Heard, tally: Tally, last_line_at: float | None) -> Iterator[Metric]:
    """All logs of the node together: a path is no label. `last_line_at`: unix seconds."""
    for name, text, count in (
        ("runwatch_agent_log_steps", "Records of the step counter that were read.", heard.steps_count),
        ("runwatch_agent_log_reported_errors", "Errors that the logs told of.", heard.errors_count),
        ("runwatch_agent_log_rotations", "Logs that were rotated or truncated.", tally.rotations),
        ("runwatch_agent_log_errors", "Errors of the file systems that hold logs.", tally.errors),
        ("runwatch_agent_log_skipped_bytes", "Bytes of logs that were too many to read.", tally.skipped_bytes),
        ("runwatch_agent_log_cut_lines", "Lines of logs that were too long and were cut.", tally.long_lines),
    ):
        yield counter(name, text, ["node"], [((node,), count)])
    for name, text, value in (
        ("runwatch_agent_log_last_step", "Step of the last record that was read.", heard.last_step),
        (
            "runwatch_agent_log_last_progress_timestamp_seconds",
            "When a log last told of a step, a phase or progress in one.",
            heard.last_progress_at,
        ),
        ("runwatch_agent_log_last_line_timestamp_seconds", "When a log last had a line of any kind.", last_line_at),
    ):
        yield gauge(name, text, ["node"], [((node,), value)])
    phase = heard.phase
    yield one_hot(
        "runwatch_agent_log_phase",
        "1 for the phase that the logs last told of, 0 for the others.",
        ["node", "phase"],
        PHASES,
        [((node,), phase)] if phase is not None else [],
    )
