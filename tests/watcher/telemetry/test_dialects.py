"""Each exporter's words as readings: what is said, in our units; what is not said, absent."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from detectors.telemetry import GpuReading
from tests.support.exporters import Shown, dcgm
from watcher.agent.gpu_metrics import gpu_metrics
from watcher.telemetry._api import load_telemetry
from watcher.telemetry._dialect import Dialect, read_gpus
from watcher.telemetry._samples import read_exposition


def dialect(name: str) -> Dialect:
    found = load_telemetry()[name].dialect
    assert found is not None
    return found


def read(name: str, text: str, limit: float | None = None) -> tuple[GpuReading, ...]:
    words = dialect(name)
    return read_gpus(words, read_exposition(text, words.metrics()), limit).gpus


def test_dcgm_exporter_with_its_default_counters():
    (gpu,) = read("dcgm_exporter", dcgm("n1", [Shown(index=3, energy_mj=5_000.0)]))
    assert (gpu.uuid, gpu.index, gpu.name, gpu.pci_bus_id) == (
        "GPU-n1-0003", 3, "NVIDIA H100 80GB HBM3", "00000000:04:00.0",
    )  # fmt: skip
    assert (gpu.power_watts, gpu.utilization_ratio, gpu.temperature_celsius) == (600.0, 0.98, 60.0)
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (70_000 << 20, 80_000 << 20)
    assert gpu.energy_joules == 5.0
    assert gpu.power_limit_watts is None
    assert gpu.ecc_volatile_uncorrected_count is None
    assert "power_limit_watts" in gpu.unsupported


def test_a_limit_from_the_config_stands_in_for_one_that_is_not_told():
    assert read("dcgm_exporter", dcgm("n1", [Shown()]), 700.0)[0].power_limit_watts == 700.0
    assert read("dcgm_exporter", dcgm("n1", [Shown(limit=500.0)]), 700.0)[0].power_limit_watts == 500.0


def test_blank_values_of_dcgm_are_no_values():
    blanks = Shown(power=140_737_488_355_328.0, more={"ECC_DBE_VOL_TOTAL": 9_223_372_036_854_775_794.0})
    (gpu,) = read("dcgm_exporter", dcgm("n1", [blanks]))
    assert gpu.power_watts is None
    assert gpu.ecc_volatile_uncorrected_count is None


def test_a_mig_slice_says_nothing_of_the_whole_card():
    (gpu,) = read("dcgm_exporter", dcgm("n1", [Shown()], ',GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"'))
    assert gpu.mig
    assert gpu.utilization_ratio is None
    assert gpu.power_watts == 600.0


def test_throttle_bits_are_reasons():
    (gpu,) = read("dcgm_exporter", dcgm("n1", [Shown(more={"CLOCKS_EVENT_REASONS": float(0x40 | 0x4)})]))
    assert gpu.throttle_ratios is not None
    assert gpu.throttle_ratios["hw_thermal"] == 1.0
    assert gpu.throttle_ratios["hw_power_brake"] == 0.0


def test_nvidia_gpu_exporter_gets_its_names_from_the_info_series():
    text = """
nvidia_smi_gpu_info{uuid="aa-bb",name="NVIDIA L40S",pci_bus_id="00000000:71:00.0",index="2"} 1
nvidia_smi_power_draw_watts{uuid="aa-bb"} 101.5
nvidia_smi_enforced_power_limit_watts{uuid="aa-bb"} 350
nvidia_smi_utilization_gpu_ratio{uuid="aa-bb"} 1
nvidia_smi_memory_used_bytes{uuid="aa-bb"} 7.06740224e+08
nvidia_smi_memory_total_bytes{uuid="aa-bb"} 4.8e+10
nvidia_smi_clocks_current_sm_clock_hz{uuid="aa-bb"} 1.98e+09
nvidia_smi_clocks_event_reasons_hw_thermal_slowdown{uuid="aa-bb"} 1
nvidia_smi_ecc_errors_uncorrected_volatile_total{uuid="aa-bb"} 2
nvidia_smi_remapped_rows_pending{uuid="aa-bb"} 1
"""
    (gpu,) = read("nvidia_gpu_exporter", text)
    assert (gpu.uuid, gpu.index, gpu.name) == ("GPU-aa-bb", 2, "NVIDIA L40S")
    assert (gpu.power_watts, gpu.power_limit_watts, gpu.utilization_ratio) == (101.5, 350.0, 1.0)
    assert gpu.sm_clock_mhz == 1980.0
    assert gpu.throttle_ratios == {"hw_thermal": 1.0}
    assert (gpu.ecc_volatile_uncorrected_count, gpu.remap_pending) == (2, True)


def test_nvitop_exporter_names_carry_units_and_a_lost_gpu_is_nan():
    def rows(index: int, watts: str, percent: str) -> str:
        who = f'{{hostname="n1",index="{index}",devicename="NVIDIA A100",uuid="GPU-{index}"}}'
        return f"gpu_power_usage_W{who} {watts}\ngpu_utilization_Percentage{who} {percent}\n"

    well, lost = read("nvitop_exporter", rows(0, "250.5", "97") + rows(1, "NaN", "NaN"))
    assert (well.power_watts, well.utilization_ratio, well.state) == (250.5, 0.97, "ok")
    assert (lost.power_watts, lost.state) == (None, "unreadable")


def test_slices_of_nvitop_are_passed_over():
    text = 'gpu_power_usage_W{hostname="n",index="0:1",devicename="x MIG 1g.5gb",uuid="MIG-1"} 100\n'
    assert read("nvitop_exporter", text) == ()


def test_our_own_metrics_come_back_as_the_readings_they_were_made_of():
    reading = GpuReading(
        uuid="GPU-1", index=4, name="NVIDIA H100", pci_bus_id="0:1:0", power_watts=500.0, power_limit_watts=700.0,
        utilization_ratio=0.5, memory_used_bytes=1 << 30, memory_total_bytes=1 << 36, sm_clock_mhz=1980.0,
        ecc_volatile_uncorrected_count=3, remap_pending=True, throttle_ratios={"hw_thermal": 0.25}, pcie_width=16,
        energy_joules=12.5,
    )  # fmt: skip

    class Collector:
        def collect(self):
            return gpu_metrics("n1", [reading], {})  # type: ignore[arg-type]

    registry = CollectorRegistry()
    registry.register(Collector())  # type: ignore[arg-type]
    (gpu,) = read("runwatch_agent", generate_latest(registry).decode())
    same = ("uuid", "index", "name", "power_watts", "power_limit_watts", "utilization_ratio", "memory_used_bytes",
            "sm_clock_mhz", "ecc_volatile_uncorrected_count", "remap_pending", "pcie_width")  # fmt: skip
    assert [getattr(gpu, name) for name in same] == [getattr(reading, name) for name in same]
    assert gpu.throttle_ratios == {"hw_thermal": 0.25}


@pytest.mark.parametrize(
    "bad",
    [
        "DCGM_FI_DEV_POWER_USAGE{gpu= 12\n",
        'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-n1-0000"} twelve\n',
        'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-n1-0000"} -5\n',
        'DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-n1-0000"} 1e300\n',
        "\x00\xff{}{}{}\n" + "x" * 100_000 + "\n",
    ],
)
def test_what_cannot_be_read_costs_no_more_than_itself(bad):
    (gpu,) = read("dcgm_exporter", bad + dcgm("n1", [Shown(power=None)]))
    assert gpu.utilization_ratio == 0.98
    assert gpu.power_watts is None


def test_more_gpus_than_any_node_has_are_cut_off():
    assert len(read("dcgm_exporter", dcgm("n1", [Shown(index=n) for n in range(500)]))) == 64
