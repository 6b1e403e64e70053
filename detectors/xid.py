"""The driver reported XID errors: by code the machine's fault or the program's; by pattern, one GPU or all at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from detectors._xid_codes import xid_code
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.telemetry import NodeView, XidEvent
from detectors.verdict import Finding, Severity, Subject, Verdict, firing

FALLEN = 79
FALLEN_GRACE_SECONDS = 60.0  # until then the readings show that the GPU is lost, and gpu_lost says it
Level = Literal["ignore", "info", "warning", "critical"]


@dataclass(frozen=True, slots=True, kw_only=True)
class XidConfig:
    """`shown_seconds`: how long one stays a finding. The same application code on one GPU again after
    `apart_seconds`, within `again_seconds`, is hardware. The same code on `many_gpus` and `many_ratio` of them within
    `together_seconds` is software. `codes`: your own severity (or `ignore`) by code."""

    shown_seconds: float = 1800.0
    apart_seconds: float = 300.0
    again_seconds: float = 86_400.0
    many_gpus: int = 3
    many_ratio: float = 0.25
    together_seconds: float = 60.0
    codes: Mapping[int, Level] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seen:
    """One XID; `place`: the UUID, else the PCI address, else empty."""

    node: NodeView
    event: XidEvent

    @property
    def place(self) -> str:
        return self.event.gpu_uuid or self.event.pci_bus_id or ""


@dataclass(frozen=True, slots=True)
class Xid:
    config: XidConfig

    def check(self, frame: Frame) -> Verdict:
        silent = [node.name for node in frame.nodes if node.reachable is not True]
        known = [seen for seen in self._events(frame) if frame.now - seen.event.at <= self.config.again_seconds]
        recent = [seen for seen in known if frame.now - seen.event.at <= self.config.shown_seconds]
        if not recent:
            return firing([], silent)
        shared = self._together(frame, recent)
        alone = [seen for seen in recent if seen.event.code not in shared]
        hardware, programs = self._split(alone, known)
        findings = [self._of_gpu(frame, events) for events in _by_gpu(hardware)]
        of_run = [*programs, *(seen for seen in recent if seen.event.code in shared)]
        if of_run:
            findings.append(self._of_run(frame, of_run, shared))
        return firing(findings, silent)

    def _events(self, frame: Frame) -> Iterator[Seen]:
        for node in frame.nodes:
            for event in node.xids:
                if self.config.codes.get(event.code) == "ignore":
                    continue
                if event.code == FALLEN and not _reads_well(node, event, frame.now):
                    continue
                yield Seen(node, event)

    def _together(self, frame: Frame, recent: Sequence[Seen]) -> set[int]:
        """Codes that many GPUs had at once."""
        many = max(self.config.many_gpus, self.config.many_ratio * len(frame.gpus))
        by_code: dict[int, list[Seen]] = defaultdict(list)
        for seen in sorted(recent, key=lambda item: item.event.at):
            by_code[seen.event.code].append(seen)
        return {code for code, events in by_code.items() if self._most_at_once(events) >= many}

    def _most_at_once(self, events: Sequence[Seen]) -> int:
        """GPUs within the window, at most; `events` in order of time."""
        most, first = 0, 0
        for last, seen in enumerate(events):
            while seen.event.at - events[first].event.at > self.config.together_seconds:
                first += 1
            most = max(most, len({(s.node.name, s.place) for s in events[first : last + 1]}))
        return most

    def _split(self, recent: Iterable[Seen], known: Sequence[Seen]) -> tuple[list[Seen], list[Seen]]:
        """Hardware and programs; an application code is hardware when the same GPU had one before."""
        hardware, programs = [], []
        for seen in recent:
            if xid_code(seen.event.code).whose == "hardware" or self._had_before(seen, known):
                hardware.append(seen)
            else:
                programs.append(seen)
        return hardware, programs

    def _had_before(self, seen: Seen, known: Sequence[Seen]) -> bool:
        return bool(seen.place) and any(
            other.node.name == seen.node.name
            and other.place == seen.place
            and seen.event.at - other.event.at > self.config.apart_seconds
            for other in known
        )

    def _severity(self, seen: Seen) -> Severity:
        own = self.config.codes.get(seen.event.code)
        if own is not None and own != "ignore":
            return Severity.parse(own)
        code = xid_code(seen.event.code)
        return max(code.severity, Severity.WARNING) if code.whose == "application" else code.severity

    def _of_gpu(self, frame: Frame, events: Sequence[Seen]) -> Finding:
        """All of one GPU are one finding, the worst one first."""
        worst = max(events, key=lambda seen: (self._severity(seen), seen.event.at))
        code, node = xid_code(worst.event.code), worst.node
        uuid = worst.event.gpu_uuid
        index = node.inventory.get(uuid) if uuid is not None else None
        where = f"{node.name} gpu {index}" if index is not None else f"{node.name} {worst.place}".strip()
        again = ", again on the same GPU: hardware" if code.whose == "application" else ""
        gpu = next((g for g in node.gpus if g.uuid == uuid), None)
        said = (f"{node.name}/{code.said_by}/{uuid}",) if code.said_by and uuid is not None else ()
        return Finding(
            signature="xid",
            subject=Subject(run=frame.run, node=node.name, gpu=uuid, gpu_index=index),
            severity=self._severity(worst),
            summary=f"XID {worst.event.code} on {where}: {code.meaning}{again}",
            evidence={
                "node": node.name,
                "gpu_index": index,
                "gpu_uuid": uuid,
                "serial": gpu.serial if gpu is not None else None,
                "pci_bus_id": worst.event.pci_bus_id,
                "codes": sorted({seen.event.code for seen in events}),
                "events_count": len(events),
                "message": worst.event.message[:300],
            },
            hint=code.advice,
            since_at=min(seen.event.at for seen in events),
            explained_by=said,
        )

    def _of_run(self, frame: Frame, events: Sequence[Seen], shared: set[int]) -> Finding:
        """Codes of the program, or of many GPUs at once: they annotate the run."""
        codes = sorted({seen.event.code for seen in events})
        gpus = {(seen.node.name, seen.place) for seen in events}
        told = ", ".join(f"{code} ({xid_code(code).meaning})" for code in codes[:3])
        why = "many at once: the program or what they share, not a GPU" if shared else "mostly the program's doing"
        return Finding(
            signature="xid",
            subject=Subject(run=frame.run),
            severity=Severity.WARNING if shared else Severity.INFO,
            summary=f"XID {told} on {len(gpus)} of {len(frame.gpus)} GPUs; {why}",
            evidence={
                "codes": codes,
                "gpus_count": len(gpus),
                "nodes": sorted({seen.node.name for seen in events})[:64],
                "message": events[-1].event.message[:300],
            },
            hint="Read the first error in the log of the run; XID 45 and 43 follow from a process that died.",
            since_at=min(seen.event.at for seen in events),
        )


def _reads_well(node: NodeView, event: XidEvent, now: float) -> bool:
    """It fell off the bus and is back; else gpu_lost says it."""
    return now - event.at > FALLEN_GRACE_SECONDS and any(
        gpu.uuid == event.gpu_uuid and gpu.state == "ok" for gpu in node.gpus
    )


def _by_gpu(events: Iterable[Seen]) -> list[list[Seen]]:
    """By what an incident is about: the GPU where its UUID is known, else the node."""
    groups: dict[tuple[str, str | None], list[Seen]] = defaultdict(list)
    for seen in events:
        groups[seen.node.name, seen.event.gpu_uuid].append(seen)
    return list(groups.values())


PLUGIN = Plugin("xid", XidConfig, Xid)
