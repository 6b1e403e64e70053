"""The agent's file."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from watcher.config.listen import Listen, TlsSection
from watcher.config.logs import LogConfig


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _node() -> str:
    """In a container the host name is the pod's: there the environment names the node."""
    return os.environ.get("RUNWATCH_NODE", "").strip() or socket.gethostname()


class PushSection(Section):
    """For nodes that nobody can reach: the agent sends what it has to the daemon at `url`, https://HOST:PORT.

    `token_file`: the node's own token (`runwatch node-token`). `ca_file`: whom to trust, default: the system's CAs.
    """

    url: str = Field(pattern=r"^https?://[^/?#@\s]+/?$", max_length=300)
    token_file: Path
    ca_file: Path | None = None
    plain_http: bool = False
    timeout_seconds: float = Field(default=10.0, gt=0, le=60)

    @model_validator(mode="after")
    def _covered(self) -> PushSection:
        if self.url.startswith("http://") and not self.plain_http and not _is_loopback(self.url):
            raise ValueError("url would send the token in the clear: use https://, or plain_http: true")
        return self


def _named(values: dict[str, Any], node: str) -> dict[str, Any]:
    """`%N` in the name of a file is the node, as in the paths of logs: one config serves all nodes."""
    return {
        key: _named(value, node) if isinstance(value, dict)
        else value.replace("%N", node) if isinstance(value, str) and str(key).endswith("_file")
        else value
        for key, value in values.items()
    }  # fmt: skip


def _is_loopback(url: str) -> bool:
    host = url.partition("://")[2].rstrip("/")
    host = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return Listen(host.strip("[]"), 0).is_loopback


class AgentSection(Section):
    """`node`: the name the daemon knows this node by; default: $RUNWATCH_NODE, else the host name. `state_file`: where
    the positions in the logs are kept."""

    node: str = Field(default_factory=_node, min_length=1, max_length=255)
    listen: Listen = Listen("127.0.0.1", 9876)
    token_file: Path | None = None
    tls: TlsSection | None = None
    plain_http: bool = False  # the network is private: no TLS beyond loopback
    push: PushSection | None = None
    interval_seconds: float = Field(default=10.0, ge=1, le=300)
    gpu_deadline_seconds: float = Field(default=8.0, gt=0)  # one cycle waits no longer for the driver
    gpu_stuck_seconds: float = Field(default=45.0, gt=0)  # then its reader is replaced
    expected_gpus: int | None = Field(default=None, ge=0, le=64)
    logs: tuple[LogConfig, ...] = ()
    state_file: Path | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_this_node(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return _named(values, node if isinstance(node := values.get("node"), str) else _node())

    @property
    def patience_seconds(self) -> float:
        """How long no cycle may end before the process counts as stuck."""
        return 6 * self.interval_seconds + 30

    @model_validator(mode="after")
    def _token(self) -> AgentSection:
        self.listen.check(self.token_file, self.tls, self.plain_http)
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
