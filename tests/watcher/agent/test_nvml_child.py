"""The real pynvml in a real child process over a scripted library: it hangs, crashes, loses GPUs, and comes back."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.driven_gpus import Driven, ShiftedClock, driven
from tests.support.fake_nvml import LOST, MISMATCH, NO_PERMISSION, UNKNOWN, FakeNvml
from watcher.sources.nvml import COMMAND, NvmlSource


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    return FakeNvml(tmp_path / "nvml")


def test_it_reads_what_the_card_says(fake):
    async def scenario(one: Driven) -> None:
        gpu = one.source.latest.gpus[3]
        assert (gpu.uuid, gpu.index, gpu.power_watts, gpu.power_limit_watts) == (fake.uuid(3), 3, 333.0, 400.0)
        assert (gpu.utilization_ratio, gpu.memory_utilization_ratio) == (0.98, 0.55)
        assert (gpu.ecc_volatile_uncorrected_count, gpu.ecc_aggregate_corrected_count) == (0, 3)
        assert gpu.pci_bus_id == "00000000:4B:00.0"
        assert one.source.health().ok

    driven(fake, scenario)


def test_a_call_that_never_returns_is_told_and_replaced_and_all_is_whole_again_after_it(fake):
    async def scenario(one: Driven) -> None:
        one.deadline = 0.1
        fake.hang("*", "nvmlDeviceGetPowerUsage")
        first = one.source.latest
        await one.until(lambda: one.source.health().kind == "stuck")
        assert one.source.latest is first, "what was read before keeps its age"
        assert "has not returned" in one.source.health().error
        for _ in range(8):
            await one.poll()
        assert len(one.source._left_behind) <= 2
        fake.heal()
        await one.until(lambda: one.source.health().ok)
        assert len(one.source.latest.gpus) == 8

    driven(fake, scenario)


def test_one_gpu_that_never_answers_leaves_the_others_fresh_and_is_named_with_what_was_asked(fake):
    async def scenario(one: Driven) -> None:
        fake.hang(3, "nvmlDeviceGetPowerUsage")
        for _ in range(12):
            await one.poll()
            gpus = one.source.latest.gpus
            assert [gpu.power_watts for gpu in gpus if gpu.index != 3] == [330.0 + n for n in range(8) if n != 3]
            assert gpus[3].state == "unreadable"
            assert (gpus[3].uuid, gpus[3].power_watts, gpus[3].utilization_ratio) == (fake.uuid(3), None, None)
        health = one.source.health()
        assert (health.ok, health.kind) == (False, "stuck")
        assert "GPU 3 has not answered for" in health.error
        assert "power_watts" in health.error
        assert fake.uuid(3) in health.error
        assert one.source.latest.gpus[3].unread_seconds == pytest.approx(120, abs=15)
        assert health.age_seconds >= one.source.latest.gpus[3].unread_seconds
        assert one.source.replacements_count == 0
        assert len(list(Path(f"/proc/{one.source._child.pid}/task").iterdir())) == 2, (
            "one thread waits, not one a cycle"
        )
        fake.heal()
        await one.until(lambda: one.source.health().ok)
        assert one.source.latest.gpus[3].power_watts == 333.0

    driven(fake, scenario)


def test_one_gpu_that_takes_long_for_every_call_is_tried_last_and_again_and_again(fake):
    async def scenario(one: Driven) -> None:
        fake.delay(0, "*", 0.5)
        for _ in range(8):
            await one.poll()
            gpus = one.source.latest.gpus
            assert all(gpu.power_watts is not None for gpu in gpus[1:])
            assert gpus[0].power_watts is None
        assert one.source.health().kind == "stuck"
        fake.heal()
        await one.until(lambda: one.source.health().ok, polls=500)
        assert one.source.latest.gpus[0].power_watts == 330.0

    driven(fake, scenario)


def test_a_gpu_that_hangs_before_it_told_its_name_costs_the_others_nothing(fake):
    fake.hang(2, "*")

    async def scenario(one: Driven) -> None:
        for _ in range(6):
            await one.poll()
        assert [gpu.index for gpu in one.source.latest.gpus] == [0, 1, 3, 4, 5, 6, 7]
        assert one.source.latest.devices_count == 7, "it is not lost, it only does not answer"
        assert "GPU 2 has not answered" in one.source.health().error
        fake.heal()
        await one.until(lambda: one.source.health().ok)
        assert len(one.source.latest.gpus) == 8

    driven(fake, scenario)


def test_a_gpu_whose_reading_crashes_is_found_and_left_out_and_taken_again_when_it_is_well(fake):
    async def scenario(one: Driven) -> None:
        fake.crash(5, "nvmlDeviceGetPowerUsage")
        await one.until(lambda: one.source.latest.gpus[5].state == "unreadable", polls=10)
        gpus = one.source.latest.gpus
        assert [gpu.index for gpu in gpus if gpu.power_watts is not None] == [0, 1, 2, 3, 4, 6, 7]
        assert (gpus[5].uuid, gpus[5].pci_bus_id) == (fake.uuid(5), "00000000:6B:00.0")
        assert one.source.health().kind == "crashed"
        assert "GPU 5 cannot be read, 7 others can" in one.source.health().error
        crashes = one.source.replacements_count
        assert crashes == 2, "the first crash does not tell whose it was"
        await one.until(lambda: one.source.replacements_count == crashes + 1, polls=10)
        fake.heal()
        await one.until(lambda: one.source.health().ok, polls=30)
        assert one.source.latest.gpus[5].power_watts == 335.0

    driven(fake, scenario)


def test_children_that_no_signal_ends_are_two_at_most_and_the_agent_goes_on(fake, monkeypatch):
    monkeypatch.setattr(asyncio.subprocess.Process, "kill", lambda child: None)
    monkeypatch.setattr("watcher.sources.nvml.KILL_REAL_SECONDS", 0.05)

    async def scenario(one: Driven) -> None:
        one.deadline = 0.1
        fake.hang("*", "nvmlDeviceGetPowerUsage")
        await one.until(lambda: len(one.source._left_behind) == 2)
        for _ in range(10):
            await one.poll(60)
        assert len(one.source._left_behind) == 2
        assert (one.source._child, one.source.health().kind) == (None, "stuck")
        monkeypatch.undo()
        for child in one.source._left_behind:  # what was sent takes effect when the call returns
            child.kill()
        fake.heal()
        await one.until(lambda: one.source.health().ok, polls=500)

    driven(fake, scenario)


def test_a_hang_at_the_very_start_is_told_too(fake):
    fake.hang("-", "nvmlInit")

    async def scenario(one: Driven) -> None:
        one.deadline = 0.1
        await one.until(lambda: one.source.health().kind == "stuck")
        assert one.source.latest is None

    driven(fake, scenario, first_deadline=0.1)


def test_a_slow_answer_past_the_deadline_is_still_taken(fake):
    async def scenario(one: Driven) -> None:
        one.deadline = 0.4
        fake.delay("-", "nvmlDeviceGetCount", 0.5)
        before = one.source.latest
        await one.poll()
        assert one.source.latest is before
        await one.poll()
        assert one.source.latest is not before
        assert one.source.replacements_count == 0

    driven(fake, scenario)


def test_a_native_crash_costs_one_child_and_recovers_by_itself(fake):
    async def scenario(one: Driven) -> None:
        fake.crash(2, "nvmlDeviceGetPowerUsage")
        await one.poll()
        assert one.source.health().kind == "crashed"
        assert "signal 11" in one.source.health().error
        fake.heal()
        await one.until(lambda: one.source.health().ok)

    driven(fake, scenario)


def test_one_lost_gpu_of_eight_loses_nobody_else_and_keeps_its_name_through_the_index_shift(fake):
    async def scenario(one: Driven) -> None:
        fake.error(5, "*", LOST)
        await one.poll()
        lost = [gpu for gpu in one.source.latest.gpus if gpu.state == "lost"]
        assert [(gpu.uuid, gpu.index, gpu.pci_bus_id) for gpu in lost] == [(fake.uuid(5), 5, "00000000:6B:00.0")]
        assert all(gpu.power_watts is not None for gpu in one.source.latest.gpus if gpu.state == "ok")
        fake.enumerate(0, 1, 2, 3, 4, 6, 7)
        await one.poll()
        assert [(gpu.index, gpu.uuid) for gpu in one.source.latest.gpus][5:] == [(5, fake.uuid(6)), (6, fake.uuid(7))]
        fake.heal()
        fake.enumerate(*range(8))
        await one.poll()
        assert [gpu.uuid for gpu in one.source.latest.gpus] == [fake.uuid(gpu) for gpu in range(8)]

    driven(fake, scenario)


def test_not_supported_is_absent_and_not_asked_again_while_an_error_is_unknown(fake):
    async def scenario(one: Driven) -> None:
        fake.set(1, ecc_volatile_uncorrected=None, energy_mj=None)
        fake.error(2, "nvmlDeviceGetPowerUsage", UNKNOWN)
        await one.poll()
        gpus = one.source.latest.gpus
        assert gpus[1].ecc_volatile_uncorrected_count is None
        assert gpus[1].state == "ok"
        assert gpus[2].power_watts is None
        assert gpus[2].utilization_ratio == 0.98
        assert "power_watts" in gpus[2].error

    driven(fake, scenario)


def test_impossible_values_are_dropped_and_counted(fake):
    async def scenario(one: Driven) -> None:
        fake.set(0, power_mw=2_147_483_000, util=255)
        await one.poll()
        gpu = one.source.latest.gpus[0]
        assert gpu.power_watts is None
        assert gpu.utilization_ratio is None
        assert len(one.source.latest.rejected) == 2

    driven(fake, scenario)


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (NO_PERMISSION, "no_permission", "/dev/nvidia"),
        (MISMATCH, "driver_mismatch", "reboot"),
        (9, "no_driver", "not loaded"),
        (UNKNOWN, "unknown", "container"),
        (15, "unknown", "GPU is lost"),
    ],
)
def test_a_driver_that_refuses_is_named_with_what_to_do(fake, code, kind, text):
    fake.error("-", "nvmlInit", code)

    async def scenario(one: Driven) -> None:
        health = one.source.health()
        assert (health.ok, health.kind) == (False, kind)
        assert text in health.error
        assert one.source.replacements_count == 0
        fake.heal()
        await one.poll()
        assert one.source.health().ok

    driven(fake, scenario)


def test_no_library_at_all_is_a_state_and_one_that_comes_later_is_taken_up(fake, tmp_path):
    place = tmp_path / "later"
    place.mkdir()

    async def play() -> None:
        clock = ShiftedClock()
        source = NvmlSource(clock, env={**fake.env(), "LD_LIBRARY_PATH": str(place)})
        await source.poll(10)
        assert source.health().kind == "no_library"
        (place / fake.library.name).symlink_to(fake.library)
        clock.shift += 60
        await source.poll(10)
        assert source.health().ok
        await source.close()

    asyncio.run(play())


def test_the_child_ends_with_its_parent(fake):
    code = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen({list(COMMAND)!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "child.stdin.write(b'read\\n'); child.stdin.flush(); child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "import os; os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=fake.env(), capture_output=True, text=True, timeout=30)
    pid = int(done.stdout)

    def gone() -> bool:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        return True

    async def wait() -> None:
        for _ in range(200):
            if gone():
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"the child {pid} outlives its parent")

    asyncio.run(wait())


def test_a_foreign_pynvml_is_refused_in_one_line(tmp_path):
    (tmp_path / "pynvml.py").write_text("nvmlInit = None\n")
    code = "from watcher.sources.bindings import load_pynvml\ntry:\n load_pynvml()\nexcept ImportError as e:\n print(e)"
    env = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=30, check=True)
    assert "does not come from nvidia-ml-py" in done.stdout
    assert done.stdout.count("\n") == 1


def test_the_gpus_are_let_go_on_request_and_taken_again(fake):
    async def scenario(one: Driven) -> None:
        await one.source.release()
        await one.poll()
        assert one.source._child is None
        assert one.source.health().kind == "released"
        one.source.resume()
        await one.until(lambda: one.source.health().ok)

    driven(fake, scenario)
