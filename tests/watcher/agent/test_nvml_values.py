"""What else a card tells: reasons for low clocks, links, XIDs, memory of other kinds; and what it does not have."""

from __future__ import annotations

import logging

import pynvml
import pytest

from tests.support.driven_gpus import Driven, driven
from tests.support.fake_nvml import LOST, FakeNvml
from watcher.sources.nvml_events import XidEvents
from watcher.sources.rates import Rates, with_rates

FIELD = {
    "sw_thermal_ns": pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL,
    "hw_thermal_ns_before_590": 252,
    "hw_thermal_ns": 270,
    "pcie_tx": pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES,
    "pcie_rx": pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES,
    "pages_dbe": pynvml.NVML_FI_DEV_RETIRED_DBE,
    "pages_pending": pynvml.NVML_FI_DEV_RETIRED_PENDING,
    "instant_mw": pynvml.NVML_FI_DEV_POWER_INSTANT,
    "memory_temperature": pynvml.NVML_FI_DEV_MEMORY_TEMP,
    "recovery": pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION,
    "crc": pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
    "replay": pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
    "nvlink_tx": pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
    "nvlink_rx": pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
}


def fields(**values: int) -> dict[str, int]:
    return {f"field_{FIELD[name]}": value for name, value in values.items()}


@pytest.fixture
def fake(tmp_path) -> FakeNvml:
    return FakeNvml(tmp_path / "nvml", gpus=4)


def test_field_values_are_read_in_their_units(fake):
    fake.set(1, **fields(instant_mw=123_456, memory_temperature=71, recovery=2, crc=5, replay=2))

    async def scenario(one: Driven) -> None:
        gpu, other = one.source.latest.gpus[1], one.source.latest.gpus[0]
        assert gpu.power_instant_watts == 123.456
        assert (gpu.memory_temperature_celsius, gpu.recovery_action, gpu.nvlink_error_count) == (71, "node_reboot", 7)
        assert (other.power_instant_watts, other.recovery_action, other.nvlink_error_count) == (None, None, None)
        assert "recovery_action" in other.unsupported
        assert "recovery_action" not in gpu.unsupported

    driven(fake, scenario)


def test_a_reason_with_a_counter_is_a_share_of_time_and_one_with_a_flag_is_all_or_nothing(fake):
    fake.set(**fields(sw_thermal_ns=0))

    async def scenario(one: Driven) -> None:
        fake.set(2, **fields(sw_thermal_ns=2_500_000_000), reasons=pynvml.nvmlClocksThrottleReasonHwSlowdown)
        await one.poll(10.0)
        hot, cool = one.source.latest.gpus[2].throttle_ratios, one.source.latest.gpus[0].throttle_ratios
        assert hot["sw_thermal"] == pytest.approx(0.25, abs=0.02)
        assert hot["hw_slowdown"] == 1
        assert hot["sw_power_cap"] == 0
        assert set(cool.values()) == {0.0}

    driven(fake, scenario)


def test_a_counter_of_the_hardware_has_the_id_that_this_driver_gives_it(fake):
    fake.set(**fields(hw_thermal_ns_before_590=0, hw_thermal_ns=7))  # which is a setting of something else here

    async def scenario(one: Driven) -> None:
        fake.set(1, **fields(hw_thermal_ns_before_590=5_000_000_000))
        fake.set(2, reasons=pynvml.nvmlClocksThrottleReasonHwThermalSlowdown)
        await one.poll(10.0)
        gpus = one.source.latest.gpus
        assert gpus[1].throttle_ratios["hw_thermal"] == pytest.approx(0.5, abs=0.05)
        assert gpus[2].throttle_ratios["hw_thermal"] == 1.0, "a counter that stands does not hide the flag"
        assert gpus[0].throttle_ratios["hw_thermal"] == 0.0

    driven(fake, scenario)


def test_bytes_over_pcie_are_counted_where_the_card_counts_and_measured_where_it_does_not(fake):
    fake.set(0, **fields(pcie_tx=0, pcie_rx=0))
    fake.set(1, pcie_tx_kb=2_000, pcie_rx_kb=500)

    async def scenario(one: Driven) -> None:
        fake.set(0, **fields(pcie_tx=30_000, pcie_rx=70_000))
        await one.poll(10.0)
        counted, measured, neither = one.source.latest.gpus[:3]
        assert counted.pcie_bytes_per_second == pytest.approx(10_000, rel=0.1)
        assert measured.pcie_bytes_per_second == 2_500_000
        assert neither.pcie_bytes_per_second is None
        assert "pcie_throughput" in neither.unsupported

    driven(fake, scenario)


def test_errors_of_each_link_are_added_up_where_the_driver_gives_bytes_in_sum_and_errors_by_link(fake):
    replay = pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY
    fake.set(0, **fields(nvlink_tx=0, nvlink_rx=0), **{f"field_{replay}_2": 4, f"field_{replay}_11": 5})

    async def scenario(one: Driven) -> None:
        await one.until(lambda: one.source.latest.gpus[0].nvlink_error_count == 9, polls=4)
        fake.set(0, **fields(nvlink_tx=1, nvlink_rx=1), **{f"field_{replay}_2": 6})
        await one.until(lambda: one.source.latest.gpus[0].nvlink_error_count == 11, polls=4)

    driven(fake, scenario)


def test_nvlink_five_counts_for_each_link_and_the_sum_is_told(fake):
    bytes_out, bytes_in = pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES
    recovered = pynvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS
    fake.set(0, nvlinks="1101", **{f"field_{bytes_out}": 0, f"field_{bytes_in}": 0})
    fake.set(0, **{f"field_{recovered}_0": 2, f"field_{recovered}_3": 5, f"field_{recovered}_1": 0})

    async def scenario(one: Driven) -> None:
        await one.poll(10.0)
        fake.set(0, **{f"field_{bytes_out}_3": 40_000, f"field_{bytes_in}_1": 60_000})
        await one.poll(10.0)
        gpu = one.source.latest.gpus[0]
        assert gpu.nvlink_error_count == 7
        assert gpu.nvlink_bytes_per_second == pytest.approx(10_000, rel=0.1)
        assert one.source.latest.gpus[1].nvlink_error_count is None

    driven(fake, scenario)


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ({"fabric_state": 3}, "completed"),
        ({"fabric_state": 2}, "in_progress"),
        ({"fabric_state": 3, "fabric_status": 999}, "failed"),
        ({"fabric_state": 3, "fabric_health": 0x1}, "degraded_bandwidth"),
        ({"fabric_state": 3, "fabric_health": 0x12}, "route_unhealthy"),
        ({"fabric_state": 3, "fabric_health": 0x2A}, "completed"),
        ({"fabric_state": 0}, None),
        ({}, None),
    ],
)
def test_the_fabric_of_a_gpu_is_said_where_there_is_one(fake, told, state):
    fake.set(1, **told)

    async def scenario(one: Driven) -> None:
        gpu = one.source.latest.gpus[1]
        assert (gpu.fabric_state, "fabric_state" in gpu.unsupported) == (state, state is None)

    driven(fake, scenario)


def test_under_mig_its_devices_are_named_and_what_does_not_exist_there_is_absent(fake):
    fake.set(2, mig=1, util=None, mig_uuid_0="MIG-aaaa", mig_uuid_4="MIG-bbbb")

    async def scenario(one: Driven) -> None:
        gpu, plain = one.source.latest.gpus[2], one.source.latest.gpus[1]
        assert gpu.mig_devices == {"MIG-aaaa": (3 << 30, 10 << 30), "MIG-bbbb": (3 << 30, 10 << 30)}
        assert (gpu.mig, gpu.utilization_ratio, gpu.state) == (True, None, "ok")
        assert (plain.mig, plain.mig_devices, plain.utilization_ratio) == (False, None, 0.98)

    driven(fake, scenario)


def test_a_card_that_retires_pages_says_how_many_and_whether_one_waits(fake):
    fake.set(0, remapped_uncorrected=None, **fields(pages_dbe=3, pages_pending=1))
    fake.set(1, **fields(pages_dbe=0, pages_pending=1))

    async def scenario(one: Driven) -> None:
        old, new = one.source.latest.gpus[:2]
        assert (old.retired_pages_count, old.remap_pending) == (3, True)
        assert new.remap_pending is False, "it remaps rows, and says so itself"

    driven(fake, scenario)


def test_bytes_over_nvlink_are_a_rate(fake):
    fake.set(**fields(nvlink_tx=0, nvlink_rx=0))

    async def scenario(one: Driven) -> None:
        assert one.source.latest.gpus[0].nvlink_bytes_per_second is None
        fake.set(0, **fields(nvlink_tx=10_000, nvlink_rx=30_000))
        await one.poll(10.0)
        assert one.source.latest.gpus[0].nvlink_bytes_per_second == pytest.approx(4000 * 1024, rel=0.1)
        assert one.source.latest.gpus[1].nvlink_bytes_per_second == 0

    driven(fake, scenario)


def test_a_link_that_went_down_is_counted_and_one_that_never_was_up_is_not(fake):
    fake.set(0, nvlinks="1111")
    fake.set(1, nvlinks="1100")

    async def scenario(one: Driven) -> None:
        assert [gpu.nvlink_down_count for gpu in one.source.latest.gpus[:2]] == [0, 0]
        fake.set(0, nvlinks="1011")
        await one.until(lambda: one.source.latest.gpus[0].nvlink_down_count == 1, polls=4)
        assert one.source.latest.gpus[1].nvlink_down_count == 0

    driven(fake, scenario)


def test_an_xid_is_told_once_with_the_card_it_came_from_also_after_that_card_is_lost(fake):
    async def scenario(one: Driven) -> None:
        assert one.source.latest.xids == ()
        fake.error(3, "*", LOST)
        fake.xid(3, 79)
        fake.xid(1, 13)
        await one.poll()
        assert one.source.latest.xids == ((79, fake.uuid(3)), (13, fake.uuid(1)))
        await one.poll()
        assert one.source.latest.xids == ()

    driven(fake, scenario)


def test_an_error_of_the_wait_for_events_is_never_taken_for_an_event(fake):
    async def scenario(one: Driven) -> None:
        fake.xid(1, 79)
        fake.error("-", "nvmlEventSetWait", 999)
        await one.poll()
        assert one.source.latest.xids == ()

    driven(fake, scenario)


def test_cards_without_events_are_read_all_the_same(fake):
    fake.missing("nvmlEventSetCreate")

    async def scenario(one: Driven) -> None:
        assert len(one.source.latest.gpus) == 4
        assert one.source.health().ok

    driven(fake, scenario)
    events = XidEvents(pynvml)
    assert events.take() == []


def test_dear_readings_are_asked_every_third_time_and_stand_in_between_but_not_after_they_failed(fake):
    async def scenario(one: Driven) -> None:
        assert one.source.latest.pids == {4242}
        fake.set(processes=2)
        for _ in range(3):
            assert {gpu.process_count for gpu in one.source.latest.gpus} == {1}
            await one.poll()
        assert {gpu.process_count for gpu in one.source.latest.gpus} == {2}
        fake.error("*", "nvmlDeviceGetComputeRunningProcesses", 999)
        for _ in range(3):
            await one.poll()
        assert {gpu.process_count for gpu in one.source.latest.gpus} == {None}
        await one.poll()
        assert {gpu.process_count for gpu in one.source.latest.gpus} == {None}

    driven(fake, scenario)


def test_a_part_without_memory_of_its_own_has_no_memory_and_ecc_off_is_a_fact(fake):
    fake.set(0, memory_total=0)
    fake.set(1, ecc_mode=0, ecc_volatile_corrected=None, ecc_volatile_uncorrected=None)

    async def scenario(one: Driven) -> None:
        shared, plain = one.source.latest.gpus[:2]
        assert (shared.memory_total_bytes, shared.memory_used_bytes) == (None, None)
        assert "memory_used_bytes" in shared.unsupported
        assert (plain.ecc_enabled, plain.ecc_volatile_uncorrected_count) == (False, None)

    driven(fake, scenario)


def test_what_a_card_does_not_support_is_logged_once(fake, caplog):
    caplog.set_level(logging.INFO, "watcher.sources.nvml")
    fake.set(2, energy_mj=None)

    async def scenario(one: Driven) -> None:
        for _ in range(5):
            await one.poll()
        said = [line.getMessage() for line in caplog.records if "does not support" in line.getMessage()]
        assert len(said) == 2, "those that are alike are told in one line"
        assert [line.partition(" does")[0] for line in said if "energy_joules" in line] == ["gpu 2"]
        assert any(line.startswith("gpu 0, 1, 3 does not support") for line in said)

    driven(fake, scenario)


@pytest.mark.parametrize(
    "function", ["nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetFieldValues"]
)
def test_a_driver_without_a_newer_name_is_asked_by_the_older_one_or_does_without(fake, function):
    fake.missing(function)

    async def scenario(one: Driven) -> None:
        gpu = one.source.latest.gpus[0]
        assert gpu.temperature_celsius == 58
        assert gpu.throttle_ratios["hw_thermal"] == 0
        assert gpu.error is None

    driven(fake, scenario)


def test_a_counter_that_fell_has_no_rate_until_it_is_read_again():
    rates = Rates()
    answers = [rates.per_second("g", "c", value, at) for value, at in [(10, 0), (30, 10), (5, 20), (15, 30)]]
    assert answers == [None, 2.0, None, 1.0]
    assert "throttle_ratios" not in with_rates({"uuid": "g", "throttle_ns": {"x": 5}}, rates, 0.0)
    assert with_rates({"uuid": "g", "throttle_ns": {"x": 9_000_000_005}}, rates, 1.0)["throttle_ratios"] == {"x": 1.0}
