"""Do the run's processes do nothing at all? The second signal where the GPUs' power tells nothing."""

from __future__ import annotations

from detectors.frame import Frame


def hosts_quiet(frame: Frame, seconds: float) -> bool:
    """On every node neither CPU time nor disk nor network for so long. False also where that is not known of one."""
    return bool(frame.nodes) and all(
        not node.failures_running and node.quiet_since_at is not None and frame.now - node.quiet_since_at >= seconds
        for node in frame.nodes
    )
