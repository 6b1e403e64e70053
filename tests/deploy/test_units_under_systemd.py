"""The shipped units under a real systemd: hardened as they are they work, and what stands still is started anew."""

from __future__ import annotations

import shutil
import sysconfig
import time
from pathlib import Path

import pytest

from tests.support.booted import Booted, booted, system_python
from tests.support.fake_nvml import FakeNvml
from tests.support.wheel import build_wheel

ROOT = Path(__file__).resolve().parents[2]
SCALE = 20.0  # the processes live that many times faster: a patience of 36 s passes in 1.8 s
CLOCK = f"clock_scale: {SCALE}\nclock_epoch: {time.time():.0f}"
AGENT = f"""
agent: {{node: n1, listen: "0.0.0.0:9876", token_file: /etc/runwatch/agent.token, plain_http: true, interval_seconds: 1,
  gpu_deadline_seconds: 20, gpu_stuck_seconds: 100000, state_file: /var/lib/runwatch/positions.json,
  logs: [/var/log/train.log]}}
{CLOCK}
"""
DAEMON = f"""
daemon: {{agents: {{token_file: /etc/runwatch/agent.token, addresses: {{n1: "127.0.0.1:9876"}}}}, interval_seconds: 1}}
runs: [{{name: r1, nodes: n1}}]
channels: {{journal: {{console: {{}}}}}}
{CLOCK}
"""


@pytest.fixture(scope="module")
def nvml(tmp_path_factory) -> FakeNvml:
    folder = tmp_path_factory.mktemp("nvml")
    folder.chmod(0o755)  # for the user of the units
    return FakeNvml(folder, gpus=2)


@pytest.fixture(scope="module")
def machine(tmp_path_factory, nvml):
    """A host on which agent and daemon were installed by `install.sh`; what they depend on is that of this Python."""
    python = system_python()

    def prepare(root: Path) -> None:
        source, etc, systemd = root / "opt/source", root / "etc/runwatch", root / "etc/systemd/system"
        shutil.copytree(ROOT / "deploy", source / "deploy")
        build_wheel(source)
        etc.mkdir(exist_ok=True)
        (etc / "agent.yaml").write_text(AGENT)
        (etc / "runwatch.yaml").write_text(DAEMON)
        (etc / "agent.token").write_text("a-token-of-this-test")
        for unit in ("runwatch-agent", "runwatch"):
            drop_in = systemd / f"{unit}.service.d"
            drop_in.mkdir()
            library = "Environment=LD_LIBRARY_PATH=/opt/nvml FAKE_NVML=/opt/nvml/script\n"
            (drop_in / "test.conf").write_text(f"[Service]\nWatchdogSec=1\nRestartSec=0\n{library}")
        for folder in ("opt/nvml", "opt/others"):
            (root / folder).mkdir()
        (root / "var/log/train.log").write_text("")

    folder = tmp_path_factory.mktemp("booted")
    binds = {Path(sysconfig.get_path("purelib")): "/opt/others", nvml.script.parent: "/opt/nvml"}
    with booted(folder, prepare, binds) as one:
        install = "PIP_NO_DEPS=1 PIP_NO_INDEX=1 deploy/install.sh %s --from runwatch-*.whl --python %s"
        for role in ("agent", "daemon"):
            done = one.run("sh", "-c", f"cd /opt/source && {install % (role, python)}", check=False)
            assert done.returncode == 0, done.stdout + done.stderr
        site = one.root / f"opt/runwatch/lib/{Path(python).name}/site-packages"
        (site / "others.pth").write_text("/opt/others\n")
        yield one


def start(machine: Booted, *units: str) -> None:
    for unit in units:
        done = machine.run("systemctl", "restart", unit, check=False)
        said = machine.run("journalctl", "-u", unit, "--no-pager", "-n", "30", check=False).stdout
        assert done.returncode == 0, said


def told(machine: Booted, unit: str, text: str) -> None:
    machine.until(lambda: machine.show(unit, "StatusText"), text)


def test_hardened_as_shipped_they_start_read_and_ask(machine):
    start(machine, "runwatch-agent", "runwatch")
    told(machine, "runwatch-agent", "reads 2 GPUs and 1 log file")
    told(machine, "runwatch", "watching 1 run on 1 node, 1 answering; 0 open")
    for unit in ("runwatch", "runwatch-agent"):
        assert machine.show(unit, "User") == "runwatch"
        assert machine.show(unit, "NRestarts") == "0"


def test_from_there_it_is_a_few_commands_to_the_first_page(machine):
    start(machine, "runwatch-agent", "runwatch")
    told(machine, "runwatch", "1 answering")
    runwatch, config = "/opt/runwatch/bin/runwatch", "/etc/runwatch/runwatch.yaml"
    assert ": ok" in machine.run(runwatch, "check-config", config).stdout
    assert "test" in machine.run(runwatch, "test-page", "--config", config).stdout
    assert "r1" in machine.run(runwatch, "status", "--config", config).stdout


def test_with_its_drop_in_the_agent_reads_what_others_keep_to_themselves(machine):
    folder = machine.root / "etc/systemd/system/runwatch-agent.service.d"
    log = machine.root / "var/log/private.log"
    log.write_text("")
    log.chmod(0o600)
    config = machine.root / "etc/runwatch/agent.yaml"
    config.write_text(AGENT.replace("train.log", "private.log"))
    try:
        start(machine, "runwatch-agent")
        told(machine, "runwatch-agent", "and 0 log files; /var/log/private.log: ")
        shutil.copy(ROOT / "deploy/systemd/process-details.conf", folder)
        machine.run("systemctl", "daemon-reload")
        start(machine, "runwatch-agent")
        told(machine, "runwatch-agent", "reads 2 GPUs and 1 log file")
    finally:
        config.write_text(AGENT)
        (folder / "process-details.conf").unlink(missing_ok=True)
        machine.run("systemctl", "daemon-reload")


def test_a_daemon_that_stands_still_is_started_anew(machine):
    start(machine, "runwatch-agent", "runwatch")
    before = machine.show("runwatch", "MainPID")
    machine.run("kill", "-STOP", before)
    machine.until(lambda: machine.show("runwatch", "NRestarts"), "1")
    told(machine, "runwatch", "1 answering")
    assert machine.show("runwatch", "MainPID") != before
    assert "Watchdog timeout" in machine.run("journalctl", "-u", "runwatch", "--no-pager").stdout


def test_a_driver_that_hangs_starts_no_agent_anew(machine, nvml):
    start(machine, "runwatch-agent")
    before = machine.show("runwatch-agent", "MainPID")
    nvml.hang("*", "nvmlDeviceGetPowerUsage")
    try:
        told(machine, "runwatch-agent", "nvml:")
        for _ in range(2):
            heard = machine.show("runwatch-agent", "WatchdogTimestampMonotonic")
            machine.until(
                lambda heard=heard: str(machine.show("runwatch-agent", "WatchdogTimestampMonotonic") != heard), "True"
            )
        assert machine.show("runwatch-agent", "MainPID") == before
    finally:
        nvml.heal()
