"""NVML scripts over the real pynvml and a C library: a call that never returns, and one GPU lost of eight."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.error
import urllib.request
from threading import Event

import pytest

from tests.support.fake_nvml import FakeNvml
from tests.support.nvml_case import played, played_case


@contextlib.contextmanager
def until_answered(url: str):
    """After the first 200."""
    for _ in range(500):
        with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(url, timeout=5):
            yield
            return
        Event().wait(0.02)
    raise AssertionError(f"{url} is not well within 10 s")


@pytest.fixture(scope="module")
def hung(shared, tmp_path_factory):
    return played(shared, tmp_path_factory.mktemp("v01"), "V01")


@pytest.fixture(scope="module")
def lost(shared, tmp_path_factory):
    return played(shared, tmp_path_factory.mktemp("v02"), "V02")


def test_v01_every_endpoint_answers_within_two_seconds_throughout(hung):
    assert hung.slowest < 2


def test_v01_the_gpu_that_hangs_has_no_values_and_its_age_grows_in_sight(hung):
    for t, snapshot, _ in hung.seen:
        if 75 <= t < 900:
            gpu = snapshot.gpus[3]
            assert (gpu.state, gpu.power_watts, gpu.utilization_ratio) == ("unreadable", None, None), t
            assert t - 75 <= gpu.unread_seconds <= t - 30
    at_110 = [snapshot for t, snapshot, _ in hung.seen if 105 <= t <= 110]
    assert all(snapshot.gpus[3].unread_seconds >= 40 for snapshot in at_110)
    for t, text in hung.metrics:
        if 75 < t < 900:
            series = {line.partition("{")[0] for line in text.splitlines() if '-000000000003"' in line}
            assert "runwatch_gpu_power_watts" not in series, t
            assert "runwatch_gpu_unread_seconds" in series, t


def test_v01_the_seven_others_stay_fresh(hung):
    for t, snapshot, status in hung.seen[1:]:
        assert (status, snapshot.gpus_age_seconds < 20) == (200, True), t
        assert [gpu.power_watts for gpu in snapshot.gpus if gpu.index != 3] == [640.0] * 7, t


def test_v01_the_stuck_call_is_told_in_time_and_over_in_time(hung):
    kinds = [(t, s.health["nvml"].kind) for t, s, _ in hung.seen]
    first = min(t for t, kind in kinds if kind == "stuck")
    assert 75 <= first <= 180
    assert all(kind == "stuck" for t, kind in kinds if first <= t < 900)
    assert all(s.health["nvml"].ok and s.gpus[3].power_watts == 640 for t, s, _ in hung.seen if t >= 1000)


def test_v01_a_call_that_hangs_from_the_start_on_is_told_and_the_seven_others_are_read(shared, tmp_path):
    (file,) = (shared / "data/cases").glob("V01_*.json")
    case = json.loads(file.read_text())
    case["input"]["timeline"][0]["t"] = 0
    case["input"]["end_t"] = 180
    played = played_case(case, tmp_path)
    _, snapshot, status = played.seen[-1]
    assert (len(snapshot.gpus), snapshot.gpus[3].state, status) == (8, "unreadable", 200)
    assert [told.incident.signature for _, told in played.told("opened")] == ["nvml_unresponsive"]


def test_v01_the_agent_ends_on_sigterm_while_the_call_hangs(tmp_path):
    fake = FakeNvml(tmp_path / "nvml")
    fake.hang(3, "nvmlDeviceGetPowerUsage")
    config = tmp_path / "agent.yaml"
    config.write_text("agent: {listen: 127.0.0.1:0, interval_seconds: 1}\n")
    command = [sys.executable, "-m", "watcher", "agent", "--config", str(config)]
    with subprocess.Popen(command, env=fake.env(), stderr=subprocess.PIPE, text=True) as agent:
        lines = iter(agent.stderr.readline, "")
        address = next(line.split()[-1] for line in lines if "listens on" in line)
        with until_answered(f"http://{address}/healthz"):
            agent.terminate()
            assert agent.wait(15) == 0


def test_v01_no_processes_pile_up(hung):
    assert len(hung.agent.gpus._left_behind) <= 2


def test_v02_the_seven_others_are_there_under_their_names_throughout(lost):
    healthy = {d["uuid"] for d in lost.case["input"]["devices"] if d["index"] != 5}
    for t, snapshot, _ in lost.seen[1:]:
        assert healthy <= {gpu.uuid for gpu in snapshot.gpus if gpu.power_watts is not None}, t


def test_v02_the_lost_one_is_named_with_its_address_then_absent_then_back(lost):
    uuid = lost.case["input"]["devices"][5]["uuid"]
    states = [(t, [g for g in s.gpus if g.uuid == uuid]) for t, s, _ in lost.seen[1:]]
    assert all(gpus[0].state == "ok" for t, gpus in states if t < 120)
    told = [gpus[0] for t, gpus in states if 135 <= t < 300]
    assert {(gpu.state, gpu.pci_bus_id) for gpu in told} == {("lost", "00000000:C3:00.0")}
    assert all(not gpus for t, gpus in states if 315 <= t < 1200)
    assert all(gpus[0].state == "ok" for t, gpus in states if t >= 1215)


def test_v02_the_metrics_say_how_many_shall_be_here_and_how_many_are(lost):
    for t, text in lost.metrics[1:]:
        assert 'runwatch_agent_gpus_expected{node="n01"} 8.0' in text, t
        present = 7 if 120 < t < 1200 else 8
        if t not in (120, 300, 1200):  # in the middle of the change
            assert f'runwatch_agent_gpus_present{{node="n01"}} {present}.0' in text, t


def test_v01_the_daemon_tells_of_the_stuck_reader_once_and_of_nothing_else(hung):
    ((opened, told),) = hung.told("opened")
    assert told.incident.signature == "nvml_unresponsive"
    assert "A GPU of n01 does not answer: GPU 3" in told.incident.summary
    assert "power_watts" in told.incident.summary
    assert 75 <= opened <= 180
    ((resolved, _),) = hung.told("resolved")
    assert 900 <= resolved <= 1000


def test_v02_the_daemon_tells_of_the_lost_gpu_once_by_its_name_until_it_is_back(lost):
    uuid = lost.case["input"]["devices"][5]["uuid"]
    ((opened, told),) = lost.told("opened")
    assert (told.incident.signature, told.incident.subject.gpu) == ("gpu_lost", uuid)
    assert 120 <= opened <= 240
    assert uuid in told.incident.summary
    assert told.incident.evidence["pci_bus_id"] == "00000000:C3:00.0"
    ((resolved, _),) = lost.told("resolved")
    assert 1200 <= resolved <= 1320
