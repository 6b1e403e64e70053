"""The shipped units under a real systemd: hardened as they are they work, and what stands still is started anew."""

from __future__ import annotations

import shutil
import sysconfig
import time
from pathlib import Path

import pytest

from tests.support.booted import Booted, booted, system_python
from tests.support.fake_nvml import FakeNvml

ROOT = Path(__file__).resolve().parents[2]
UNITS = ROOT / "deploy/systemd"
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
    python = system_python()
    sites = sysconfig.get_path("purelib")

    def prepare(root: Path) -> None:  # an environment as `install.sh` makes it
        app, etc, systemd = root / "opt/runwatch", root / "etc/runwatch", root / "etc/systemd/system"
        inside = app / f"lib/{Path(python).name}/site-packages"
        for name in ("watcher", "alerts", "detectors"):
            shutil.copytree(ROOT / name, inside / name, ignore=shutil.ignore_patterns("__pycache__"))
        (inside / "others.pth").write_text("/opt/runwatch/others\n")
        (app / "others").mkdir()
        (app / "bin").mkdir()
        (app / "pyvenv.cfg").write_text("home = /usr/bin\n")
        (app / "bin/python").symlink_to(python)
        starter = app / "bin/runwatch"
        starter.write_text(
            "#!/opt/runwatch/bin/python\nimport sys\nfrom watcher.cli.main import main\nsys.exit(main())\n"
        )
        starter.chmod(0o755)
        etc.mkdir(exist_ok=True)
        (etc / "agent.yaml").write_text(AGENT)
        (etc / "runwatch.yaml").write_text(DAEMON)
        (etc / "agent.token").write_text("a-token-of-this-test")
        shutil.copy(UNITS / "runwatch.sysusers.conf", root / "usr/lib/sysusers.d/runwatch.conf")
        for unit in UNITS.glob("*.service"):
            shutil.copy(unit, systemd)
            drop_in = systemd / f"{unit.name}.d"
            drop_in.mkdir()
            library = "Environment=LD_LIBRARY_PATH=/opt/nvml FAKE_NVML=/opt/nvml/script\n"
            (drop_in / "test.conf").write_text(f"[Service]\nWatchdogSec=1\nRestartSec=0\n{library}")
        (root / "opt/nvml").mkdir()
        (root / "var/log/train.log").write_text("")

    folder = tmp_path_factory.mktemp("booted")
    binds = {Path(sites): "/opt/runwatch/others", nvml.script.parent: "/opt/nvml"}
    with booted(folder, prepare, binds) as one:
        one.run("chgrp", "runwatch", "/etc/runwatch/agent.token")
        one.run("chmod", "640", "/etc/runwatch/agent.token")
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
    told(machine, "runwatch-agent", "reads 2 GPUs and 1 log files")
    told(machine, "runwatch", "watching 1 run on 1 node, 1 answering; 0 open")
    for unit in ("runwatch", "runwatch-agent"):
        assert machine.show(unit, "User") == "runwatch"
        assert machine.show(unit, "NRestarts") == "0"


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
