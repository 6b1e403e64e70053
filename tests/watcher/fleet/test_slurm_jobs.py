"""What Slurm says of jobs, in the shapes of its versions, is one kind of job to us."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from watcher.fleet._api import FleetError, Job
from watcher.fleet._slurm_accounting import records
from watcher.fleet._slurm_jobs import jobs_from_json, jobs_from_rows


def of_22(**more: Any) -> bytes:
    """One job in the plain numbers and words of 22.05."""
    job = {
        "job_id": 4, "array_job_id": 1, "array_task_id": 1, "array_task_string": "", "name": "tr11",
        "user_name": "lucile", "partition": "gpu", "job_state": "RUNNING", "state_reason": "None",
        "restart_cnt": 0, "priority": 4294901759,
        "nodes": "n[01-02]", "gres_detail": ["gpu:8(IDX:0-7)", "gpu:a100:4(IDX:0-1,6-7)"], "batch_host": "n01",
        "submit_time": 900, "start_time": 1000, "end_time": 73000, "exit_code": 0, "het_job_id": 0,
        "standard_output": "", "current_working_directory": "/home/lucile",
    }  # fmt: skip
    return json.dumps({"jobs": [job | more]}).encode()


def of_24(**more: Any) -> bytes:
    """The same job in the wrapped numbers and lists of 24.11."""

    def number(value: int | None) -> dict[str, Any]:
        return {"set": value is not None, "infinite": False, "number": value or 0}

    job = {
        "job_id": 4, "array_job_id": number(1), "array_task_id": number(1), "array_task_string": "", "name": "tr11",
        "user_name": "lucile", "partition": "gpu", "job_state": ["RUNNING"], "state_reason": "None", "restart_cnt": 0,
        "priority": number(1), "hold": False, "nodes": "n[01-02]", "failed_node": "",
        "gres_detail": ["gpu:8(IDX:0-7)", "gpu:a100:4(IDX:0-1,6-7)"], "batch_host": "n01", "submit_time": number(900),
        "start_time": number(1000), "end_time": number(73000), "het_job_id": number(0),
        "exit_code": {"status": ["SUCCESS"], "return_code": number(0), "signal": {"id": number(None), "name": ""}},
        "standard_output": "/home/lucile/slurm-1_1.out", "current_working_directory": "/home/lucile",
    }  # fmt: skip
    return json.dumps({"jobs": [job | more]}).encode()


ROW = (
    "JobId=4 ArrayJobId=1 ArrayTaskId=1 ArrayTaskThrottle=1 JobName=tr11 UserId=lucile(1000) GroupId=x(1) "
    "MCS_label=N/A Priority=4294901759 Nice=0 JobState=RUNNING Reason=None Dependency=(null) Requeue=1 Restarts=0 "
    "BatchFlag=1 ExitCode=0:0 RunTime=00:01:00 TimeLimit=20:00:00 SubmitTime=900 EligibleTime=900 StartTime=1000 "
    "EndTime=73000 Partition=gpu ReqNodeList=(null) ExcNodeList=n09 NodeList=n[01-02] BatchHost=n01 NumNodes=2 "
    "  Nodes=n01 CPU_IDs=0 Mem=0 GRES=gpu:8(IDX:0-7)   Nodes=n02 CPU_IDs=0 Mem=0 GRES=gpu:a100:4(IDX:0-1,6-7) "
    "MinCPUsNode=1 Command=/x WorkDir=/home/lucile StdErr=/home/lucile/e StdIn=/dev/null "
    "StdOut=/home/lucile/slurm-1_1.out Power= TresPerNode=gres:gpu:8 "
)


def row(text: str = ROW) -> bytes:
    return f"{text}\n".encode()


def only(jobs: list[Job]) -> Job:
    (job,) = jobs
    return job


@pytest.mark.parametrize(
    "job", [only(jobs_from_json(of_22())), only(jobs_from_json(of_24())), only(jobs_from_rows(row()))],
    ids=["22.05", "24.11", "scontrol"],
)  # fmt: skip
def test_every_shape_tells_the_same_running_job(job):
    assert (job.id, job.state, job.name, job.restarts) == ("1_1", "running", "tr11", 0)
    assert [(p.node, p.gpu_minors) for p in job.places] == [("n01", tuple(range(8))), ("n02", (0, 1, 6, 7))]
    assert (job.submitted_at, job.started_at, job.ends_by_at, job.ended_at) == (900, 1000, 73000, None)
    assert job.labels["user"] == "lucile"
    assert job.labels["array_job_id"] == "1"
    assert job.log_names["%j"] == "4"
    assert not job.held


@pytest.mark.parametrize(
    ("words", "state"),
    [
        ("PENDING", "pending"), ("CONFIGURING", "pending"), ("COMPLETING", "running"), ("SUSPENDED", "running"),
        ("COMPLETED", "completed"), ("FAILED", "failed"), ("TIMEOUT", "timeout"), ("CANCELLED", "cancelled"),
        ("NODE_FAIL", "node_fail"), ("PREEMPTED", "preempted"), ("OUT_OF_MEMORY", "out_of_memory"),
        ("BOOT_FAIL", "node_fail"), ("DEADLINE", "timeout"), ("REQUEUED", "pending"), ("A_NEW_WORD", "running"),
    ],
)  # fmt: skip
def test_a_state_is_read_alone_and_in_a_list(words, state):
    assert only(jobs_from_json(of_22(job_state=words))).state == state
    assert only(jobs_from_json(of_24(job_state=[words]))).state == state


def test_flags_beside_the_base_state_do_not_hide_it():
    job = only(jobs_from_json(of_24(job_state=["FAILED", "COMPLETING"])))
    assert (job.state, job.releasing) == ("failed", True)
    assert only(jobs_from_json(of_24(job_state=["RUNNING", "CONFIGURING"]))).state == "pending"
    assert only(jobs_from_json(of_24(job_state=["PENDING", "REQUEUED"]))).state == "pending"


def test_a_job_that_waits_has_no_nodes_and_its_estimates_are_no_facts():
    job = only(jobs_from_json(of_22(job_state="PENDING", start_time=2000, end_time=6091071154, restart_cnt=1)))
    assert (job.places, job.started_at, job.ends_by_at, job.restarts) == ((), None, None, 1)


@pytest.mark.parametrize(
    "more",
    [
        {"priority": 0, "state_reason": "JobHeldUser"},
        {"state_reason": "launch_failed_requeued_held"},
        {"state_reason": "DependencyNeverSatisfied"},
        {"job_state": "REQUEUE_HOLD"},
    ],
)
def test_what_will_never_start_by_itself_is_held(more):
    assert only(jobs_from_json(of_22(**{"job_state": "PENDING", "nodes": "", "gres_detail": []} | more))).held


def test_what_ended_tells_when_and_with_which_code():
    job = only(jobs_from_json(of_22(job_state="FAILED", state_reason="NonZeroExitCode", exit_code=768)))
    assert (job.ended_at, job.reason) == (73000, "NonZeroExitCode, exit code 3:0")
    code = {"return_code": {"set": True, "number": 0}, "signal": {"id": {"set": True, "number": 9}}}
    job = only(jobs_from_json(of_24(job_state=["NODE_FAIL"], failed_node="n02", exit_code=code)))
    assert (job.failed_node, job.reason) == ("n02", "exit code 0:9")


def test_devices_that_are_not_named_are_unknown_and_not_none():
    for detail in ([], ["gpu:8", "gpu:8"], ["gpu:8(IDX:0-9999999)", "x"], None):
        assert [p.gpu_minors for p in only(jobs_from_json(of_22(gres_detail=detail))).places] == [None, None]


def test_waiting_tasks_of_an_array_are_one_job_of_it():
    job = only(
        jobs_from_json(of_22(job_id=1, array_task_id=None, array_task_string="2-3%1", job_state="PENDING", nodes=""))
    )
    assert (job.id, job.labels["array_job_id"]) == ("1_[2-3%1]", "1")


def test_where_a_job_writes_to_is_told_also_where_it_said_nothing():
    assert only(jobs_from_json(of_22())).log_path == "/home/lucile/slurm-%A_%a.out"
    plain = {"array_job_id": 0, "array_task_id": None}
    assert only(jobs_from_json(of_22(**plain))).log_path == "/home/lucile/slurm-%j.out"
    assert only(jobs_from_json(of_22(standard_output="out/%x.txt"))).log_path == "/home/lucile/out/%x.txt"
    assert only(jobs_from_json(of_22(standard_output="/dev/null"))).log_path is None
    assert only(jobs_from_rows(row())).log_path == "/home/lucile/slurm-1_1.out"


def test_a_name_made_to_look_like_other_fields_is_only_a_name():
    hostile = ROW.replace("JobName=tr11", "JobName=x JobState=FAILED EndTime=1 NodeList=evil")
    job = only(jobs_from_rows(row(hostile)))
    assert (job.state, job.ends_by_at) == ("running", 73000)
    assert [place.node for place in job.places] == ["n01", "n02"]


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"jobs": 3}', b'{"jobs": ', b"\xff", b"[" * 100_000])
def test_what_is_no_answer_is_an_error_and_never_no_jobs(data):
    with pytest.raises(FleetError):
        jobs_from_json(data)


@pytest.mark.parametrize(
    "more",
    [
        {"job_state": None}, {"job_state": []}, {"job_state": ["REVOKED"]}, {"job_id": None}, {"job_id": "x"},
    ],
)  # fmt: skip
def test_a_row_that_is_no_job_costs_only_itself(more):
    good = json.loads(of_22())["jobs"][0]
    bad = json.loads(of_22(**more))["jobs"][0]
    assert [job.id for job in jobs_from_json(json.dumps({"jobs": [bad, 7, None, good]}).encode())] == ["1_1"]


def test_strange_values_cost_only_their_field():
    job = only(jobs_from_json(of_22(nodes="n[1-", gres_detail=[1, None], start_time="?", name=None, exit_code=[])))
    assert (job.places, job.started_at, job.name) == ((), None, "")


def test_accounting_tells_how_each_launch_ended():
    text = (
        b"7|NODE_FAIL|1000|2000|0:0|n1\n7|CANCELLED by 1000|2100|2200|0:15|n2\n1_2|RUNNING|1|Unknown|0:0|n3\nbad row\n"
    )
    told = records(text)
    assert [(r.id, r.state, r.started_at, r.ended_at, r.exit_code) for r in told] == [
        ("7", "node_fail", 1000.0, 2000.0, "0:0"),
        ("7", "cancelled", 2100.0, 2200.0, "0:15"),
        ("1_2", "running", 1.0, None, "0:0"),
    ]


def test_a_controller_that_does_not_answer_is_no_empty_queue():
    silent = {"errors": [{"error": "Unspecified error", "source": "slurm_load_jobs"}], "jobs": []}
    with pytest.raises(FleetError, match="slurm_load_jobs"):
        jobs_from_json(json.dumps(silent).encode())
    assert jobs_from_json(b'{"errors": [], "jobs": []}') == []


def test_a_name_that_is_no_text_costs_no_other_job():
    odd = of_22(name="NAME").replace(b"NAME", b"tr11-\xff\xe9")
    half = of_22(name="NAME").replace(b"NAME", b"tr12-\\ud800")
    assert [job.name for job in jobs_from_json(odd)] == ["tr11-\ufffd\ufffd"]
    (job,) = jobs_from_json(half)
    assert job.name.encode() == b"tr12-?"


@pytest.mark.parametrize("number", ["1e999", "NaN", '"' + "9" * 5000 + '"'])
def test_a_number_that_is_none_is_not_known_and_costs_no_other_job(number):
    data = of_22(submit_time="SUBMITTED").replace(b'"SUBMITTED"', number.encode())
    assert [job.submitted_at for job in jobs_from_json(data)] == [None]


@pytest.mark.parametrize("between", ["\u2028", "\x0c", "\x85", "\n"])
def test_a_name_with_a_break_in_it_is_still_one_job(between):
    forged = f"JobName=tr11{between}JobId=1 JobName=forged UserId=root(0) JobState=RUNNING"
    jobs = jobs_from_rows(row(ROW.replace("JobName=tr11", forged)) + row(ROW.replace("tr11", "tr12")))
    assert [job.id for job in jobs] == ["1_1", "1_1"]


def test_thousands_of_jobs_are_read_in_little_time():
    one = json.loads(of_22(nodes="n[001-128]", gres_detail=["gpu:8(IDX:0-7)"] * 128))["jobs"][0]
    data = json.dumps({"jobs": [one | {"job_id": n, "array_job_id": 0} for n in range(1, 5001)]}).encode()
    began = time.process_time()
    assert len(jobs_from_json(data)) == 5000
    assert time.process_time() - began < 3.0
