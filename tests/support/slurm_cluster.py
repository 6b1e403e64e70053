"""A real Slurm on loopback: munged, slurmctld and one slurmd for each node, all in a folder, all gone afterwards.

The daemons live in namespaces of their own (mounts, host name, processes), so that node names resolve to loopback,
`%N` is the node's name, and everything a job has left behind dies with the cluster. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
DEADLINE_SECONDS = 30.0
LONGEST_FOLDER = 70  # a socket's path has 107 bytes; a job step's is FOLDER/spool/NODE/NODE_JOB.STEP

CONF = r"""ClusterName=loopback
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
{switch}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
GresTypes=gpu
ReturnToService=2
JobRequeue=1
SlurmdParameters=config_overrides
MessageTimeout=10
SlurmdTimeout={slurmd_timeout}
KillWait=2
MinJobAge=300
MailProg=/bin/true
NodeName={nodes} NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{last}] \
  CPUs=16 Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=64000 Gres=gpu:8 State=UNKNOWN
PartitionName=train Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


def missing() -> str | None:
    """Why it cannot run here, or None."""
    if os.geteuid() != 0:
        return "a real Slurm needs root for its namespaces"
    gone = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    return f"needs {', '.join(gone)} (packages of .ci/packages.txt)" if gone else None


class SlurmCluster:
    """`with SlurmCluster(folder, count=4) as slurm:`; nodes are gpu01, gpu02, ..."""

    def __init__(self, folder: Path, count: int = 4, slurmd_timeout_seconds: int = 10) -> None:
        assert len(str(folder)) <= LONGEST_FOLDER, f"{folder} is too long for the sockets that Slurm makes in it"
        self.folder, self.nodes = folder, tuple(f"gpu{n:02d}" for n in range(1, count + 1))
        self.conf = folder / "slurm.conf"
        self._ports = _free_ports(count + 1)
        self._timeout = slurmd_timeout_seconds
        self._init: subprocess.Popen[bytes] | None = None

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "PATH": _path(), "SLURM_CONF": str(self.conf), "SLURM_TIME_FORMAT": "%s"}

    def __enter__(self) -> SlurmCluster:
        try:
            self._write()
            self._start()
            self.until(lambda: self._idle() == len(self.nodes), "all nodes idle")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    # -- what tests do with it

    def run(self, *argv: str, check: bool = True) -> str:
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
        assert not check or done.returncode == 0, f"{argv}: {done.stderr}"
        return done.stdout.strip()

    def submit(self, script: str, *options: str) -> str:
        """The id of a batch job."""
        file = self.folder / f"job-{time.monotonic_ns()}.sh"
        file.write_text(f"#!/bin/bash\n{script}\n")
        return self.run("sbatch", "--parsable", f"--chdir={self.folder}", *options, str(file))

    def state(self, job: str) -> str:
        return self.run("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T", check=False)

    def wait(self, job: str, *states: str) -> None:
        self.until(lambda: self.state(job) in states, f"job {job} is {' or '.join(states)}")

    def until(self, wanted: Any, what: str, seconds: float = DEADLINE_SECONDS) -> Any:
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            if value := wanted():
                return value
            time.sleep(0.1)
        raise AssertionError(f"not within {seconds:.0f} s: {what}\n{self._account()}")

    def kill_node(self, node: str) -> None:
        """The node is gone without a word: its slurmd and what it had started."""
        pids = [int(p) for p in (self.folder / f"slurmd.{node}.pid").read_text().split()]
        for pid in self._of_node(node, pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    # -- inside

    def _write(self) -> None:
        for name in ("state", "dev", *(f"spool/{node}" for node in self.nodes)):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for n in range(8):  # a gres file must be a device
            os.mknod(self.folder / f"dev/nvidia{n}", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        os.chmod(self.folder, 0o700)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        nodes = f"{self.nodes[0]}" if len(self.nodes) == 1 else f"gpu[01-{len(self.nodes):02d}]"
        self.conf.write_text(
            CONF.format(
                folder=self.folder,
                controller=self._ports[0],
                first=self._ports[1],
                last=self._ports[-1],
                nodes=nodes,
                switch="SwitchType=switch/none" if self._version() < (23, 11) else "",
                slurmd_timeout=self._timeout,
            )
        )
        (self.folder / "gres.conf").write_text(
            f"AutoDetect=off\nNodeName={nodes} Name=gpu File={self.folder}/dev/nvidia[0-7]\n"
        )
        old = self._version() < (23, 2)
        (self.folder / "cgroup.conf").write_text(
            "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n" if old else "CgroupPlugin=disabled\n"
        )
        names = " ".join(dict.fromkeys(("localhost", socket.gethostname(), *self.nodes)))
        (self.folder / "hosts").write_text(f"127.0.0.1 {names}\n")

    def _version(self) -> tuple[int, int]:
        text = subprocess.run(["slurmctld", "-V"], env=self.env, capture_output=True, text=True, check=True).stdout
        year, month = text.split()[1].split(".")[:2]
        return int(year), int(month)

    def _start(self) -> None:
        folder = self.folder
        lines = [
            "set -e",
            f"mount --bind {folder}/hosts /etc/hosts",
            f"munged --force --key-file={folder}/munge.key --socket={folder}/munge.socket --num-threads=2 "
            f"--pid-file={folder}/munged.pid --log-file={folder}/munged.log --seed-file={folder}/munge.seed",
            f"slurmctld -f {self.conf} -c",
            *(f"unshare --uts sh -c 'hostname {n}; exec slurmd -f {self.conf} -N {n}'" for n in self.nodes),
            "exec sleep infinity",
        ]
        errors = (folder / "start.err").open("wb")
        self._init = subprocess.Popen(
            ["unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--mount-proc",
             "sh", "-c", "\n".join(lines)],
            env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
            start_new_session=True,
        )  # fmt: skip
        errors.close()

    def _stop(self) -> None:
        """The first process of the namespace dies, and all in it with it."""
        if self._init is not None:
            self._init.kill()
            self._init.wait()

    def _idle(self) -> int:
        text = self.run("sinfo", "--noheader", "--Node", "--states=idle", "--format=%N", check=False)
        return len(text.split())

    def _of_node(self, node: str, inner: Sequence[int]) -> Iterator[int]:
        """Processes whose host name is the node's, as this namespace numbers them."""
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                environment = (entry / "environ").read_bytes().split(b"\0")
                conf = f"SLURM_CONF={self.conf}".encode() in environment
                own = words[:1] == [b"slurmd"] and node.encode() in words
                job = f"SLURMD_NODENAME={node}".encode() in environment
                stepd = words[0].startswith(b"slurmstepd") and self._same_host(entry.name, node)
                if conf and (own or job or stepd):
                    yield int(entry.name)

    def _same_host(self, pid: str, node: str) -> bool:
        done = subprocess.run(["nsenter", "--uts", "--target", pid, "hostname"], capture_output=True, text=True)
        return done.stdout.strip() == node

    def _account(self) -> str:
        parts = [self.run("squeue", "--states=all", check=False), self.run("sinfo", "-N", "-l", check=False)]
        for name in ("start.err", "slurmctld.log"):
            with contextlib.suppress(OSError):
                parts.append((self.folder / name).read_text()[-1500:])
        return "\n".join(parts)


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def _free_ports(count: int) -> list[int]:
    """A port for the controller, then a run of neighbours; another process of the same test run looks elsewhere."""
    mine = 20_000 + os.getpid() % 180 * 64
    for first in range(mine, 32_000, count):
        ports = list(range(first, first + count))
        if all(_free(port) for port in ports):
            return ports
    raise AssertionError("no free ports")


def _free(port: int) -> bool:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


if __name__ == "__main__":  # a cluster to play with: python -m tests.support.slurm_cluster FOLDER
    with SlurmCluster(Path(sys.argv[1])) as cluster:
        print(f"export SLURM_CONF={cluster.conf}", flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
