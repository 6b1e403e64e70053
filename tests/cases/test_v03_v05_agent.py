"""NVML scripts over the real pynvml and a C library: fields that are not supported, and counters of memory errors."""

from __future__ import annotations

import logging

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


def test_v03_each_is_said_once_in_the_log(shared, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    played(shared, tmp_path, "V03")
    said = [r.getMessage() for r in caplog.records if "does not support" in r.getMessage()]
    assert len(said) == len({line.split()[1] for line in said})


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
