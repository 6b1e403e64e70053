"""A silence has an end, is kept over a restart, and hushes what fits and nothing else."""

from __future__ import annotations

import pytest

from alerts.desk import AlertDesk
from alerts.outbox import Outbox
from alerts.policy import AlertPolicy, ChannelTraits, Match, Silence
from tests.alerts.test_actions import incident
from watcher.clock import FakeClock
from watcher.daemon.silences import SilenceError, Silences
from watcher.daemon.store import Store

CONFIGURED = Silence(name="window", until_at=2e9, match=Match(runs=("other",)))


class Site:
    def __init__(self, folder) -> None:
        self.folder, self.clock = folder, FakeClock()
        self.start()

    def start(self) -> None:
        self.store = Store(self.folder / "x.db")
        policy = AlertPolicy(channels={"c": ChannelTraits()}, silences=(CONFIGURED,))
        self.desk = AlertDesk(self.store, Outbox(["c"], self.clock, self.store), policy, self.clock)
        self.silences = Silences(self.desk, self.store, self.clock)

    def restart(self) -> None:
        self.store.close()
        self.start()

    def hushed(self, **about) -> bool:
        one = incident(**about)
        return any(silence.covers(one, self.clock.time()) for silence in self.desk.silences)


@pytest.fixture
def site(tmp_path):
    one = Site(tmp_path)
    yield one
    one.store.close()


def test_it_hushes_what_fits_until_its_end_also_over_a_restart(site):
    name = site.silences.add({"runs": ["r*"], "nodes": ["n3"], "seconds": 600, "by": "ada", "why": "moving"})
    site.restart()
    assert site.hushed(node="n3")
    assert not site.hushed(node="n4")
    mine = next(one for one in site.silences.all() if one["name"] == name)
    assert (mine["origin"], mine["by"], mine["why"], mine["active"]) == ("asked", "ada", "moving", True)
    site.clock.advance(601)
    assert not site.hushed(node="n3")
    assert [one["name"] for one in site.silences.all()] == ["window"]


def test_it_can_be_ended_early_and_stays_ended(site):
    name = site.silences.add({"signatures": "repeated_ecc", "seconds": 600})
    assert site.hushed()
    assert site.silences.remove(name)
    assert not site.hushed()
    site.restart()
    assert not site.hushed()
    assert not site.silences.remove(name)


def test_one_of_the_config_cannot_be_taken_over_or_ended(site):
    assert not site.silences.remove("window")
    with pytest.raises(SilenceError, match="stands under maintenance"):
        site.silences.add({"name": "window", "runs": ["x"], "seconds": 600})


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"seconds": 600}, "name runs, nodes or signatures"),
        ({"runs": ["x"]}, "each has an end"),
        ({"runs": ["x"], "seconds": 1}, "each has an end"),
        ({"runs": ["x"], "seconds": float("inf")}, "each has an end"),
        ({"runs": ["x"], "seconds": float("nan")}, "each has an end"),
        ({"runs": {"a": 1}, "seconds": 600}, "a list of at most"),
        ({"runs": ["x" * 500], "seconds": 600}, "each a text"),
        ({"runs": ["x"], "seconds": 600, "name": "a/b"}, "letters, digits"),
    ],
)
def test_what_is_no_silence_is_refused_in_one_line(site, wanted, why):
    with pytest.raises(SilenceError, match=why):
        site.silences.add(wanted)


def test_everything_must_be_said_in_words(site):
    site.silences.add({"everything": True, "seconds": 600})
    assert site.hushed(node="whatever")
