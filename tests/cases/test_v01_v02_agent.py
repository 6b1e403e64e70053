"""NVML scripts over the real pynvml and a C library: a call that never returns, and one GPU lost of eight."""

from __future__ import annotations

import pytest

from tests.support.nvml_case import played


@pytest.fixture(scope="module")
def hung(shared, tmp_path_factory):
    return played(shared, tmp_path_factory.mktemp("v01"), "V01")


@pytest.fixture(scope="module")
def lost(shared, tmp_path_factory):
    return played(shared, tmp_path_factory.mktemp("v02"), "V02")


def test_v01_every_endpoint_answers_within_two_seconds_throughout(hung):
    assert hung.slowest < 2


def test_v01_the_age_of_the_data_grows_in_sight_and_stale_values_are_never_repeated(hung):
    at_110 = [snapshot for t, snapshot, _ in hung.seen if 105 <= t <= 110]
    assert all(s.gpus_age_seconds >= 40 for s in at_110)
    assert all(not s.gpus for t, s, _ in hung.seen if 150 <= t < 900)
    assert all(status == 503 for t, _, status in hung.seen if 150 <= t < 900)


def test_v01_the_stuck_reader_is_told_in_time_and_over_in_time(hung):
    kinds = [(t, s.health["nvml"].kind) for t, s, _ in hung.seen]
    first = min(t for t, kind in kinds if kind == "stuck")
    assert 75 <= first <= 180
    assert all(kind == "stuck" for t, kind in kinds if first <= t < 900)
    assert all(s.health["nvml"].ok and len(s.gpus) == 8 for t, s, _ in hung.seen if t >= 1000)


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
