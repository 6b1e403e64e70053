"""The line that `systemctl status` shows, and when a restart would help."""

from __future__ import annotations

import asyncio

import pytest

from tests.watcher.daemon.test_app import House
from watcher.daemon.status_line import status_line


class DeadWorker:
    name, alive = "oncall", False


@pytest.fixture
def house(tmp_path):
    one = House(tmp_path)
    yield one
    one.store.close()


def test_it_says_what_is_watched_and_what_is_open(house):
    house.cycles(1)
    assert status_line(house.daemon) == "watching 1 run on 1 node, 1 answering; 0 open"
    assert house.daemon.works


def test_a_cycle_that_failed_is_said_first_and_does_not_count_as_working(house):
    async def broken(note: object = None) -> list[object]:
        raise RuntimeError("no more files")

    house.agents.ask_all = broken
    asyncio.run(house.daemon.tick())
    assert status_line(house.daemon).startswith("the last cycle failed: RuntimeError('no more files'); watching 1 run")
    assert not house.daemon.works


def test_a_channel_whose_thread_has_ended_does_not_count_as_working(house):
    house.cycles(1)
    house.daemon.workers = (DeadWorker(),)
    assert not house.daemon.works
    assert status_line(house.daemon).startswith("nothing goes out through oncall; ")


def test_a_full_disk_is_said_and_no_reason_to_begin_anew(house):
    house.cycles(1)
    house.daemon.desk.store_error = "disk full"
    assert house.daemon.works
    assert status_line(house.daemon).startswith("the database cannot be written: disk full; ")
