"""NVML scripts over the real pynvml and a C library: fields that are not supported, and counters of memory errors."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.nvml_case import played


@pytest.fixture(scope="module")
def unsupported(shared, tmp_path_factory):
    return played(shared, tmp_path_factory.mktemp("v03"), "V03")


@pytest.fixture(scope="module")
def memory_errors(shared, tmp_path_factory):
    return played(shared, tmp_path_factory.mktemp("v05"), "V05")


ABSENT = {
    0: {"memory_used_bytes", "memory_total_bytes", "ecc_enabled", "ecc_volatile_corrected_count",
        "ecc_aggregate_uncorrected_count", "power_limit_watts"},
    1: {"utilization_ratio", "memory_utilization_ratio", "power_watts", "memory_total_bytes", "remap_pending",
        "remapped_uncorrectable_count"},
    2: {"ecc_volatile_corrected_count", "ecc_volatile_uncorrected_count", "ecc_aggregate_corrected_count"},
}  # fmt: skip


def test_v03_what_is_not_supported_is_absent_and_listed_and_no_fault(unsupported):
    for t, snapshot, status in unsupported.seen[1:]:
        for index, names in ABSENT.items():
            gpu = snapshot.gpus[index]
            assert {name for name in names if getattr(gpu, name) is not None} == set(), t
            assert (gpu.state, gpu.error) == ("ok", None)
            assert gpu.unsupported
        assert snapshot.health["nvml"].ok
        assert status == 200


def test_v03_the_rest_of_those_cards_is_read_and_off_is_not_unknown(unsupported):
    _, snapshot, _ = unsupported.seen[-1]
    first, second, third = snapshot.gpus[:3]
    assert (first.utilization_ratio, first.pci_bus_id) == (0.98, "0000000F:01:00.0")
    assert second.temperature_celsius is not None
    assert (third.ecc_enabled, third.name) == (False, "NVIDIA RTX PRO 4000")


def test_v03_no_series_stands_in_for_what_is_not_there(unsupported):
    _, text = unsupported.metrics[-1]
    series = {
        (sample.name, sample.labels["gpu"][-1])
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "gpu" in sample.labels
    }
    assert ("runwatch_gpu_memory_size_bytes", "0") not in series
    assert ("runwatch_gpu_power_watts", "1") not in series
    assert ("runwatch_gpu_utilization_ratio", "1") not in series
    assert ("runwatch_gpu_ecc_errors_total", "2") not in series
    assert ("runwatch_gpu_power_watts", "0") in series
    assert "NaN" not in text


def test_v03_each_is_said_once_in_the_log(shared, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    played(shared, tmp_path, "V03")
    said = [r.getMessage() for r in caplog.records if "does not support" in r.getMessage()]
    assert len(said) == len({line.split()[1] for line in said})
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_v05_counters_are_what_the_card_says_and_remaps_are_apart_from_them(memory_errors):
    def gpu(t: float, index: int):
        return [snapshot for at, snapshot, _ in memory_errors.seen if at <= t][-1].gpus[index]

    assert (gpu(300, 0).ecc_aggregate_uncorrected_count, gpu(300, 0).ecc_volatile_uncorrected_count) == (12, 0)
    assert (gpu(300, 0).remapped_uncorrectable_count, gpu(300, 0).remap_pending) == (12, False)
    assert (gpu(660, 1).ecc_volatile_uncorrected_count, gpu(660, 1).remap_pending) == (1, True)
    assert (gpu(1260, 1).ecc_volatile_uncorrected_count, gpu(1260, 1).remap_pending) == (0, False)
    assert gpu(1260, 1).ecc_aggregate_uncorrected_count == 1
    assert (gpu(1860, 2).remap_failed, gpu(1860, 2).ecc_volatile_uncorrected_count) == (True, 5)
    assert gpu(2400, 3).ecc_volatile_corrected_count == 300 * 4600


def test_v03_nobody_is_told_of_anything(unsupported):
    assert unsupported.told("opened") == []


def test_v05_what_the_daemon_tells_of_each_card_over_a_restart_of_the_agent(memory_errors):
    told = {}
    for t, change in memory_errors.told("opened"):
        told.setdefault((change.incident.subject.gpu_index, change.incident.signature), []).append(t)
    assert 0 not in {gpu for gpu, _ in told}, "lifetime counts of a card that was mended are history"
    assert all(len(times) == 1 for times in told.values())
    (pending,), (failed,), (storm,) = told[1, "row_remap_pending"], told[2, "row_remap_failed"], told[3, "ecc_rate"]
    assert 600 <= pending <= 700
    assert 1800 <= failed <= 1900
    assert 2115 <= storm <= 2300
    ((mended, _),) = memory_errors.told("resolved", "row_remap_pending")
    assert 1200 <= mended <= 1320


def test_v05_the_exported_counter_falls_only_with_the_reset_of_the_driver(memory_errors):
    def counted(text: str) -> float:
        return next(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "runwatch_gpu_ecc_errors_total"
            and (sample.labels["gpu"][-1], sample.labels["counter"], sample.labels["kind"])
            == ("1", "volatile", "uncorrected")
        )

    values = [(t, counted(text)) for t, text in memory_errors.metrics if "ecc_errors_total{" in text]
    falls = [t for (_, before), (t, now) in pairwise(values) if now < before]
    assert len(falls) == 1
    assert 1200 <= falls[0] <= 1230
