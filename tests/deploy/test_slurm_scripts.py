"""The Slurm scripts, with stand-ins for systemctl and runwatch: they never fail a job or hold it up."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

SLURM = Path(__file__).resolve().parents[2] / "deploy/slurm"
PATIENCE_SECONDS = 8.0  # a prolog with every call hanging


@pytest.fixture
def node(tmp_path):
    """A node: programs that note how they were called, and a way to run a script of ours on it."""
    return Node(tmp_path)


class Node:
    def __init__(self, folder: Path) -> None:
        self.folder, self.jobs, self.called = folder, folder / "jobs", folder / "called"
        (folder / "bin").mkdir()
        self.called.write_text("")
        self.program("systemctl", 'case "$*" in *is-active*) exit 3 ;; esac')
        self.program("runwatch", "")

    def program(self, name: str, then: str) -> None:
        file = self.folder / "bin" / name
        file.write_text(f'#!/bin/sh\necho "{name} $*" >>"{self.called}"\n{then}\n')
        file.chmod(0o755)

    def run(self, script: str, *words: str, job: str = "7", **environ: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.folder}/bin:/usr/bin:/bin"
        runwatch = f"{self.folder}/bin/runwatch"
        given = {"PATH": path, "RUNWATCH_JOBS_DIR": str(self.jobs), "RUNWATCH": runwatch, "HOME": str(self.folder)}
        return subprocess.run(
            [SLURM / script, *words], env={**given, "SLURM_JOB_ID": job, **environ}, capture_output=True, text=True,
            timeout=60,
        )  # fmt: skip

    @property
    def changes(self) -> list[str]:
        return [line for line in self.called.read_text().splitlines() if "is-active" not in line]

    def until(self, look: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not look():
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_the_agent_runs_from_the_first_job_of_a_node_to_its_last(node):
    start, stop = "systemctl --no-block start runwatch-agent", "systemctl --no-block stop runwatch-agent"
    node.run("prolog.sh", job="7")
    node.program("systemctl", "")  # it is active now
    node.run("prolog.sh", job="8")
    node.run("epilog.sh", job="7")
    assert node.changes == [start, start]
    node.run("epilog.sh", job="8")
    assert node.changes == [start, start, stop]
    node.run("epilog.sh", job="8")
    assert node.changes[-1:] == [stop]
    assert len(node.changes) == 3


def test_an_agent_that_is_a_service_of_the_node_is_left_alone(node):
    node.program("systemctl", "")
    node.run("prolog.sh")
    node.run("epilog.sh")
    assert node.changes == []
    assert not node.jobs.exists()


@pytest.mark.parametrize("then", ["exit 1", "kill -9 $$"])
@pytest.mark.parametrize("script", ["prolog.sh", "epilog.sh"])
def test_what_fails_does_not_fail_the_job(node, script, then):
    node.program("systemctl", then)
    node.jobs.mkdir()
    done = node.run(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("script", ["prolog.sh", "epilog.sh"])
def test_what_hangs_does_not_hold_up_the_job(node, script):
    node.program("systemctl", "trap '' TERM\nexec sleep 600")
    node.jobs.mkdir()
    began = time.monotonic()
    assert node.run(script).returncode == 0
    assert time.monotonic() - began < PATIENCE_SECONDS


@pytest.mark.parametrize("script", ["prolog.sh", "epilog.sh", "task-prolog.sh", "task-epilog.sh"])
def test_without_any_of_slurms_environment_and_with_nothing_writable_nothing_fails(node, script):
    done = node.run(script, RUNWATCH_JOBS_DIR="/proc/nowhere", SLURM_JOB_ID="", HOME="/proc/nowhere")
    assert (done.returncode, done.stdout) == (0, "")


def test_a_command_runs_while_the_agent_holds_no_gpu(node):
    node.program("nvidia-smi", "exit 5")
    done = node.run("gpus-free.sh", "nvidia-smi", "--gpu-reset", "-i", "3")
    assert done.returncode == 5
    agent = "runwatch agent --config /etc/runwatch/agent.yaml"
    assert node.changes == [f"{agent} --release", "nvidia-smi --gpu-reset -i 3", f"{agent} --resume"]


def test_a_command_runs_also_where_no_agent_answers(node):
    node.program("runwatch", "exit 1")
    done = node.run("gpus-free.sh", "true")
    assert done.returncode == 0
    assert "going on without it" in done.stderr
    assert node.run("gpus-free.sh").returncode == 2


def in_allocation(node: Node, script: str = "task-prolog.sh", **environ: str) -> subprocess.CompletedProcess[str]:
    config = node.folder / "agent.yaml"
    config.write_text("agent: {}\n")
    given = {"RUNWATCH_AGENT_CONFIG": str(config), "SLURMD_NODENAME": "gpu-07"}
    return node.run(script, **{**given, "SLURM_STEP_ID": "0", **environ})


def test_one_task_of_a_node_starts_its_agent_under_the_name_that_slurm_has_for_it(node):
    node.program("runwatch", 'echo "node $RUNWATCH_NODE"')
    for rank in ("1", "0", "2"):
        done = in_allocation(node, SLURM_LOCALID=rank)
        assert (done.returncode, done.stdout) == (0, "")  # slurmd would read it as commands
    log = node.folder / ".cache/runwatch/agent.7.0.gpu-07.log"
    node.until(lambda: log.exists() and log.read_text() == "node gpu-07\n")
    assert node.changes == [f"runwatch agent --config {node.folder}/agent.yaml"]


def test_a_task_does_not_wait_for_its_agent_and_ends_it(node):
    pid = node.folder / "pid"
    node.program("runwatch", f"echo $$ >{pid}\nexec sleep 600")
    began = time.monotonic()
    done = in_allocation(node)
    assert done.returncode == 0
    assert time.monotonic() - began < PATIENCE_SECONDS
    node.until(lambda: pid.exists() and pid.read_text() != "")
    in_allocation(node, "task-epilog.sh")
    node.until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists())
    assert in_allocation(node, "task-epilog.sh").returncode == 0  # nothing is there any more


def test_a_user_without_a_config_has_no_agent_and_no_trouble(node):
    done = node.run("task-prolog.sh")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert node.changes == []


@pytest.mark.parametrize("code", [0, 3])
def test_the_batch_job_ends_as_its_training_does_and_takes_its_agents_along(node, code):
    work = node.folder / "work"
    work.mkdir()
    (work / "train.sh").write_text(f"#!/bin/sh\nexit {code}\n")
    (work / "train.sh").chmod(0o755)
    agents = node.folder / "agents"
    node.program(
        "srun", f'case "$*" in *--overlap*) echo $$ >"{agents}"; exec sleep 600 ;; esac\n'
        f'while [ ! -s "{agents}" ]; do sleep 0.05; done\nfor last; do :; done\nexec "$last"',
    )  # fmt: skip
    done = subprocess.run(
        ["bash", SLURM / "train.sbatch"], cwd=work, capture_output=True, text=True, timeout=60,
        env={"PATH": f"{node.folder}/bin:/usr/bin:/bin", "SLURM_NNODES": "2", "HOME": str(node.folder)},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    node.until(lambda: not Path(f"/proc/{agents.read_text().strip()}").exists())
