"""A library that keeps to the letter of NVML's documentation and is obliging nowhere."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.support.driven_gpus import FIRST_DEADLINE, ShiftedClock
from tests.support.fake_nvml import build
from watcher.sources.nvml import NvmlSource

SOURCE = Path(__file__).parents[2] / "support/terse_nvml.c"
COMMAND = (sys.executable, "-m", "watcher.sources.nvml_child")
Scenario = Callable[[NvmlSource, Path], Awaitable[None]]


@pytest.fixture
def play(tmp_path) -> Callable[[Scenario], None]:
    library = build(tmp_path, source=SOURCE)
    env = {**os.environ, "LD_LIBRARY_PATH": str(library.parent), "TERSE_NVML": str(tmp_path)}

    async def played(scenario: Scenario) -> None:
        source = NvmlSource(ShiftedClock(), COMMAND, env=env)
        try:
            await source.poll(FIRST_DEADLINE)
            await scenario(source, tmp_path)
        finally:
            await source.close()

    return lambda scenario: asyncio.run(played(scenario))


def test_what_a_newer_call_refuses_an_older_one_tells(play):
    async def scenario(source: NvmlSource, folder: Path) -> None:
        assert source.health().ok, source.health()
        for gpu in source.latest.gpus:
            assert (gpu.state, gpu.error, gpu.power_watts, gpu.utilization_ratio) == ("ok", None, 500, 0.99)
            assert (gpu.power_limit_watts, gpu.temperature_celsius, gpu.process_count) == (700, 60, 2)
            assert (gpu.throttle_ratios["hw_thermal"], gpu.throttle_ratios["sw_power_cap"]) == (1, 0)
            assert (gpu.pcie_generation, gpu.pcie_width) == (5, None)
        assert os.getpid() in source.latest.pids

    play(scenario)


def test_a_value_that_the_driver_passes_over_is_not_zero(play):
    async def scenario(source: NvmlSource, folder: Path) -> None:
        for gpu in source.latest.gpus:
            assert gpu.memory_temperature_celsius == 55
            assert gpu.power_instant_watts is None
            assert gpu.recovery_action is None
            assert {"power_instant_watts", "recovery_action", "nvlink_error_count"} <= {*gpu.unsupported}

    play(scenario)


def test_an_event_of_a_handle_that_was_never_seen_is_of_the_card_that_it_names(play):
    async def scenario(source: NvmlSource, folder: Path) -> None:
        (folder / "xid1").touch()
        await source.poll(FIRST_DEADLINE)
        assert source.latest.xids == ((94, "GPU-terse-1"),)

    play(scenario)


def test_a_card_that_falls_off_the_bus_is_lost_and_whole_when_it_is_back(play):
    async def scenario(source: NvmlSource, folder: Path) -> None:
        (folder / "lost2").touch()
        await source.poll(FIRST_DEADLINE)
        assert [gpu.state for gpu in source.latest.gpus] == ["ok", "ok", "lost", "ok"]
        assert source.latest.gpus[2].uuid == "GPU-terse-2"
        (folder / "lost2").unlink()
        await source.poll(FIRST_DEADLINE)
        assert [gpu.state for gpu in source.latest.gpus] == ["ok"] * 4

    play(scenario)
