"""The daemon's file. Each plug-in owns its own section; a part of the file is enough for `replay`."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator

from watcher.config.acting import Action
from watcher.config.alerting import (
    Channels,
    MaintenanceSection,
    PagingSection,
    RouteSection,
    alertmanager_of,
    check_labels,
    check_resends,
    fallbacks,
)
from watcher.config.detectors import detectors_model
from watcher.config.fleet import Fleet, FoundBy, check_name
from watcher.config.listen import Listen, TlsSection
from watcher.config.logs import LogConfig
from watcher.config.node_labels import NodeLabels
from watcher.config.telemetry import Progress, Telemetry
from watcher.fleet._hostlist import Nodes

if TYPE_CHECKING:
    Detectors = BaseModel
else:
    Detectors = detectors_model()


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class AgentsSection(Section):
    """How the agents are asked. `addresses`: NODE: HOST[:PORT] where the name alone does not lead there.

    `token_file`: one token for all; `master_file`: each node has one of its own (`runwatch node-token`).
    `tls`, `ca_file`: they are asked by https, trusting the system's CAs or those in the file.
    `push`: nodes (true: all) that send by themselves, because nobody can reach them; needs `master_file`.
    `ask`: false where no node has an agent and `telemetry` alone tells of GPUs; a hostlist where only those have one.
    """

    ask: StrictBool | Nodes = True
    push: StrictBool | Nodes = False
    port: int = Field(default=9876, ge=1, le=65_535)
    token_file: Path | None = None
    master_file: Path | None = None
    tls: bool = False
    ca_file: Path | None = None
    timeout_seconds: float = Field(default=5.0, gt=0, le=60)
    addresses: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _credentials(self) -> AgentsSection:
        if self.token_file is not None and self.master_file is not None:
            raise ValueError("give token_file or master_file, not both")
        if self.push and self.master_file is None:
            raise ValueError("push needs master_file: what a node sends must speak for that node only")
        return self

    @cached_property
    def _pushing(self) -> frozenset[str]:
        return frozenset(self.push) if not isinstance(self.push, bool) else frozenset()

    def pushes(self, node: str) -> bool:
        return self.push if isinstance(self.push, bool) else node in self._pushing

    def asks(self, node: str) -> bool:
        """A node that sends by itself is not asked as well."""
        return not self.pushes(node) and (self.ask if isinstance(self.ask, bool) else node in self.ask)


class DeadManSection(Section):
    """A URL that is asked after each full good cycle; its owner pages when it stays silent."""

    url: str | None = None
    url_file: Path | None = None
    interval_seconds: float = Field(default=60.0, ge=5)
    start_and_fail: bool = False  # the service knows URL/start and URL/fail, as healthchecks does
    alertmanager: str | None = None  # a channel of that kind: an alert is always there while all is well

    @model_validator(mode="after")
    def _one(self) -> DeadManSection:
        given = [value for value in (self.url, self.url_file) if value is not None]
        if len(given) > 1 or not (given or self.alertmanager):
            raise ValueError("give url or url_file, one of them, or alertmanager")
        return self


class RecordingSection(Section):
    """JSON lines of all that was seen, for `replay`; the oldest file goes when `keep_files` are full."""

    path: Path
    file_bytes: int = Field(default=256 << 20, ge=1 << 16)
    keep_files: int = Field(default=8, ge=1, le=1000)


class DaemonSection(Section):
    listen: Listen = Listen("127.0.0.1", 9877)
    token_file: Path | None = None
    tls: TlsSection | None = None
    plain_http: bool = False  # the network is private: no TLS beyond loopback
    database: Path = Path("/var/lib/runwatch/runwatch.db")
    interval_seconds: float = Field(default=10.0, ge=1, le=300)
    agents: AgentsSection = AgentsSection()
    telemetry: Telemetry = ()  # exporters, or an engine that has scraped them
    dead_man: DeadManSection | None = None
    recording: RecordingSection | None = None
    public_url: str = ""  # where a person reaches this daemon; links in pages begin with it

    @model_validator(mode="after")
    def _token(self) -> DaemonSection:
        self.listen.check(self.token_file, self.tls, self.plain_http)
        return self


class RunSection(Section):
    """nodes: those that it always has. match: who tells its jobs and their nodes instead; a `name` with placeholders
    then is as many runs as there are values."""

    name: str = Field(min_length=1, max_length=120, pattern=r"^[^/\s][^/\n]*$")
    nodes: Nodes = ()
    match: FoundBy | None = None
    logs: tuple[LogConfig, ...] = ()
    progress: Progress | None = None  # steps from metrics of the job
    logs_are_per_node: bool = False  # an error in a node's own log is tied to that node
    expected_gpus: int | None = Field(default=None, ge=1, le=64)  # on each node
    gpu_hour_price: float | None = Field(default=None, ge=0)
    currency: str = "USD"
    detectors: Detectors | None = None

    @model_validator(mode="after")
    def _one_source(self) -> RunSection:
        if self.match is not None and self.nodes:
            raise ValueError("give nodes or match: who tells the nodes of this run?")
        check_name(self.name, self.match)
        return self


class DaemonConfig(Section):
    """The whole file. `clock_scale` and `clock_epoch` are for tests alone: the process lives that many times faster."""

    ELSEWHERE: ClassVar[dict[str, str]] = {"agent": "belongs in the agent's own file, for `runwatch agent`"}
    daemon: DaemonSection = DaemonSection()
    runs: tuple[RunSection, ...] = ()
    fleet: Fleet = Fleet()
    detectors: Detectors | None = None
    channels: Channels = Field(default_factory=dict)
    routes: tuple[RouteSection, ...] = ()
    paging: PagingSection = PagingSection()
    maintenance: tuple[MaintenanceSection, ...] = ()
    node_labels: NodeLabels = Field(default_factory=dict)
    actions: Annotated[dict[str, Action], Field(max_length=20)] = Field(default_factory=dict)
    clock_scale: float = Field(default=1.0, gt=0)
    clock_epoch: float | None = None

    @model_validator(mode="after")
    def _names(self) -> DaemonConfig:
        names = [run.name for run in self.runs]
        if doubled := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two runs are called {doubled!r}")
        fallbacks(self.channels)
        check_labels(self)
        check_resends(self.channels, self.daemon.interval_seconds)
        if self.daemon.dead_man is not None:
            alertmanager_of(self.channels, self.daemon.dead_man.alertmanager)
        for number, route in enumerate(self.routes):
            if unknown := next((name for name in route.to if name not in self.channels), None):
                raise ValueError(f"routes[{number}].to: no channel is called {unknown!r}")
        return self
