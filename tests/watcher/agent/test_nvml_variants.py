"""Other libraries than the usual one: little supported, symbols missing, refusals, odd values, few GPUs and many."""

from __future__ import annotations

import json
import sys

import pytest

from tests.support.driven_gpus import Driven, driven
from tests.support.fake_nvml import LOST, NO_PERMISSION, UNKNOWN, FakeNvml
from watcher.agent.app import Agent
from watcher.config.agent import AgentConfig
from watcher.snapshot import dump_snapshot, parse_snapshot

NOT_SUPPORTED, INSUFFICIENT_SIZE, UNINITIALIZED = 3, 7, 1
OPTIONAL = (
    "nvmlDeviceGetSerial", "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV", "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetMemoryErrorCounter",
    "nvmlDeviceGetRemappedRows", "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetMigMode",
    "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetEccMode",
    "nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetPcieReplayCounter", "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetFieldValues", "nvmlDeviceRegisterEvents", "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetPcieThroughput", "nvmlDeviceGetPciInfo",
)  # fmt: skip
SYMBOLS = tuple(
    {"nvmlDeviceGetPciInfo": "nvmlDeviceGetPciInfo_v3",
     "nvmlDeviceGetComputeRunningProcesses": "nvmlDeviceGetComputeRunningProcesses_v3"}.get(name, name)
    for name in OPTIONAL
)  # fmt: skip
EVENTS = ("nvmlEventSetCreate", "nvmlEventSetFree", "nvmlEventSetWait_v2")


@pytest.fixture
def fake(tmp_path) -> FakeNvml:
    return FakeNvml(tmp_path / "nvml")


def only_power_and_utilization(one: Driven) -> None:
    for gpu in one.source.latest.gpus:
        assert (gpu.state, gpu.error, gpu.utilization_ratio) == ("ok", None, 0.98)
        assert gpu.power_watts == 330.0 + gpu.index
        known = {key for key in gpu.__dataclass_fields__ if getattr(gpu, key) is not None}
        assert known <= {"uuid", "index", "name", "state", "mig", "unsupported", "power_watts",
                         "utilization_ratio", "memory_utilization_ratio"}  # fmt: skip
    assert len(one.source.latest.gpus) == 8
    assert one.source.health().ok
    assert one.source.replacements_count == 0


def test_a_library_that_supports_next_to_nothing_gives_what_it_has(fake):
    for function in OPTIONAL:
        fake.error("*", function, NOT_SUPPORTED)
    fake.error("-", "nvmlEventSetCreate", NOT_SUPPORTED)
    fake.error("-", "nvmlSystemGetDriverVersion", NOT_SUPPORTED)

    async def scenario(one: Driven) -> None:
        only_power_and_utilization(one)
        await one.poll()
        only_power_and_utilization(one)

    driven(fake, scenario)


def test_a_library_without_most_symbols_gives_what_it_has(tmp_path):
    fake = FakeNvml(tmp_path / "nvml", without=(*SYMBOLS, *EVENTS, "nvmlSystemGetDriverVersion"))

    async def scenario(one: Driven) -> None:
        only_power_and_utilization(one)
        await one.poll()
        only_power_and_utilization(one)

    driven(fake, scenario)


def test_older_bindings_give_what_they_know(fake):
    gone = [
        "nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetMigMode",
        "nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfoV_t", "NVML_FI_DEV_POWER_INSTANT",
        "NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES", "nvmlClocksEventReasonHwSlowdown", "nvmlEventSetCreate",
        "NVMLLibraryMismatchError",
    ]  # fmt: skip
    code = (
        "import sys, pynvml\n"
        f"for name in {gone!r}: delattr(pynvml, name)\n"
        "from watcher.sources.nvml_child import main\n"
        "sys.exit(main())\n"
    )

    async def scenario(one: Driven) -> None:
        gpu = one.source.latest.gpus[0]
        assert (gpu.temperature_celsius, gpu.throttle_ratios["hw_slowdown"], gpu.error) == (58, 0.0, None)
        assert {"remap_pending", "process_count", "mig", "fabric_state"} <= set(gpu.unsupported)
        assert one.source.health().ok

    driven(fake, scenario, command=(sys.executable, "-I", "-c", code))


def test_what_may_not_be_read_is_unknown_and_said_and_the_rest_is_there(fake):
    for function in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetTotalEccErrors"):
        fake.error("*", function, NO_PERMISSION)

    async def scenario(one: Driven) -> None:
        gpu = one.source.latest.gpus[4]
        assert (gpu.process_count, gpu.ecc_volatile_corrected_count, gpu.power_watts) == (None, None, 334.0)
        assert gpu.state == "ok"
        assert "Insufficient Permissions" in gpu.error
        assert "process_count" not in gpu.unsupported, "it may be allowed later"
        fake.heal()
        for _ in range(3):
            await one.poll()
        assert one.source.latest.gpus[4].process_count == 1

    driven(fake, scenario)


def test_a_list_of_processes_that_grows_faster_than_it_is_read_is_unknown_this_time(fake):
    fake.error(1, "nvmlDeviceGetComputeRunningProcesses", INSUFFICIENT_SIZE)

    async def scenario(one: Driven) -> None:
        assert [gpu.process_count for gpu in one.source.latest.gpus[:3]] == [1, None, 1]
        assert one.source.health().ok

    driven(fake, scenario)


def test_values_that_mean_no_value_or_cannot_be_are_absent(fake):
    fake.set(0, power_mw=0xFFFFFFFF, limit_mw=0xFFFFFFFF, energy_mj=0xFFFFFFFFFFFFFFFF, util=0xFFFFFFFF)
    fake.set(1, temperature=0xFFFFFFFF, sm_clock=0xFFFFFFFF, memory_used=0xFFFFFFFFFFFFFFFF, pcie_width=0xFFFFFFFF)
    fake.set(2, ecc_volatile_uncorrected=0xFFFFFFFFFFFFFFFF, field_82=0xFFFFFFFF, field_186=0xFFFFFFFF)
    fake.set(3, util=250, temperature=4_000_000, memory_used=90 << 60)

    async def scenario(one: Driven) -> None:
        absent, hot, counted, odd = one.source.latest.gpus[:4]
        assert (absent.power_watts, absent.power_limit_watts, absent.energy_joules) == (None, None, None)
        assert absent.utilization_ratio is None
        assert (hot.temperature_celsius, hot.sm_clock_mhz, hot.memory_used_bytes, hot.pcie_width) == (None,) * 4
        assert (counted.ecc_volatile_uncorrected_count, counted.memory_temperature_celsius) == (None, None)
        assert counted.power_instant_watts is None
        assert (odd.utilization_ratio, odd.temperature_celsius, odd.memory_used_bytes) == (None, None, None)
        assert odd.power_watts == 333.0
        assert all(gpu.state == "ok" for gpu in one.source.latest.gpus)

    driven(fake, scenario)


def test_names_of_bytes_without_an_end_cost_the_name_alone(fake):
    fake.garbage(0, "nvmlDeviceGetName")
    fake.garbage(1, "nvmlDeviceGetSerial")
    fake.garbage(2, "nvmlDeviceGetUUID")
    fake.garbage(3, "nvmlDeviceGetPciInfo")

    async def scenario(one: Driven) -> None:
        gpus = one.source.latest.gpus
        assert [gpu.power_watts for gpu in gpus] == [330.0 + n for n in range(8)]
        assert (gpus[0].name, gpus[1].serial) == ("", None)
        assert gpus[2].uuid == "PCI-00000000:3B:00.0", "its address stands for it"
        agent = Agent(AgentConfig.model_validate({"agent": {"node": "n"}}).agent, one.clock, one.source, None)
        snapshot = dump_snapshot(agent.snapshot(None))
        assert len(parse_snapshot(json.loads(snapshot)).gpus) == 8

    driven(fake, scenario)


def test_two_indices_of_one_card_are_one_card(fake):
    fake.enumerate(0, 0, 1)

    async def scenario(one: Driven) -> None:
        assert [gpu.uuid for gpu in one.source.latest.gpus] == [fake.uuid(0), fake.uuid(1)]
        assert one.source.latest.devices_count == 2

    driven(fake, scenario)


def test_sixteen_gpus_are_sixteen_and_none_is_said_as_none(tmp_path):
    fake = FakeNvml(tmp_path / "nvml", gpus=16)

    async def scenario(one: Driven) -> None:
        assert [gpu.index for gpu in one.source.latest.gpus] == list(range(16))
        fake.enumerate()
        await one.until(lambda: one.source.health().kind == "no_devices")
        fake.enumerate(*range(16))
        await one.until(lambda: one.source.health().ok)
        assert len(one.source.latest.gpus) == 16

    driven(fake, scenario)


def test_a_card_that_was_lost_before_we_came_is_counted_though_it_has_no_name(fake):
    fake.error(6, "*", LOST)

    async def scenario(one: Driven) -> None:
        assert len(one.source.latest.gpus) == 7
        assert one.source.latest.devices_count == 8
        agent = Agent(AgentConfig.model_validate({"agent": {"node": "n"}}).agent, one.clock, one.source, None)
        assert agent.snapshot(None).expected_gpus == 8

    driven(fake, scenario)


def test_where_no_card_tells_its_name_the_driver_is_at_fault_not_the_node_empty(fake):
    fake.error("*", "nvmlDeviceGetHandleByIndex", UNKNOWN)

    async def scenario(one: Driven) -> None:
        health = one.source.health()
        assert (health.ok, health.kind) == (False, "unknown")
        assert "no GPU can be read" in health.error
        fake.heal()
        await one.until(lambda: one.source.health().ok)

    driven(fake, scenario)


def test_one_card_that_answers_nothing_but_errors_is_told_after_a_while(fake):
    async def scenario(one: Driven) -> None:
        fake.error(2, "*", UNKNOWN)
        await one.poll()
        assert one.source.latest.gpus[2].state == "unreadable"
        assert one.source.health().ok, "once may be a slip"
        for _ in range(5):
            await one.poll()
        assert (one.source.health().ok, one.source.health().kind) == (False, "unreadable")
        assert "GPU 2 cannot be read, 7 others can" in one.source.health().error

    driven(fake, scenario)


def test_a_driver_that_was_reloaded_is_taken_up_without_a_restart(fake):
    async def scenario(one: Driven) -> None:
        fake.error("-", "nvmlDeviceGetCount", UNINITIALIZED)
        await one.poll()
        assert not one.source.health().ok
        fake.heal()
        fake.enumerate(7, 6, 5, 4, 3, 2, 1, 0)
        await one.until(lambda: one.source.health().ok)
        assert [gpu.uuid for gpu in one.source.latest.gpus] == [fake.uuid(n) for n in range(7, -1, -1)]
        assert one.source.latest.gpus[0].power_watts == 337.0

    driven(fake, scenario)


def test_indices_that_were_shuffled_by_a_reset_keep_their_cards_after_release_and_resume(fake):
    async def scenario(one: Driven) -> None:
        fake.set(3, ecc_aggregate_uncorrected=9)
        await one.source.release()
        fake.enumerate(3, 1, 2, 0, 4, 5, 6, 7)
        one.source.resume()
        await one.until(lambda: one.source.health().ok)
        gpus = {gpu.uuid: gpu for gpu in one.source.latest.gpus}
        assert (gpus[fake.uuid(3)].index, gpus[fake.uuid(0)].index) == (0, 3)
        assert gpus[fake.uuid(3)].ecc_aggregate_uncorrected_count == 9

    driven(fake, scenario)
