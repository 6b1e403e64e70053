"""A demo that is looked at for an hour: after its hang the run works on and nobody is paged again."""

from __future__ import annotations

from tests.support.served_fleet import ServedFleet
from watcher.simulate.fleet import Fleet
from watcher.simulate.script import SCRIPTS, going_on


def test_after_its_script_the_run_goes_on_and_stays_healthy(tmp_path):
    site = ServedFleet(tmp_path, going_on(SCRIPTS["deadlock"]))
    site.play(3600)
    opened = [step["key"] for step in site.store.transitions() if step["event"] == "opened"]
    assert opened == ["demo-13B/stall"]
    assert site.daemon.frames["demo-13B"].progress.last_step > 4124 + 200
    site.close()


def test_steps_are_counted_the_same_whatever_part_of_the_log_is_read():
    fleet = Fleet(script=going_on(SCRIPTS["deadlock"]))
    whole = fleet.log_lines(0, 3000)
    parts = [line for t in range(0, 3000, 50) for line in fleet.log_lines(t, t + 50)]
    assert parts == whole
