"""Agents inside the allocations of a real Slurm: one on each node, under Slurm's name for it, heard by a daemon that
cannot reach them, gone with the job."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import slurm_cluster
from tests.support.slurm_cluster import SlurmCluster
from watcher.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
SLURM = ROOT / "deploy/slurm"
NODES = ["gpu01", "gpu02"]
DAEMON = """
daemon: {{listen: "127.0.0.1:{port}", database: {home}/x.db, interval_seconds: 2,
  agents: {{push: true, master_file: {home}/master}}}}
runs: [{{name: r1, nodes: "gpu[01-02]"}}]
channels: {{journal: {{console: {{}}}}}}
clock_scale: 10
clock_epoch: {now}
"""
AGENT = """
agent:
  listen: 127.0.0.1:0
  interval_seconds: 2
  push: {{url: "http://127.0.0.1:{port}", token_file: "{home}/tokens/%N.token"}}
  logs: ["{home}/logs/*-%N.out"]
clock_scale: 10
clock_epoch: {now}
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    if reason := slurm_cluster.missing():
        assert "CI" not in os.environ, reason
        pytest.skip(reason)
    with SlurmCluster(tmp_path_factory.mktemp("slurm"), count=2) as cluster:
        yield cluster


@pytest.fixture
def home(tmp_path) -> Path:
    """A user's folder with `runwatch` on the PATH, and what is to be trained."""
    for name in (".config/runwatch", "logs", "bin"):
        (tmp_path / name).mkdir(parents=True)
    code = f'#!/bin/sh\nPYTHONPATH={ROOT} exec {shlex.quote(sys.executable)} -m watcher "$@"\n'
    train = "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.1; done\necho done on $SLURMD_NODENAME\n"
    for path, text in (("bin/runwatch", code), ("train.sh", train)):
        (tmp_path / path).write_text(text)
        (tmp_path / path).chmod(0o755)
    return tmp_path


@pytest.fixture
def status(home) -> Iterator[Callable[[], str]]:
    """A daemon that agents send to: what it says of itself, as systemd would hear it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (home / "master").write_text("a secret of this test, long enough for anybody")
    assert (
        main(["node-token", ",".join(NODES), "--master-file", f"{home}/master", "--directory", f"{home}/tokens"]) == 0
    )
    for name, text in (("runwatch.yaml", DAEMON), (".config/runwatch/agent.yaml", AGENT)):
        (home / name).write_text(text.format(home=home, port=port, now=time.time()))
    said = [""]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(home / "notify"))
        sock.setblocking(False)
        daemon = subprocess.Popen(
            [home / "bin/runwatch", "daemon", "--config", home / "runwatch.yaml"],
            env={**os.environ, "NOTIFY_SOCKET": str(home / "notify")}, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

        def last() -> str:
            try:
                while True:
                    said[0] = "".join(re.findall(r"STATUS=(.*)", sock.recv(4096).decode())) or said[0]
            except BlockingIOError:
                return said[0]

        try:
            yield last
        finally:
            daemon.kill()
            daemon.wait()


def submit(slurm: SlurmCluster, home: Path, script: str) -> str:
    text = script.split("\n", 1)[1]
    set_up = f"export HOME={home} PATH={home}/bin:$PATH; unset RUNWATCH XDG_CACHE_HOME; cd {home}"
    shape = ["--nodes=2", "--ntasks-per-node=1", "--gres=gpu:8", f"--output={home}/job.out"]
    return slurm.submit(f"{set_up}\n{text}", *shape)


def task_prolog() -> str:
    return f"#!/bin/sh\nsrun --task-prolog={SLURM}/task-prolog.sh --task-epilog={SLURM}/task-epilog.sh ./train.sh"


@pytest.mark.parametrize(
    "script", [(SLURM / "train.sbatch").read_text(), task_prolog()], ids=["train.sbatch", "prolog"]
)
def test_a_daemon_that_reaches_no_node_hears_each_for_as_long_as_the_job_runs(slurm, home, status, script):
    job = submit(slurm, home, script)
    slurm.until(lambda: "2 answering" in status(), f"both nodes are heard, last: {status()}")
    assert slurm.state(job) == "RUNNING"
    (home / "go").touch()
    slurm.wait(job, "COMPLETED")
    slurm.until(lambda: "0 answering" in status(), "both are gone")
    said = "".join(file.read_text() for file in [home / "job.out", *home.glob("logs/*")])
    assert sorted(re.findall(r"done on (\w+)", said)) == NODES
