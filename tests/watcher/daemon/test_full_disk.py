"""A disk that is really full: a file system of a few megabytes, and a file that takes the rest of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.alerts.delivery_samples import PAGER, House, Scripted
from tests.alerts.incident_samples import finding, fires
from watcher.clock import FakeClock

MANY = 30


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def _fill(file: Path) -> None:
    handle = os.open(file, os.O_CREAT | os.O_WRONLY)
    try:
        while True:
            os.write(handle, b"x" * 4096)
    except OSError:
        os.close(handle)


def test_pages_go_out_over_a_full_disk_and_all_is_written_down_when_there_is_room(small_disk: Path) -> None:
    clock = FakeClock()
    pager = Scripted(clock)
    house = House(small_disk, clock, {"oncall": (pager, PAGER)}, storm_from=1000, pages_per_10_minutes=1000)
    stall = fires(finding())
    house.tick(stall)
    _fill(small_disk / "filler")
    text = "x" * 3000
    many = [fires(finding(f"kind{number}", family="", evidence={"text": text})) for number in range(MANY)]
    for number in range(1, MANY + 1):
        clock.advance(10)
        house.tick(stall, *many[:number])
    told = {one.incident.signature for _, one in pager.seen}
    assert {f"kind{number}" for number in range(MANY)} | {"store_failed"} <= told
    assert "free space on its disk" in (house.desk.store_error or "")
    assert len(house.warnings) < 5  # the log may lie on the same disk
    (small_disk / "filler").unlink()
    clock.advance(10)
    house.tick(stall, *many)
    assert house.desk.store_error is None
    house.kill()
    house.start()
    before = len(pager.seen)
    house.tick(stall, *many)
    assert len(pager.seen) == before
    assert house.store.load().deliveries == []
    house.kill()
