"""What deploy/logs.md shows is what the program takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from watcher.agent import begin, follow, followed, lines, source
from watcher.config.logs import STEP_GROUPS, LogConfig
from watcher.formats._reader import LogReader

TEXT = (Path(__file__).resolve().parents[2] / "deploy/logs.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("block", blocks("yaml"))
def test_every_section_that_is_shown_is_accepted(block: str) -> None:
    for item in yaml.safe_load(block):
        LogConfig.model_validate(item)


def test_the_progress_file_that_is_shown_is_read() -> None:
    (block,) = blocks("json")
    events = LogReader(only="beat").feed_block(block.encode(), 1)
    assert [event.step for event in events] == [120, 121]


def test_names_and_numbers_are_those_of_the_program() -> None:
    flat = " ".join(TEXT.split())
    assert f"Groups of `step`: {', '.join(STEP_GROUPS)}, host." in flat
    for said in (
        f"the last {begin.START_BYTES >> 20} MiB",
        f"more than {begin.MAX_BACKLOG_BYTES >> 20} MiB behind",
        f"at most {follow.POLL_BYTES >> 20} MiB in {follow.POLL_SECONDS:.0f} seconds",
        f"at most {follow.MAX_FILES} files",
        f"cut at {lines.MAX_PENDING_BYTES >> 10} KiB",
        f"quiet for {followed.QUIET_SECONDS:.0f} seconds",
        f"for {source.DRAIN_SECONDS / 60:.0f} minutes",
    ):
        assert said in flat
