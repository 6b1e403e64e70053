"""Slurm's programs are child processes that may be absent, slow, noisy or of an older version."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests.support.real_server import eventually
from tests.watcher.fleet.test_slurm_jobs import of_22, row
from watcher.clock import FakeClock
from watcher.fleet._api import FleetError, Job
from watcher.fleet.slurm import SlurmMatch, SlurmSettings, SlurmSource, accepts


class Programs:
    """squeue, scontrol and sacct as scripts; `said` keeps how each was called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("squeue", "scontrol", "sacct"):
            self.script(name, "exit 99")
        self.settings = SlurmSettings(
            squeue=str(folder / "squeue"), scontrol=str(folder / "scontrol"), sacct=str(folder / "sacct"),
            timeout_seconds=10,
        )  # fmt: skip

    def script(self, name: str, text: str) -> None:
        file = self.folder / name
        file.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.folder}/said\n{text}\n')
        file.chmod(0o755)

    def answer(self, name: str, data: bytes) -> None:
        (self.folder / f"{name}.out").write_bytes(data)
        self.script(name, f"cat {self.folder}/{name}.out")

    @property
    def said(self) -> list[str]:
        return (self.folder / "said").read_text().splitlines()

    def source(self, **match: object) -> SlurmSource:
        return SlurmSource(self.settings, [SlurmMatch(**(match or {"job_name": "tr*"}))], FakeClock())  # type: ignore[arg-type]


@pytest.fixture
def programs(tmp_path):
    return Programs(tmp_path)


def ask(source: SlurmSource) -> list[Job]:
    return list(asyncio.run(source.jobs()))


def test_one_question_tells_all_jobs_and_only_wanted_ones_are_kept(programs):
    others = json.loads(of_22(name="other", job_id=9, array_job_id=0))["jobs"]
    programs.answer("squeue", json.dumps({"jobs": json.loads(of_22())["jobs"] + others}).encode())
    assert [job.id for job in ask(programs.source())] == ["1_1"]
    assert programs.said == ["squeue --json --states=all"]


def test_a_slurm_without_json_is_asked_through_scontrol_from_then_on(programs):
    programs.script("squeue", "echo \"squeue: unrecognized option '--json'\" >&2; exit 1")
    programs.answer("scontrol", row())
    source = programs.source()
    assert [job.id for job in ask(source)] == ["1_1"]
    assert [job.id for job in ask(source)] == ["1_1"]
    assert [line.split()[0] for line in programs.said] == ["squeue", "scontrol", "scontrol"]


def test_a_controller_that_does_not_answer_is_an_error_and_never_no_jobs(programs):
    programs.script("squeue", 'echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1')
    with pytest.raises(FleetError, match=r"squeue failed with exit code 1: .*Unable to contact"):
        ask(programs.source())


def test_a_program_that_hangs_is_ended_with_all_it_started(programs):
    programs.script("squeue", f"sleep 300 & echo $! > {programs.folder}/pid; sleep 300")
    programs.settings = programs.settings.model_copy(update={"timeout_seconds": 1})
    with pytest.raises(FleetError, match="squeue has not answered within 1 s"):
        ask(programs.source())
    state = Path(f"/proc/{int((programs.folder / 'pid').read_text())}/stat")

    def is_gone() -> bool:
        try:
            return state.read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    eventually(is_gone, 10, "the program's own child is ended")


def test_a_program_that_is_not_there_is_named(programs):
    (programs.folder / "squeue").unlink()
    with pytest.raises(FleetError, match="squeue cannot be run: No such file or directory; set its path under fleet:"):
        ask(programs.source())


def test_more_than_can_be_read_falls_back_to_the_shorter_form(programs, monkeypatch):
    monkeypatch.setattr("watcher.fleet.slurm.MAX_BYTES", 1 << 20)
    programs.script("squeue", "head -c 3000000 /dev/zero")
    programs.answer("scontrol", row())
    assert [job.id for job in ask(programs.source())] == ["1_1"]


def test_a_job_that_is_no_longer_listed_is_looked_up_once(programs):
    programs.answer("squeue", of_22())
    source = programs.source()
    ask(source)
    programs.answer("squeue", b'{"jobs": []}')
    programs.answer("sacct", b"1_1|NODE_FAIL|1000|2000|0:0|n[01-02]\n")
    (job,) = ask(source)
    assert (job.id, job.state, job.ended_at) == ("1_1", "node_fail", 2000)
    assert ask(source) == []
    assert sum(line.startswith("sacct") for line in programs.said) == 1


def test_without_accounting_a_job_that_is_gone_is_only_gone(programs):
    programs.answer("squeue", of_22())
    source = programs.source()
    ask(source)
    programs.answer("squeue", b'{"jobs": []}')
    programs.script("sacct", 'echo "Slurm accounting storage is disabled" >&2; exit 1')
    (job,) = ask(source)
    assert (job.state, job.reason) == ("gone", "no longer listed by squeue")


def test_the_callers_own_settings_of_squeue_do_not_bend_the_answer(programs, monkeypatch):
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    monkeypatch.setenv("SLURM_CONF", "/etc/other.conf")
    programs.script("squeue", f"env > {programs.folder}/env; echo '{{\"jobs\": []}}'")
    settings = programs.settings.model_copy(update={"slurm_conf": Path("/x/slurm.conf"), "cluster": "big"})
    asyncio.run(SlurmSource(settings, [SlurmMatch(user="a")], FakeClock()).jobs())
    env = (programs.folder / "env").read_text()
    assert "SQUEUE_FORMAT" not in env
    assert "SLURM_CONF=/x/slurm.conf" in env
    assert programs.said == ["squeue --clusters=big --json --states=all"]
    assert os.environ["SQUEUE_FORMAT"] == "%i"


@pytest.mark.parametrize(
    ("match", "taken"),
    [
        ({"job_name": "tr*"}, True), ({"job_name": "tr"}, False), ({"job_id": 1}, True), ({"job_id": 4}, True),
        ({"job_id": 14}, False), ({"user": "lu*", "partition": "gpu"}, True),
        ({"user": "lu*", "partition": "cpu"}, False),
    ],
)  # fmt: skip
def test_a_run_takes_what_its_rule_says(match, taken):
    labels = {"user": "lucile", "partition": "short,gpu", "array_job_id": "1"}
    job = Job(id="1_2", state="running", name="tr11", labels=labels, log_names={"%j": "4"})
    assert accepts(SlurmMatch(**match), job) is taken


def test_what_a_wrapper_has_left_behind_ends_with_its_deadline(programs):
    programs.settings = programs.settings.model_copy(update={"timeout_seconds": 1})
    programs.script("squeue", f"sleep 600 &\necho $! > {programs.folder}/pid\nexit 0")
    with pytest.raises(FleetError, match="not answered"):
        ask(programs.source())
    pid = int((programs.folder / "pid").read_text())

    def over() -> bool:
        try:
            return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return True

    eventually(over, 10, "what it had started is gone")
