"""The agent's file."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from watcher.config.listen import Listen
from watcher.config.logs import LogConfig


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _node() -> str:
    """In a container the host name is the pod's: there the environment names the node."""
    return os.environ.get("RUNWATCH_NODE", "").strip() or socket.gethostname()


class AgentSection(Section):
    """`node`: the name the daemon knows this node by; default: $RUNWATCH_NODE, else the host name. `state_file`: where
    the positions in the logs are kept."""

    node: str = Field(default_factory=_node, min_length=1, max_length=255)
    listen: Listen = Listen("127.0.0.1", 9876)
    token_file: Path | None = None
    interval_seconds: float = Field(default=10.0, ge=1, le=300)
    gpu_deadline_seconds: float = Field(default=8.0, gt=0)  # one cycle waits no longer for the driver
    gpu_stuck_seconds: float = Field(default=45.0, gt=0)  # then its reader is replaced
    expected_gpus: int | None = Field(default=None, ge=0, le=64)
    logs: tuple[LogConfig, ...] = ()
    state_file: Path | None = None

    @property
    def patience_seconds(self) -> float:
        """How long no cycle may end before the process counts as stuck."""
        return 6 * self.interval_seconds + 30

    @model_validator(mode="after")
    def _token(self) -> AgentSection:
        self.listen.check_token(self.token_file)
        return self


class AgentConfig(Section):
    """The whole file. `clock_scale` and `clock_epoch` are for tests alone: the process lives that many times faster."""

    ELSEWHERE: ClassVar[dict[str, str]] = dict.fromkeys(
        ("daemon", "runs", "detectors", "channels", "routes", "paging", "maintenance"),
        "belongs in the daemon's own file, for `runwatch daemon`",
    )
    agent: AgentSection = Field(default_factory=AgentSection)
    clock_scale: float = Field(default=1.0, gt=0)
    clock_epoch: float | None = None
