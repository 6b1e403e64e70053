"""Two hardware strikes on one node within a week, over any number of jobs and attempts: take the node out."""

from __future__ import annotations

from dataclasses import dataclass

from detectors.frame import Frame, Strike
from detectors.registry import Plugin
from detectors.verdict import Finding, Severity, Subject, Verdict, firing


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedEccConfig:
    strikes: int = 2
    window_seconds: float = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class RepeatedEcc:
    config: RepeatedEccConfig

    def check(self, frame: Frame) -> Verdict:
        since = frame.now - self.config.window_seconds
        allocated = set(frame.attempt.nodes)
        by_node: dict[str, list[Strike]] = {}
        for strike in frame.strikes:
            if strike.counted and strike.at >= since and strike.node in allocated:
                by_node.setdefault(strike.node, []).append(strike)
        struck = [(n, s) for n, s in by_node.items() if len(s) >= self.config.strikes]
        return firing(self._finding(frame, node, strikes) for node, strikes in struck)

    def _finding(self, frame: Frame, node: str, strikes: list[Strike]) -> Finding:
        strikes = sorted(strikes, key=lambda strike: strike.at)
        gpus = sorted({s.gpu_uuid for s in strikes if s.gpu_uuid is not None})
        known = next((s for s in reversed(strikes) if s.gpu_uuid is not None), None)
        kinds = ", then ".join(dict.fromkeys(s.kind for s in strikes))
        return Finding(
            signature="repeated_ecc",
            subject=Subject(
                run=frame.run,
                node=node,
                gpu_index=known.gpu_index if known is not None and len(gpus) == 1 else None,
            ),
            severity=Severity.CRITICAL,
            summary=f"{node} was struck {len(strikes)} times ({kinds}): leave it out, --exclude={node}",
            evidence={
                "node": node,
                "strikes_count": len(strikes),
                "strikes": [f"{s.kind} {s.detail}".strip()[:200] for s in strikes[-5:]],
                "strike_at": [s.at for s in strikes[-5:]],
                "gpu_uuids": gpus[:3],
                "serial": known.serial if known is not None else None,
                "pci_bus_id": known.pci_bus_id if known is not None else None,
                "slurm_exclude": f"--exclude={node}",
                "kubernetes_cordon": f"kubectl cordon {node}",
            },
            hint=f"Restart without it: sbatch --exclude={node} ... or kubectl cordon {node}; then drain it for repair.",
        )


PLUGIN = Plugin("repeated_ecc", RepeatedEccConfig, RepeatedEcc)
