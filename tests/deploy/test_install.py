"""deploy/install.sh: an environment of its own, run again without harm, and nothing that shadows the packages."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.wheel import build_wheel

ROOT = Path(__file__).resolve().parents[2]
INSTALL = ROOT / "deploy/install.sh"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def install(wheel, tmp_path_factory) -> Run:
    """Runs the installer on a folder; without the dependencies, which take half a minute."""
    stubs = tmp_path_factory.mktemp("stubs")  # no user is made on this machine
    for name in ("getent", "chown", "systemctl"):
        (stubs / name).write_text("#!/bin/sh\n")
        (stubs / name).chmod(0o755)

    def run(folder: Path, *more: str, **environ: str) -> subprocess.CompletedProcess[str]:
        places = ["--prefix", folder / "opt", "--etc", folder / "etc", "--systemd", folder / "units"]
        (folder / "units").mkdir(exist_ok=True)
        path = f"{stubs}:{os.environ['PATH']}"
        return subprocess.run(
            ["sh", str(INSTALL), *map(str, places), "--from", str(wheel), "--python", sys.executable, *more],
            env={**os.environ, "PIP_NO_DEPS": "1", "PATH": path, **environ},
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip

    return run


@pytest.fixture(scope="module")
def daemon_host(install, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("host")
    done = install(folder, "daemon", PYTHONPATH="/nowhere", PIP_TARGET="/nowhere")
    assert done.returncode == 0, done.stderr
    assert "test-page --config" in done.stdout
    return folder


def site(folder: Path) -> Path:
    return next((folder / "opt/lib").glob("python3*/site-packages"))


def test_the_environment_is_its_own_and_works(daemon_host):
    said = subprocess.run(
        [daemon_host / "opt/bin/runwatch", "--version"], capture_output=True, text=True, check=True, cwd="/"
    )
    assert said.stdout.startswith("runwatch ")
    assert "include-system-site-packages = false" in (daemon_host / "opt/pyvenv.cfg").read_text()


def test_config_token_and_unit_are_there_and_for_nobody_else(daemon_host):
    token = daemon_host / "etc/agent.token"
    assert token.stat().st_mode & 0o777 == 0o640
    assert len(token.read_text().strip()) >= 40
    example = (ROOT / "deploy/runwatch.example.yaml").read_text().replace("/etc/runwatch/", f"{daemon_host}/etc/")
    assert (daemon_host / "etc/runwatch.yaml").read_text() == example
    assert (daemon_host / "etc/runwatch.yaml").stat().st_mode & 0o777 == 0o644
    unit = (daemon_host / "units/runwatch.service").read_text()
    assert f"ExecStart={daemon_host}/opt/bin/runwatch daemon --config {daemon_host}/etc/runwatch.yaml\n" in unit


def test_run_again_it_mends_the_code_and_keeps_what_is_configured(install, daemon_host):
    token = (daemon_host / "etc/agent.token").read_text()
    (daemon_host / "etc/runwatch.yaml").write_text("runs: []\n")
    (site(daemon_host) / "watcher/clock.py").write_text("broken(\n")
    assert install(daemon_host, "daemon").returncode == 0
    assert (daemon_host / "etc/agent.token").read_text() == token
    assert (daemon_host / "etc/runwatch.yaml").read_text() == "runs: []\n"
    assert "SystemClock" in (site(daemon_host) / "watcher/clock.py").read_text()


def test_an_environment_whose_python_was_changed_under_it_is_made_anew(install, daemon_host):
    lost = site(daemon_host)  # what a new minor version of Python looks like from inside
    lost.rename(lost.with_name("of-another-python"))
    assert install(daemon_host, "daemon").returncode == 0
    assert (site(daemon_host) / "watcher/clock.py").exists()
    assert not lost.with_name("of-another-python").exists()


def test_a_package_of_somebody_else_under_our_name_is_refused(install, daemon_host):
    info = site(daemon_host) / "other_alerts-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-alerts\nVersion: 1.0\n")
    (info / "RECORD").write_text("alerts/__init__.py,,\n")
    try:
        done = install(daemon_host, "daemon")
        assert done.returncode == 1
        assert "package alerts is also installed by other-alerts" in done.stderr
    finally:
        for file in info.iterdir():
            file.unlink()
        info.rmdir()


def test_a_folder_that_holds_something_else_is_left_alone(install, tmp_path):
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt/mine").write_text("x")
    done = install(tmp_path, "agent")
    assert done.returncode == 1
    assert "holds something else" in done.stderr
    assert [file.name for file in (tmp_path / "opt").iterdir()] == ["mine"]


def test_a_python_that_is_too_old_is_said_before_anything_is_made(install, tmp_path):
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = install(tmp_path, "agent", "--python", str(old))
    assert done.returncode == 1
    assert "not Python 3.11 or newer" in done.stderr
    assert not (tmp_path / "opt").exists()


@pytest.mark.parametrize("words", [["--prefix"], ["node"], ["--wheel", "x"]])
def test_wrong_usage_is_said_and_changes_nothing(words, tmp_path):
    done = subprocess.run(["sh", str(INSTALL), *words], capture_output=True, text=True, timeout=30, cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert "--prefix" in done.stderr


def test_folders_that_are_given_from_here_are_whole_paths_in_the_unit(install, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = install(tmp_path, "daemon", "--prefix", "opt", "--etc", "etc")
    assert done.returncode == 0, done.stderr
    unit = (tmp_path / "units/runwatch.service").read_text()
    assert f"token_file: {tmp_path}/etc/agent.token\n" in (tmp_path / "etc/runwatch.yaml").read_text()
    assert f"ExecStart={tmp_path}/opt/bin/runwatch daemon --config {tmp_path}/etc/runwatch.yaml\n" in unit


@pytest.mark.parametrize("name", ["my opt", "a&b", "a|b", "a%b"])
def test_a_folder_that_no_unit_can_name_is_refused_before_anything_is_made(name, install, tmp_path):
    done = install(tmp_path, "agent", "--prefix", str(tmp_path / name))
    assert done.returncode == 1
    assert "plain letters" in done.stderr
    assert not (tmp_path / name).exists()
