"""A network port is down or flaps, or a PCIe link runs narrower than it can: the run waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from detectors.frame import Frame
from detectors.registry import Plugin
from detectors.telemetry import NodeView
from detectors.verdict import Finding, Severity, Subject, Verdict, firing

HINT = "ibstat, ip -s link and nvidia-smi nvlink -s on the node; reseat or exchange the cable or the card."


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFaultConfig:
    """PCIe is judged on busy GPUs alone: an idle link saves power by running narrow. A port flaps when it went down
    `flaps` times within `flap_seconds`."""

    busy_ratio: float = 0.5
    flaps: int = 2
    flap_seconds: float = 1800.0


@dataclass(frozen=True, slots=True)
class LinkFault:
    config: LinkFaultConfig

    def check(self, frame: Frame) -> Verdict:
        blind = [n.name for n in frame.nodes if n.reachable is not True or (n.host is None and not n.gpus_fresh)]
        return firing((f for node in frame.nodes if node.name not in blind for f in self._judge(frame, node)), blind)

    def _judge(self, frame: Frame, node: NodeView) -> Iterator[Finding]:
        troubles = [f"{port} is down" for port in (node.host.links_down if node.host is not None else ())]
        for port, times in node.flaps_at.items():
            count = sum(frame.now - at <= self.config.flap_seconds for at in times)
            if count >= self.config.flaps:
                troubles.append(f"{port} went down {count} times")
        for gpu in node.gpus:
            busy = gpu.utilization_ratio is not None and gpu.utilization_ratio >= self.config.busy_ratio
            if busy and gpu.pcie_width and gpu.pcie_width_max and gpu.pcie_width < gpu.pcie_width_max:
                troubles.append(f"PCIe of gpu {gpu.index} is x{gpu.pcie_width} of x{gpu.pcie_width_max}")
            if gpu.nvlink_down_count:
                troubles.append(f"{gpu.nvlink_down_count} NVLinks of gpu {gpu.index} are down")
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
