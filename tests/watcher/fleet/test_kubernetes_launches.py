"""What Kubernetes tells of pods and of what made them -> one launch of one run, and how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.frame import Scheduler
from tests.support.kube_objects import START, ended, pod, running, stamp, unscheduled, waiting, workload
from watcher.daemon.fold import RunFold, RunSettings
from watcher.events import LogEvent
from watcher.fleet._api import Job, Place
from watcher.fleet._group import Ended, sight_of
from watcher.fleet._kubernetes_launches import Launch, jobs_of
from watcher.fleet._kubernetes_pods import pod_of
from watcher.fleet._kubernetes_workloads import KINDS, Workload, workload_of

BY_LABEL = Workload(kind="pods", namespace="train", name="app=tr11")


class Seen:
    """One poll after another of one object."""

    def __init__(self, kind: str = "jobset") -> None:
        self.kind = next((one for one in KINDS if one.key == kind), None)
        self.launch: Launch | None = None
        self.jobs: list[Job] = []

    def poll(self, raw: dict[str, Any] | None, *pods: dict[str, Any]) -> Job:
        made = workload_of(self.kind, "train", raw) if self.kind is not None and raw is not None else BY_LABEL
        assert made is not None
        read = [one for each in pods if (one := pod_of(each)) is not None]
        self.jobs, self.launch = jobs_of(made, read, self.launch)
        return self.jobs[0]

    @property
    def told(self) -> tuple[Scheduler, Sequence[Ended]]:
        """As the daemon hears it."""
        sight = sight_of("run", "kubernetes", self.jobs)
        assert sight.scheduler is not None
        return sight.scheduler, sight.ended


def nodes(job: Job) -> list[str]:
    return [place.node for place in job.places]


def test_a_jobset_whose_pods_run_is_running_on_their_nodes():
    job = Seen().poll(workload("tr11"), pod("a", "n1"), pod("b", "n2"), pod("c", "n2"))
    assert (job.id, job.state, nodes(job), job.restarts) == ("train/tr11", "running", ["n1", "n2"], 0)
    assert job.started_at == START + 5


def test_restarts_of_a_sidecar_are_none_of_the_run():
    assert Seen().poll(workload("tr11"), pod("a")).restarts == 0


def test_pods_without_gpus_and_initializers_are_not_watched():
    step = "trainer.kubeflow.org/trainjob-ancestor-step"
    fetch = pod("fetch", "cpu1", gpus=0, labels={step: "dataset-initializer"})
    launcher = pod("launcher", "cpu2", gpus=0)
    job = Seen("trainjob").poll(workload("tr11"), fetch, launcher, pod("a", "n1", labels={step: "trainer"}))
    assert nodes(job) == ["n1"]
    job = Seen("trainjob").poll(workload("tr11"), fetch)
    assert (job.state, nodes(job)) == ("pending", [])


def test_without_any_gpu_request_all_pods_are_the_run():
    assert nodes(Seen().poll(workload("tr11"), pod("a", "n1", gpus=0))) == ["n1"]


def test_one_rank_that_restarts_is_a_new_launch_and_the_last_one_failed():
    seen = Seen()
    seen.poll(workload("tr11"), pod("a", "n1"), pod("b", "n2"))
    crashed = ended(START + 900, 137)
    seen.poll(workload("tr11"), pod("a", "n1"), pod("b", "n2", running(START + 910), restarts=1, last=crashed))
    scheduler, over = seen.told
    assert (scheduler.state, scheduler.restarts, scheduler.started_at) == ("running", 1, START + 910)
    assert [(one.state, one.restarts, one.at) for one in over] == [("failed", 0, START + 900)]
    assert over[0].text == "kubernetes: job train/tr11 failed (pod b on n2: exit code 137)"
    assert over[0].node is None  # a rank that exits is not yet a bad node


def test_ranks_that_restart_one_after_the_other_are_one_launch():
    seen = Seen()
    seen.poll(workload("tr11"), pod("a", "n1"), pod("b", "n2"), pod("c", "n3"))
    restarted = [
        pod(name, node, running(START + at), restarts=1, last=ended(START + at - 10))
        for name, node, at in (("a", "n1", 900), ("b", "n2", 960), ("c", "n3", 1050))
    ]
    counts = [
        seen.poll(workload("tr11"), restarted[0], pod("b", "n2"), pod("c", "n3")).restarts,
        seen.poll(workload("tr11"), restarted[0], restarted[1], pod("c", "n3")).restarts,
        seen.poll(workload("tr11"), *restarted).restarts,
    ]
    assert counts == [1, 1, 1]
    assert seen.told[0].started_at == START + 900


def test_another_rank_that_restarts_later_is_the_next_launch():
    seen = Seen()
    seen.poll(workload("tr11"), pod("a", "n1"), pod("b", "n2"))
    first = pod("a", "n1", running(START + 900), restarts=1, last=ended(START + 890))
    seen.poll(workload("tr11"), first, pod("b", "n2"))
    second = pod("b", "n2", running(START + 5000), restarts=1, last=ended(START + 4990))
    assert seen.poll(workload("tr11"), first, second).restarts == 2


def test_a_pod_that_is_slow_to_start_is_no_new_launch():
    seen = Seen()
    seen.poll(workload("tr11"), pod("a", "n1"), pod("b", "n2", waiting("ContainerCreating"), phase="Pending"))
    assert seen.told[0].reason == "1 of 2 pods run; b: ContainerCreating"
    assert seen.poll(workload("tr11"), pod("a", "n1"), pod("b", "n2", running(START + 1200))).restarts == 0


def test_a_pod_that_is_replaced_is_a_new_launch():
    seen = Seen()
    seen.poll(workload("tr11"), pod("a", "n1"), pod("b", "n2"))
    lost = pod("b", "n2", ended(START + 890), phase="Failed", status={"reason": "NodeLost"})
    assert seen.poll(workload("tr11"), pod("a", "n1"), lost).state == "running"
    assert seen.poll(workload("tr11"), pod("a", "n1"), lost, pod("b2", "n3", created=START + 900)).restarts == 1
    scheduler, over = seen.told
    assert scheduler.nodes == ("n1", "n3")
    assert [(one.state, one.node) for one in over] == [("node_fail", "n2")]


def test_a_jobset_that_made_all_its_pods_anew_failed_before_even_where_no_pod_tells_it():
    seen = Seen()
    seen.poll(workload("tr11"), pod("a", "n1"))
    seen.poll(workload("tr11", status={"restarts": 1}), pod("a", "n2", created=START + 900))
    scheduler, over = seen.told
    assert (scheduler.restarts, scheduler.nodes) == (1, ("n2",))
    assert [(one.state, one.restarts) for one in over] == [("failed", 0)]


def test_all_pods_that_crash_and_wait_are_a_launch_that_ended_while_the_next_waits():
    seen = Seen("pytorchjob")
    seen.poll(workload("tr11"), pod("a", "n1"))
    again = waiting("CrashLoopBackOff", "back-off 40s restarting failed container")
    seen.poll(workload("tr11"), pod("a", "n1", again, restarts=3, last=ended(START + 900, 139, "Error")))
    scheduler, over = seen.told
    assert (scheduler.state, scheduler.held) == ("pending", False)
    assert scheduler.reason == "a: CrashLoopBackOff: back-off 40s restarting failed container"
    assert [(one.state, one.restarts) for one in over] == [("failed", 0)]


def test_a_daemon_that_starts_late_counts_as_kubernetes_does():
    late = Seen()
    late.poll(workload("tr11"), pod("a", "n1", running(START + 910), restarts=2, last=ended(START + 900)))
    scheduler, over = late.told
    assert scheduler.restarts == 2
    assert [(one.state, one.restarts, one.at) for one in over] == [("failed", 1, START + 900)]


def test_what_waits_says_why_and_whether_a_person_must_act():
    job = Seen().poll(workload("tr11"), *(unscheduled(f"p{n}", "0/8 nodes are available") for n in range(5)))
    assert (job.state, job.held) == ("pending", False)
    assert job.reason == "p0, p1, p2 and 2 more: Unschedulable: 0/8 nodes are available"
    job = Seen().poll(workload("tr11"), pod("a", "n1", waiting("ImagePullBackOff", "no such image"), phase="Pending"))
    assert (job.state, job.held, job.reason) == ("pending", True, "a: ImagePullBackOff: no such image")


def test_a_suspended_job_waits_for_a_person_except_in_a_queue():
    spec = {"suspend": True}
    assert Seen().poll(workload("tr11", spec=spec)).held
    queued = {"labels": {"kueue.x-k8s.io/queue-name": "gpus"}}
    job = Seen().poll(workload("tr11", spec=spec, meta=queued))
    assert (job.state, job.held, job.reason) == ("pending", False, "suspended, waits in a queue")
    assert Seen("pytorchjob").poll(workload("tr11", spec={"runPolicy": spec})).held


@pytest.mark.parametrize(
    ("kind", "condition", "state"),
    [
        ("jobset", ("Completed", START + 900, "AllJobsCompleted"), "completed"),
        ("pytorchjob", ("Succeeded", START + 900, "PyTorchJobSucceeded"), "completed"),
        ("trainjob", ("Complete", START + 900, "JobsCompleted"), "completed"),
        ("jobset", ("Failed", START + 900, "FailedJobs"), "failed"),
        ("trainjob", ("Failed", START + 900, "DeadlineExceeded"), "timeout"),
    ],
)
def test_each_kind_ends_by_its_own_conditions(kind, condition, state):
    seen = Seen(kind)
    seen.poll(workload("tr11"), pod("a", "n1"))
    job = seen.poll(workload("tr11", condition))
    assert (job.state, job.ended_at, job.started_at) == (state, START + 900, START + 5)


@pytest.mark.parametrize(
    ("over", "state", "node", "said"),
    [
        ({"state": ended(START + 890, 137, "OOMKilled")}, "out_of_memory", "n2", "exit code 137 (OOMKilled)"),
        ({"state": ended(START + 890, 1)}, "failed", None, "exit code 1"),
        (
            {"status": {"reason": "Evicted", "message": "The node was low on resource: ephemeral-storage."}},
            "failed", None, "Evicted: The node was low on resource: ephemeral-storage.",
        ),
        (
            {"status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
                                        "message": "preempting to accommodate a higher priority pod"}]}},
            "preempted", None, "preempting to accommodate",
        ),
        (
            {"status": {"conditions": [{"type": "DisruptionTarget", "status": "True",
                                        "reason": "DeletionByTaintManager", "message": "not-ready"}]}},
            "node_fail", "n2", "DeletionByTaintManager: not-ready",
        ),
        (
            {"status": {"reason": "UnexpectedAdmissionError", "message": "no healthy devices present"}},
            "failed", None, "UnexpectedAdmissionError: no healthy devices present",
        ),
    ],
)  # fmt: skip
def test_a_failure_is_told_by_the_pod_that_failed_first(over, state, node, said):
    seen = Seen()
    seen.poll(workload("tr11"), pod("a", "n1"), pod("b", "n2"))
    first = pod("b", "n2", **({"state": ended(START + 890)} | over), phase="Failed")
    then = pod("a", "n1", ended(START + 899, 1), phase="Failed")
    job = seen.poll(workload("tr11", ("Failed", START + 900, "FailedJobs")), then, first)
    assert (job.state, job.failed_node) == (state, node)
    assert said in job.reason
    assert job.reason.startswith("pod b on n2: ")
    assert job.reason.endswith("; FailedJobs")


def test_an_object_that_is_deleted_was_cancelled():
    gone = {"deletionTimestamp": stamp(START + 900)}
    job = Seen().poll(workload("tr11", meta=gone), pod("a", "n1"))
    assert (job.state, job.ended_at, job.releasing, nodes(job)) == ("cancelled", START + 900, True, ["n1"])


def test_a_pod_that_a_dead_node_cannot_let_go_of_is_not_watched_any_more():
    seen = Seen()
    seen.poll(workload("tr11"), pod("a", "n1"), pod("b", "n2"))
    why = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "not-ready"}
    ghost = pod("b", "n2", deleted=START + 890, status={"conditions": [why]})
    seen.poll(workload("tr11"), pod("a", "n1"), ghost, pod("b2", "n3", created=START + 900))
    scheduler, over = seen.told
    assert (scheduler.nodes, scheduler.restarts) == (("n1", "n3"), 1)
    assert [(one.state, one.node, one.at) for one in over] == [("node_fail", "n2", START + 890)]


def test_workers_that_are_deleted_after_the_master_is_done_do_not_cancel_the_run():
    seen = Seen("pytorchjob")
    seen.poll(workload("tr11"), pod("master", "n1"), pod("worker", "n2"))
    done = pod("master", "n1", ended(START + 900, 0, "Completed"), phase="Succeeded")
    going = pod("worker", "n2", deleted=START + 905)
    seen.poll(workload("tr11"), done, going)
    assert seen.told[1] == ()
    seen.poll(workload("tr11", ("Succeeded", START + 906, "")), done)
    assert [(one.state, one.at) for one in seen.told[1]] == [("completed", START + 906)]


def test_pods_of_a_label_that_somebody_deletes_were_cancelled():
    seen = Seen("pods")
    seen.poll(None, pod("a", "n1"), pod("b", "n2"))
    job = seen.poll(None, *(pod(name, "n1", ended(START + 930, 137), deleted=START + 900) for name in "ab"))
    assert (job.state, job.ended_at, job.reason) == ("cancelled", START + 900, "pod a on n1: deleted")


def test_one_that_crashed_before_its_pods_were_deleted_has_failed():
    seen = Seen("pods")
    seen.poll(None, pod("a", "n1"), pod("b", "n2"))
    crashed = pod("a", "n1", ended(START + 890, 1), phase="Failed", deleted=START + 900)
    job = seen.poll(None, crashed, pod("b", "n2", deleted=START + 900))
    assert (job.state, job.reason) == ("failed", "pod a on n1: exit code 1")


def test_to_the_run_a_rank_that_restarts_is_a_crash_and_another_attempt():
    fold, seen = RunFold(RunSettings(name="tr11", follows=True)), Seen()

    def poll(at: float, *pods: dict[str, Any]) -> None:
        seen.poll(workload("tr11"), *pods)
        scheduler, over = seen.told
        fold.set_nodes([Place(node=node) for node in scheduler.nodes], scheduler.started_at)
        fold.observe_scheduler(at, scheduler, over)

    poll(START + 10, pod("a", "n1"), pod("b", "n2"))
    fold.observe_event(START + 60, LogEvent(event="step", step=1, total_steps=1000))
    poll(START + 915, pod("a", "n1", running(START + 910), restarts=1, last=ended(START + 900)), pod("b", "n2"))
    frame = fold.frame(START + 920)
    assert (frame.attempt.number, frame.past_attempts[-1].ends) == (2, "crashed")
    assert frame.past_attempts[-1].cause is not None
    assert "pod a on n1: exit code 1" in frame.past_attempts[-1].cause.message


def test_another_object_of_the_same_name_is_another_launch_without_the_old_ones_pods():
    seen = Seen()
    seen.poll(workload("tr11"), pod("a", "n1"))
    fresh = workload("tr11", uid="u2", created=START + 60)
    job = seen.poll(fresh, pod("a", "n1"), pod("a2", "n5", created=START + 61))
    assert (job.restarts, nodes(job)) == (1, ["n5"])


def test_the_end_of_its_time_is_known_where_the_object_tells_it():
    limited = {"runPolicy": {"activeDeadlineSeconds": 3600}}
    job = Seen("pytorchjob").poll(workload("tr11", spec=limited, status={"startTime": stamp(START)}), pod("a", "n1"))
    assert job.ends_by_at == START + 3600
    job = Seen("trainjob").poll(workload("tr11", spec={"activeDeadlineSeconds": 60}), pod("a", "n1"))
    assert job.ends_by_at == START + 60


def test_pods_by_label_are_one_run_as_long_as_any_is_there():
    seen = Seen("pods")
    job = seen.poll(None, pod("a", "n1"), pod("b", "n2"))
    assert (job.id, job.state, nodes(job)) == ("train/app=tr11", "running", ["n1", "n2"])
    done = ended(START + 900, 0, "Completed")
    job = seen.poll(None, pod("a", "n1", done, phase="Succeeded"), pod("b", "n2", done, phase="Succeeded"))
    assert (job.state, job.ended_at) == ("completed", START + 900)
    assert jobs_of(BY_LABEL, [], seen.launch)[0] == []


def test_a_failed_pod_of_an_earlier_launch_is_not_what_ended_this_one():
    seen = Seen("pods")
    old = pod("old", "n9", ended(START + 100, 1), phase="Failed")
    seen.poll(None, old, pod("a", "n1", created=START + 2000))
    job = seen.poll(
        None, old, pod("a", "n1", ended(START + 3000, 0, "Completed"), phase="Succeeded", created=START + 2000)
    )
    assert (job.state, job.reason) == ("completed", "")


@pytest.mark.parametrize("raw", [{}, {"metadata": None}, {"metadata": {"name": 7}}])
def test_what_has_no_name_is_no_pod(raw):
    assert pod_of(raw) is None


def test_nonsense_in_a_pod_costs_nothing_but_itself():
    raw = {
        "metadata": {"name": "a", "creationTimestamp": "yesterday", "labels": []}, "spec": {"containers": [None, 7]},
        "status": {"phase": [], "conditions": {},
                   "containerStatuses": [{"state": {"running": []}, "restartCount": "x"}]},
    }  # fmt: skip
    job = Seen().poll(workload("tr11"), raw)
    assert (job.state, nodes(job)) == ("pending", [])


ODD = st.sampled_from(
    [None, 0, -1, 10**400, 1.5, True, "", "x", "0001-01-01T00:00:00+14:00", [], [None], {}, {"a": None}]
)


def with_one_odd_value(value: Any, odd: Any, where: list[int]) -> Any:
    """The same JSON with `odd` at the place that `where` leads to."""
    if not where or not isinstance(value, dict | list) or not value:
        return odd
    keys = sorted(value) if isinstance(value, dict) else list(range(len(value)))
    chosen = keys[where[0] % len(keys)]
    copy = value.copy()
    copy[chosen] = with_one_odd_value(value[chosen], odd, where[1:])
    return copy


@settings(max_examples=500, deadline=None)
@given(
    odd=ODD, where=st.lists(st.integers(0, 9), min_size=1, max_size=8), shape=st.integers(0, 3), of_pod=st.booleans()
)
def test_nothing_that_a_server_may_send_breaks_the_poll(odd, where, shape, of_pod):
    why = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": ""}
    one = (
        pod("a", "n1", running(START + 910), restarts=1, last=ended(START + 900), labels={"x": "y"}),
        pod("a", "n1", waiting("CrashLoopBackOff"), restarts=1, last=ended(START + 900)),
        pod("a", "n1", ended(START + 900), deleted=START, phase="Failed", status={"conditions": [why]}),
        unscheduled("a", "no room"),
    )[shape]
    made = workload(
        "tr11", ("Failed", START, "why"), status={"restarts": 1, "replicatedJobsStatus": [{"jobRestarts": [1]}]}
    )
    if of_pod:
        one = with_one_odd_value(one, odd, where)
    else:
        made = with_one_odd_value(made, odd, where)
    for kind in KINDS:
        read = workload_of(kind, "train", made) if isinstance(made, dict) else None
        seen = pod_of(one) if isinstance(one, dict) else None
        jobs_of(read or BY_LABEL, [seen] if seen is not None else [], None)


def test_what_a_job_prints_as_its_last_word_is_one_short_line():
    end = ended(START + 890, 1)
    end["terminated"]["message"] = "a\n" * 5000
    job = Seen("pods").poll(None, pod("a", "n1", end, phase="Failed"))
    assert "\n" not in job.reason
    assert len(job.reason) < 300
