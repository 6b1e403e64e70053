"""What is said of nodes and their GPUs, case by case, and what stays quiet beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from detectors.registry import load_plugins
from detectors.telemetry import HostReading, SourceHealth, XidEvent
from detectors.verdict import Clear, Finding, Firing, Unknown
from tests.support.frames import NOW, frame, gpu, node

PLUGINS = load_plugins()
STANDS = {"last_progress_at": NOW - 3600, "last_step_at": NOW - 3600}


def judge(name: str, seen, **settings):
    plugin = PLUGINS[name]
    return plugin.build(plugin.config(**settings)).check(seen)


def found(name: str, seen, **settings) -> list[Finding]:
    verdict = judge(name, seen, **settings)
    assert not isinstance(verdict, Unknown), verdict.reason
    return list(verdict.findings) if isinstance(verdict, Firing) else []


def xid(code: int, ago: float = 60.0, name: str = "n1", index: int = 0, **more) -> XidEvent:
    return XidEvent(at=NOW - ago, code=code, gpu_uuid=f"GPU-{name}-{index}", **more)


def nvml(kind: str, name: str = "n1", **more):
    return node(name, gpus=(), gpus_fresh=False, health={"nvml": SourceHealth(ok=False, kind=kind, error=kind)}, **more)


NODES = [
    (
        "a driver that hangs is a warning while the run moves",
        "nvml_unresponsive",
        frame(nvml("stuck"), node("n2")),
        [("n1", "warning")],
    ),
    (
        "a driver that hangs while the run stands still is a page",
        "nvml_unresponsive",
        frame(nvml("stuck"), node("n2"), progress=STANDS),
        [("n1", "critical")],
    ),
    (
        "a reader that dies in the driver's library is the same",
        "nvml_unresponsive",
        frame(nvml("crashed"), node("n2")),
        [("n1", "warning")],
    ),
    (
        "a driver that differs from its library is blindness, not a dead GPU",
        "monitoring_blind",
        frame(nvml("driver_mismatch"), node("n2")),
        [("n1", "warning")],
    ),
    ("nor is it a lost one", "gpu_lost", frame(nvml("driver_mismatch"), node("n2")), []),
    ("nor a driver that hangs", "nvml_unresponsive", frame(nvml("driver_mismatch"), node("n2")), []),
    ("a driver that hangs is told once", "monitoring_blind", frame(nvml("stuck"), node("n2")), []),
    ("GPUs let go on request are no blindness", "monitoring_blind", frame(nvml("released"), node("n2")), []),
    (
        "a user without rights sees nothing, and that is said",
        "monitoring_blind",
        frame(nvml("no_permission"), node("n2")),
        [("n1", "warning")],
    ),
    (
        "MIG has no power to go by, and that is said",
        "monitoring_blind",
        frame(node("n1", gpus=(gpu(mig=True),)), node("n2")),
        [("n1", "warning")],
    ),
    (
        "the same on all nodes is one finding about the run",
        "monitoring_blind",
        frame(*(nvml("no_permission", f"n{i}") for i in range(8))),
        [(None, "warning")],
    ),
    (
        "no agent that ever answered is one finding",
        "monitoring_blind",
        frame(*(node(f"n{i}", gpus=(), answered_at=None, reachable=False, failures_running=5) for i in range(4))),
        [(None, "warning")],
    ),
    (
        "a clock six seconds ahead is told",
        "clock_skew",
        frame(node("n1", skew_seconds=6.0), node("n2")),
        [("n1", "warning")],
    ),
    ("so is one behind", "clock_skew", frame(node("n1", skew_seconds=-6.0), node("n2")), [("n1", "warning")]),
    ("four seconds are not", "clock_skew", frame(node("n1", skew_seconds=4.0), node("n2")), []),
    (
        "all nodes off at once is the daemon's own clock",
        "clock_skew",
        frame(*(node(f"n{i}", skew_seconds=-90.0) for i in range(6))),
        [(None, "warning")],
    ),
    (
        "what a node said before it fell silent says nothing now",
        "clock_skew",
        frame(node("n1", skew_seconds=60.0, failures_running=2), node("n2")),
        [],
    ),
    (
        "a row that waits for a reset is a note",
        "row_remap_pending",
        frame(node("n1", gpus=(gpu(remap_pending=True),)), node("n2")),
        [("n1", "info")],
    ),
    (
        "a row that could not be remapped is a page",
        "row_remap_failed",
        frame(node("n1", gpus=(gpu(remap_failed=True),)), node("n2")),
        [("n1", "critical")],
    ),
    (
        "and not a note besides",
        "row_remap_pending",
        frame(node("n1", gpus=(gpu(remap_failed=True, remap_pending=True),)), node("n2")),
        [],
    ),
    ("cards without remapping say nothing", "row_remap_failed", frame(), []),
    (
        "a new uncorrectable error is a warning",
        "ecc_uncorrectable",
        frame(node("n1", gpus=(gpu(ecc_volatile_uncorrected_count=3),), ecc_baseline={"GPU-n1-0": 2}), node("n2")),
        [("n1", "warning")],
    ),
    (
        "with a failed remap it is a page",
        "ecc_uncorrectable",
        frame(
            node("n1", gpus=(gpu(ecc_volatile_uncorrected_count=3, remap_failed=True),), ecc_baseline={"GPU-n1-0": 2}),
            node("n2"),
        ),
        [("n1", "critical")],
    ),
    (
        "errors from before we came, and old sums, are history",
        "ecc_uncorrectable",
        frame(
            node(
                "n1",
                gpus=(gpu(ecc_volatile_uncorrected_count=7, ecc_aggregate_uncorrected_count=90),),
                ecc_baseline={"GPU-n1-0": 7},
            ),
            node("n2"),
        ),
        [],
    ),
    (
        "a node silent for three polls is a warning while the run moves",
        "node_unreachable",
        frame(node("n1", failures_running=3, reachable=False), node("n2")),
        [("n1", "warning")],
    ),
    (
        "and a page when the run stands still",
        "node_unreachable",
        frame(node("n1", failures_running=3, reachable=False), node("n2"), progress=STANDS),
        [("n1", "critical")],
    ),
    ("two polls are not enough", "node_unreachable", frame(node("n1", failures_running=2), node("n2")), []),
    (
        "many at once are one finding about the network",
        "node_unreachable",
        frame(*(node(f"n{i}", failures_running=4) for i in range(5))),
        [(None, "warning")],
    ),
    (
        "heat that throttles is told",
        "gpu_throttled",
        frame(node("n1", throttled={"GPU-n1-0": {"hw_thermal": 0.6}}), node("n2")),
        [("n1", "warning")],
    ),
    (
        "the power cap is how cards work",
        "gpu_throttled",
        frame(node("n1", throttled={"GPU-n1-0": {"sw_power_cap": 1.0}}), node("n2")),
        [],
    ),
    (
        "one hot reading is no finding",
        "gpu_throttled",
        frame(node("n1", gpus=(gpu(throttle_ratios={"hw_thermal": 1.0}),)), node("n2")),
        [],
    ),
    (
        "a port that went down is told",
        "link_fault",
        frame(node("n1", host=HostReading(links_down=("mlx5_0/1",))), node("n2")),
        [("n1", "warning")],
    ),
    (
        "a PCIe link narrower than it can is told under load",
        "link_fault",
        frame(node("n1", gpus=(gpu(utilization_ratio=1.0, pcie_width=8, pcie_width_max=16),)), node("n2")),
        [("n1", "warning")],
    ),
    (
        "and not while idle, where links save power",
        "link_fault",
        frame(node("n1", gpus=(gpu(utilization_ratio=0.0, pcie_width=1, pcie_width_max=16),)), node("n2")),
        [],
    ),
    (
        "a GPU that is not well in its fabric is told",
        "link_fault",
        frame(node("n1", gpus=(gpu(fabric_state="failed"),)), node("n2", gpus=(gpu("n2", fabric_state="completed"),))),
        [("n1", "warning")],
    ),
    (
        "and not in the minutes after a boot, when it joins",
        "link_fault",
        frame(node("n1", gpus=(gpu(fabric_state="in_progress"),), host=HostReading(uptime_seconds=120)), node("n2")),
        [],
    ),
    (
        "shared memory that is full kills loaders",
        "host_memory",
        frame(node("n1", host=HostReading(shm_used_bytes=98, shm_total_bytes=100)), node("n2")),
        [("n1", "warning")],
    ),
    ("a program's fault annotates the run", "xid", frame(node("n1", xids=(xid(31),)), node("n2")), [(None, "info")]),
    (
        "again on the same GPU an hour later it is the hardware",
        "xid",
        frame(node("n1", xids=(xid(31, 3600), xid(31))), node("n2")),
        [("n1", "warning")],
    ),
    (
        "told twice within a minute it is one event",
        "xid",
        frame(node("n1", xids=(xid(31, 90), xid(31))), node("n2")),
        [(None, "info")],
    ),
    (
        "firmware that does not answer is a page",
        "xid",
        frame(node("n1", xids=(xid(119),)), node("n2")),
        [("n1", "critical")],
    ),
    (
        "a code that nobody knows is a warning",
        "xid",
        frame(node("n1", xids=(xid(999),)), node("n2")),
        [("n1", "warning")],
    ),
    ("one of yesterday is over", "xid", frame(node("n1", xids=(xid(119, 80_000),)), node("n2")), []),
    (
        "a GPU off the bus is told as lost, by its readings",
        "xid",
        frame(node("n1", gpus=(gpu(state="lost"),), xids=(xid(79, 90),)), node("n2")),
        [],
    ),
    (
        "many GPUs at once are software",
        "xid",
        frame(*(node(f"n{i}", xids=(xid(13, 60 + i, f"n{i}"),)) for i in range(4))),
        [(None, "warning")],
    ),
    (
        "even with a hardware code",
        "xid",
        frame(*(node(f"n{i}", xids=(xid(74, 60 + i, f"n{i}"),)) for i in range(4))),
        [(None, "warning")],
    ),
    (
        "several codes of one GPU are one finding, the worst first",
        "xid",
        frame(node("n1", xids=(xid(63), xid(48), xid(95))), node("n2")),
        [("n1", "critical")],
    ),
]


@pytest.mark.parametrize(("name", "seen", "wanted"), [row[1:] for row in NODES], ids=[row[0] for row in NODES])
def test_nodes(name, seen, wanted):
    assert [(f.subject.node, f.severity.label) for f in found(name, seen)] == wanted
    keys = [f.key for f in found(name, seen)]
    assert len(set(keys)) == len(keys)


NODE_DETECTORS = [
    "clock_skew",
    "ecc_rate",
    "ecc_uncorrectable",
    "gpu_lost",
    "gpu_throttled",
    "host_memory",
    "link_fault",
    "monitoring_blind",
    "nvml_unresponsive",
    "row_remap_failed",
    "row_remap_pending",
    "xid",
]


@pytest.mark.parametrize("name", NODE_DETECTORS)
def test_a_node_that_was_never_asked_is_neither_well_nor_ill(name):
    unseen = node("n1", (), reachable=None, answered_at=None, gpus_fresh=False, skew_seconds=None, health={})
    verdict = judge(name, frame(unseen, node("n2", host=HostReading())))
    assert isinstance(verdict, Clear)
    assert "n1" in verdict.unknown_nodes


@pytest.mark.parametrize("name", PLUGINS)
def test_no_detector_fails_where_nothing_is_known(name):
    judge(name, frame(node("n1", (), reachable=None, answered_at=None, gpus_fresh=False, skew_seconds=None, health={})))
    judge(name, replace(frame(), nodes=(), history=frame().history))


def test_your_own_table_of_xids_wins():
    seen = frame(node("n1", xids=(xid(119),)), node("n2"))
    assert found("xid", seen, codes={119: "ignore"}) == []
    assert found("xid", seen, codes={119: "info"})[0].severity.label == "info"


def test_an_xid_of_ecc_points_to_the_incident_that_says_it_already():
    (one,) = found("xid", frame(node("n1", xids=(xid(48),)), node("n2")))
    assert one.explained_by == ("n1/ecc_uncorrectable/GPU-n1-0",)


def test_an_xid_without_a_uuid_is_told_by_its_pci_address():
    event = XidEvent(at=NOW - 5, code=62, pci_bus_id="0000:3b:00.0")
    (one,) = found("xid", frame(node("n1", xids=(event,)), node("n2")))
    assert "0000:3b:00.0" in one.summary


@pytest.mark.parametrize("fresh", [True, False])
def test_a_gpu_off_the_bus_is_lost_by_the_kernel_log_alone_where_the_driver_answers_nothing(fresh):
    hung = node("n1", (), gpus_fresh=fresh, inventory={"GPU-n1-0": 0}, xids=(xid(79),))
    (one,) = found("gpu_lost", frame(hung, node("n2")))
    assert one.key == "n1/gpu_lost/GPU-n1-0"
    assert "XID 79" in one.summary
    assert found("xid", frame(hung, node("n2"))) == []


def test_a_gpu_that_came_back_after_it_fell_off_the_bus_is_still_told_of():
    back = node("n1", xids=(xid(79, 300),))
    assert found("gpu_lost", frame(back, node("n2"))) == []
    assert [f.severity.label for f in found("xid", frame(back, node("n2")))] == ["critical"]
