"""Which independent signals speak for an incident: an action needs two, whatever one detector says. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from alerts._incident import Incident

COUNTERS, DRIVER_LOG, RUN, INVENTORY, CALLS, NETWORK, POWER, STEPS = (
    "error counters of the GPU", "the driver's log", "the run itself", "GPUs that NVML lists", "calls into the driver",
    "the node's answers", "board power", "the step counter",
)  # fmt: skip
OF_SIGNATURE = {
    "ecc_uncorrectable": (COUNTERS,), "ecc_rate": (COUNTERS,), "row_remap_failed": (COUNTERS,),
    "row_remap_pending": (COUNTERS,), "xid": (DRIVER_LOG,), "gpu_lost": (INVENTORY,), "nvml_unresponsive": (CALLS,),
    "node_unreachable": (NETWORK,), "crash": (RUN,), "crash_loop": (RUN,), "low_power_deadlock": (POWER, STEPS),
    "idle_stall": (POWER, STEPS), "busy_stall": (STEPS,), "startup_stall": (STEPS,),
}  # fmt: skip
OF_STRIKE = {"ecc_uncorrectable": COUNTERS, "remap_failed": COUNTERS, "xid": DRIVER_LOG, "crash_start": RUN, "ecc": RUN}
RECENT_SECONDS = 3600.0


def signals_of(incident: Incident, others: Iterable[Incident], now: float) -> tuple[str, ...]:
    """Named signals for it: its own, those of its strikes, and those of what is or was lately open on its node."""
    found = {*OF_SIGNATURE.get(incident.signature, ()), *_of_strikes(incident)}
    node = incident.subject.node
    for other in others:
        if node is None or other.shadow or other.key == incident.key:
            continue
        lately = other.state == "open" or (other.resolved_at is not None and now - other.resolved_at < RECENT_SECONDS)
        if lately and (other.subject.node == node or _points_at(other, node)):
            found.update(OF_SIGNATURE.get(other.signature, ()))  # others are drawn from the same ones, or are news
            found.update(_of_strikes(other))
    return tuple(sorted(found))


def _of_strikes(incident: Incident) -> set[str]:
    """`strikes` of `repeated_ecc`: texts that begin with the kind."""
    strikes = incident.evidence.get("strikes")
    kinds = [str(text).split(" ")[0] for text in strikes] if isinstance(strikes, list | tuple) else []
    return {OF_STRIKE[kind] for text in kinds if (kind := "xid" if text.startswith("xid") else text) in OF_STRIKE}


def _points_at(other: Incident, node: str) -> bool:
    """The run's incident says that this node differs."""
    odd = other.evidence.get("odd")
    return isinstance(odd, dict) and odd.get("node") == node
