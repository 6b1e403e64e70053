"""A network port is down or flaps, or a link of a GPU is narrower or less sound than it should be: the run waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from detectors._links import LinkLimits, link_troubles
from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.telemetry import NodeView
from detectors.verdict import Finding, Severity, Subject, Verdict, firing

HINT = "ibstat, ip -s link and nvidia-smi nvlink -e on the node; reseat or exchange the cable or the card."


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFaultConfig(LinkLimits):
    """From when on a link is said to be faulty."""


@dataclass(frozen=True, slots=True)
class LinkFault:
    config: LinkFaultConfig

    def check(self, frame: Frame) -> Verdict:
        blind = {n.name for n in frame.nodes if n.reachable is not True or (n.host is None and not n.gpus_fresh)}
        return firing((f for node in frame.nodes if node.name not in blind for f in self._judge(frame, node)), blind)

    def _judge(self, frame: Frame, node: NodeView) -> Iterator[Finding]:
        troubles = list(link_troubles(frame, node, self.config))
        if troubles:
            yield Finding(
                signature="link_fault",
                subject=Subject(run=frame.run, node=node.name),
                severity=Severity.WARNING,
                summary=f"Links of {node.name}: {', '.join(troubles[:6])}",
                evidence={"node": node.name, "troubles": troubles[:20]},
                hint=HINT,
            )


PLUGIN = Plugin("link_fault", LinkFaultConfig, LinkFault)
