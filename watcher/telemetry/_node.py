"""One node's samples, look after look -> the snapshot that an agent would have sent. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from detectors.telemetry import SourceHealth
from watcher.snapshot import Snapshot
from watcher.telemetry._dialect import Dialect, read_gpus
from watcher.telemetry._samples import Sample
from watcher.telemetry._watch import FreezeWatch, XidWatch

MAX_INTERVAL_SECONDS = 300.0


class NoGpusError(Exception):
    """The node was looked at, and no GPU is in what came; one readable line."""


@dataclass(slots=True)
class NodeTelemetry:
    """What must be remembered of one node between two looks. `source`: the name of the plug-in."""

    node: str
    source: str
    dialect: Dialect
    power_limit_watts: float | None = None
    freeze: FreezeWatch = field(default_factory=FreezeWatch)
    xids: XidWatch = field(default_factory=XidWatch)

    def snapshot(
        self, now: float, samples: Sequence[Sample], taken_at: float | None = None, interval: float = 10.0
    ) -> Snapshot:
        """`taken_at`: when the samples were taken; `interval`: how far apart the source takes them, both in seconds.

        Raises NoGpusError.
        """
        read = read_gpus(self.dialect, samples, self.power_limit_watts)
        failed = self._failed(samples)
        if not read.gpus and failed is None:
            raise NoGpusError(f"{self.source} tells of no GPU of {self.node}: has it {self.dialect.anchor}?")
        pulse = next((s.value for s in samples if s.name == self.dialect.heartbeat), None)
        frozen = self.freeze.frozen_seconds(now, read.gpus, pulse)
        if failed is None and frozen is not None:
            failed = f"{self.source} has told the same values for {frozen:.0f} s: it or the driver hangs"
        age = max(0.0, now - taken_at) if taken_at is not None else 0.0
        gpus = self.freeze.without_frozen(now, read.gpus) if failed is None else ()
        health = SourceHealth(
            ok=failed is None, error=failed, kind="frozen" if failed else None, age_seconds=frozen if failed else age
        )
        return Snapshot.model_construct(
            node=self.node,
            stream=self.source,
            sent_at=now,
            interval_seconds=min(MAX_INTERVAL_SECONDS, max(1.0, interval)),
            gpus=gpus,
            gpus_age_seconds=age if failed is None else None,
            health={"nvml": health},
            events=self.xids.news(now, self.dialect, samples, [gpu.uuid for gpu in read.gpus]),
            rejected=read.rejected[:100],
        )

    def _failed(self, samples: Sequence[Sample]) -> str | None:
        if any(s.name == self.dialect.success and s.value == 0 for s in samples):
            return f"{self.source} could not read the GPUs in its last round"
        return None
