"""Incidents of two and a half hours; during the first one something is broken. What came of it, in numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from alerts.channels.email import Email, EmailSection
from alerts.channels.pagerduty import PagerDuty, PagerDutySection
from alerts.incidents import Judged
from alerts.secret import Secret
from alerts.worker import Channel
from detectors.verdict import Subject
from tests.alerts.delivery_samples import CHAT, PAGER, House
from tests.alerts.http_script import Answer, ScriptedServer
from tests.alerts.incident_samples import T0, clear, finding, fires
from tests.support.pager import MailServer, Pager, lossy
from watcher.clock import FakeClock

FAULT_SECONDS, ALL_SECONDS, EVERY_SECONDS = 3600.0, 9000.0, 10.0
SLACK_SECONDS = 60.0  # clear for 30 s, seen every 10 s


class SteppedClock(FakeClock):
    """A clock of the machine that jumps, over one that does not."""

    step = 0.0

    def time(self) -> float:
        return self.now + self.step


@dataclass(frozen=True, slots=True)
class Trouble:
    """Instants in seconds of the script; `end` None: it goes on."""

    run: str
    begin: float
    end: float | None

    @property
    def key(self) -> str:
        return f"{self.run}/stall"

    def is_on(self, at: float) -> bool:
        return self.begin <= at and (self.end is None or at < self.end)


@dataclass
class Play:
    """What a fault may reach into; `at` is the second of the script."""

    house: House
    pager: Pager
    clock: SteppedClock
    chance: random.Random
    at: float = 0.0


@dataclass(frozen=True)
class Fault:
    """`answer` is how the receiver answers meanwhile; `each` is done at every tick of it, `after` when it is over."""

    name: str
    answer: Callable[[random.Random], Callable[[], Answer | None]] = lambda chance: lambda: None
    each: Callable[[Play], None] = lambda play: None
    after: Callable[[Play], None] = lambda play: None
    by_mail: bool = False
    deadline_seconds: float = 10.0  # on the wall

    def __str__(self) -> str:
        return self.name


def _fill(play: Play) -> None:
    pages = play.house.store._db.execute("PRAGMA page_count").fetchone()[0]
    play.house.store._db.execute(f"PRAGMA max_page_count = {pages}")


def _empty(play: Play) -> None:
    play.house.store._db.execute("PRAGMA max_page_count = 1000000")


def _kill(play: Play) -> None:
    if play.chance.random() < 0.3:
        play.house.kill()
        play.house.start()


def _step(play: Play) -> None:
    if play.chance.random() < 0.05:
        play.clock.step += play.chance.choice([-7200.0, -90.0, 90.0, 7200.0])


def _always(answer: Answer) -> Callable[[random.Random], Callable[[], Answer | None]]:
    return lambda chance: lambda: answer


FAULTS = [
    Fault("nothing is wrong"),
    Fault("an outage of an hour (503)", _always(Answer(503))),
    Fault("an hour of 429 with Retry-After", _always(Answer(429, "{}", {"Retry-After": "120"}))),
    Fault("an hour of answers that drip", _always(Answer.drip()), deadline_seconds=0.1),
    Fault("an hour in which 3 of 4 connections are reset", lossy),
    Fault("an hour of a full disk", each=_fill, after=_empty),
    Fault("an hour of kills", each=_kill),
    Fault("kills while connections are reset", lossy, each=_kill),
    Fault("an hour of clock steps of 90 s and of 2 h", each=_step),
    Fault("an hour of 451 by mail", _always(Answer(451)), by_mail=True),
]


@dataclass(frozen=True, slots=True)
class Report:
    """`late_seconds`: the longest wait for a page, counted from the end of the fault where it began before that."""

    incidents: int
    delivered: int
    repeated: int
    attempts: int
    late_seconds: float
    lost: list[str] = field(default_factory=list)
    wrongly_resolved: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    still_open: set[str] = field(default_factory=set)
    should_be_open: set[str] = field(default_factory=set)


def troubles(chance: random.Random, count: int = 40) -> list[Trouble]:
    """All kinds: within the fault, across its end, after it, and some that never end."""
    made = []
    for number in range(count):
        begin = EVERY_SECONDS * chance.randrange(0, 540)
        end = begin + EVERY_SECONDS * chance.randrange(6, 300) if chance.random() < 0.8 else None
        made.append(Trouble(f"run-{number}", begin, end))
    return made


def play(fault: Fault, folder: Path, seed: int = 1, incidents: int = 40) -> Report:
    chance = random.Random(seed)
    script, clock = troubles(chance, incidents), SteppedClock(T0)
    pager = Pager(lambda: clock.now - T0)
    with _receiver(fault, pager) as channel:
        house = House(
            folder, clock, {"oncall": (channel, CHAT if fault.by_mail else PAGER)},
            deadline_seconds=fault.deadline_seconds, reminder_seconds=0.0, pages_per_10_minutes=1000, storm_from=1000,
        )  # fmt: skip
        stage = Play(house, pager, clock, chance)
        pager.fault = fault.answer(chance)
        broken = True
        while stage.at < ALL_SECONDS:
            clock.now, stage.at = T0 + stage.at, stage.at
            if broken and stage.at >= FAULT_SECONDS:
                broken, pager.fault = False, lambda: None
                fault.after(stage)
            if broken:
                fault.each(stage)
            house.tick(*(_look(one, stage.at) for one in script))
            stage.at += EVERY_SECONDS
        house.kill()
    return _report(script, pager)


def _look(one: Trouble, at: float) -> Judged:
    if one.is_on(at):
        return fires(finding(subject=Subject(run=one.run)), run=one.run)
    return clear(run=one.run)


def _report(script: list[Trouble], pager: Pager) -> Report:
    by_key: dict[str, list[tuple[float, str]]] = {one.key: [] for one in script}
    for at, action, key in pager.taken:
        if key in by_key:
            by_key[key].append((at, action))
    lost, wrong, disorder, late, repeated = [], [], [], 0.0, 0
    for one in script:
        taken = by_key[one.key]
        triggers = [at for at, action in taken if action == "trigger"]
        if not triggers:
            lost.append(one.key)
            continue
        late = max(late, triggers[0] - max(one.begin, min(FAULT_SECONDS, triggers[0])))
        repeated += len(triggers) - 1
        if taken[0][1] != "trigger":
            disorder.append(one.key)
        if [at for at, action in taken if action == "resolve" and one.is_on(at)]:
            wrong.append(one.key)
        ends = [place for place, (_, action) in enumerate(taken) if action == "resolve"]
        if ends and "trigger" in [action for _, action in taken[ends[0] :]]:
            disorder.append(one.key)
    should = {one.key for one in script if one.is_on(ALL_SECONDS - SLACK_SECONDS)}
    return Report(
        len(script), len(script) - len(lost), repeated, pager.attempts, late, lost, wrong, disorder,
        pager.open & set(by_key), should,
    )  # fmt: skip


class _receiver:
    """A server of the kind that the fault is about, and the channel to it."""

    def __init__(self, fault: Fault, pager: Pager) -> None:
        self._by_mail, self._pager = fault.by_mail, pager

    def __enter__(self) -> Channel:
        if self._by_mail:
            self._mail = MailServer(self._pager)
            section = EmailSection(
                host="127.0.0.1", port=self._mail.port, tls="none", sender="w@example.org", to=("a@example.org",)
            )
            return Email(section)
        self._http = ScriptedServer()
        self._http.judge_with(self._pager.answer)
        return PagerDuty(PagerDutySection(routing_key=Secret("R" * 32), url=self._http.url("/v2/enqueue")))

    def __exit__(self, *error: object) -> None:
        (self._mail if self._by_mail else self._http).stop()
