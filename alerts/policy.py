"""Which channel hears what and when, with a named reason for each message and each silence. Pure.

`decide` looks at the incidents as they are, not at what just happened: a window of silence that ends, a hold that
runs out or a restart of the daemon need no special case.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from alerts._duration import instant, spoken
from alerts._face import Face, face_of
from alerts._incident import Incident, bounded_key
from alerts._rules import AlertPolicy, ChannelTraits, Escalation, Inhibition, Match, NodeSet, Route, Silence, matches
from alerts._told import Ledger, Told, ToldMap
from alerts.notification import Kind, raised_key

__all__ = [
    "AlertPolicy", "ChannelTraits", "Decision", "Escalation", "Inhibition", "Intent", "Match", "NodeSet", "Route",
    "Silence", "Silent", "Told", "ToldMap", "decide", "matches",
]  # fmt: skip

CROWDED_SECONDS = 60.0  # between pages once a channel has had its share
END_REPEATED_SECONDS = 900.0  # ends are said again for so long where the other side forgets
STALE_NOTICE_SECONDS = 3600.0  # news older than this is no news to a channel that has not heard it


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A message to be written. `members` are all incidents of a grouped page, the worst first (else empty). `face`:
    what the key stood for at first."""

    channel: str
    kind: Kind
    incident: Incident
    dedup_key: str
    reason: str
    members: tuple[Incident, ...] = ()
    face: Face | None = None
    repeated: bool = False  # said before, for a side that forgets


@dataclass(frozen=True, slots=True)
class Silent:
    """Why a channel does not hear of an incident now."""

    channel: str
    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    intents: tuple[Intent, ...]
    silent: tuple[Silent, ...]
    told: dict[str, dict[str, Told]]  # to be stored together with the messages


def decide(incidents: Mapping[str, Incident], told: ToldMap, policy: AlertPolicy, now: float) -> Decision:
    """What to send now. `told` is the map of the last decision."""
    ledger = Ledger(told)
    intents: list[Intent] = []
    silent: list[Silent] = []
    for channel in sorted(policy.channels):
        one = _Channel(channel, policy.channels[channel], incidents, ledger, policy, now)
        one.end()
        one.keep_up()
        one.open()
        intents += one.intents
        silent += one.silent
    return Decision(tuple(intents), tuple(silent), ledger.only(incidents))


class _Channel:
    """One decision for one channel; ends come first, so that a key that is reused is closed before it opens."""

    def __init__(
        self, name: str, traits: ChannelTraits, incidents: Mapping[str, Incident], ledger: Ledger, policy: AlertPolicy,
        now: float,
    ) -> None:  # fmt: skip
        self.name, self.traits, self.ledger, self.policy, self.now = name, traits, ledger, policy, now
        self.incidents = [incidents[key] for key in sorted(incidents)]
        self.intents: list[Intent] = []
        self.silent: list[Silent] = []

    # -- what is over

    def end(self) -> None:
        holders = self.ledger.holders(self.name)
        again: set[str] = set()
        for incident in self.incidents:
            told = self.ledger.of(incident.key, self.name)
            if told is None or incident.state != "resolved":
                continue
            if told.ended:
                self._end_again(incident, told, {*holders}, again)
                continue
            for key in told.dedup_keys:
                holders[key] -= 1
                if holders[key] == 0:
                    del holders[key]
                    again.add(key)
                    self._say("resolved", incident, key, incident.resolve_reason or "it is over", face=told.face(key))
                else:
                    self._hush(incident, "others of its group are still open")
            self.ledger.put(incident.key, self.name, replace(told, ended=True, last_at=self.now))

    def _end_again(self, incident: Incident, told: Told, held: set[str], again: set[str]) -> None:
        """The other side may have been restarted since and know of a beginning only."""
        ended_at = incident.resolved_at if incident.resolved_at is not None else incident.last_changed_at
        recent = 0 <= self.now - ended_at <= END_REPEATED_SECONDS and told.incident_id == incident.id
        if not self._resend_due(told) or not recent or incident.notice:
            return
        for key in told.dedup_keys:
            if key not in held and key not in again:
                self._say("resolved", incident, key, incident.resolve_reason, face=told.face(key), repeated=True)
                again.add(key)
        self.ledger.put(incident.key, self.name, replace(told, last_at=self.now))

    # -- what was told and goes on

    def keep_up(self) -> None:
        reminded: set[str] = set()
        acknowledged_keys: set[str] = set()
        for incident in self.incidents:
            told = self.ledger.live(incident.key, self.name)
            if told is None or incident.state != "open":
                continue
            key = told.dedup_keys[-1]
            said = replace(
                told, severity=max(told.severity, incident.severity), signature=incident.signature, last_at=self.now
            )
            acknowledged = incident.acknowledged_at is not None
            if reason := self._held(incident):
                self._hush(incident, reason)
                if self._resend_due(told):  # silence is no end: what is not said again would count as one
                    self._keep_alive(incident, told, reminded)
                    self.ledger.put(incident.key, self.name, replace(told, last_at=self.now))
                continue
            if incident.severity > told.severity:
                said = self._raise(incident, told, said)
            elif incident.signature != told.signature and bounded_key(incident.key) in told.dedup_keys:
                why = f"it is seen more sharply, was {told.signature}"
                self._say("updated", incident, key, why, face=told.face(key))
            elif acknowledged and self.traits.keeps_state and not told.acknowledged:
                if key not in acknowledged_keys:
                    why = f"acknowledged by {incident.acknowledged_by or 'someone'}"
                    self._say("acknowledged", incident, key, why, face=told.face(key))
                acknowledged_keys.add(key)
                said = replace(said, acknowledged=True)
            elif self._resend_due(told):
                self._keep_alive(incident, told, reminded)
            elif self._reminder_due(told, acknowledged):
                if key not in reminded:
                    why = f"open and not acknowledged for {spoken(self._age(told))}"
                    self._say("reminder", incident, key, why, face=told.face(key))
                reminded.add(key)
                said = replace(said, times=told.times + 1)
            else:
                said = replace(said, signature=told.signature, last_at=told.last_at)
            self.ledger.put(incident.key, self.name, said)

    def _raise(self, incident: Incident, told: Told, said: Told) -> Told:
        """Under a second key where the other side swallows repeats of an open one; people read it in its thread."""
        face, why = face_of([incident]), f"it became {incident.severity.label}"
        said = replace(said, times=told.times + 1)
        if not self.traits.keeps_state:
            self._say("escalated", incident, told.dedup_keys[-1], why, face=face)
            return said
        key = raised_key(incident.key, incident.severity)
        self._say("escalated", incident, key, why, face=face)
        faces = tuple(told.face(old) or replace(face, severity=told.severity) for old in told.dedup_keys)
        return replace(said, dedup_keys=(*told.dedup_keys, key), faces=(*faces, face))

    def _keep_alive(self, incident: Incident, told: Told, reminded: set[str]) -> None:
        """Under each of its keys: one that is left out would end by itself."""
        for key in told.dedup_keys:
            if key not in reminded:
                why = "the other side forgets what is not said again"
                self._say("reminder", incident, key, why, face=told.face(key), repeated=True)
                reminded.add(key)

    def _age(self, told: Told) -> float:
        return self.now - told.first_at

    def _resend_due(self, told: Told) -> bool:
        every = self.traits.resend_seconds
        return every is not None and abs(self.now - told.last_at) >= every  # also where the clock was set back

    def _reminder_due(self, told: Told, acknowledged: bool) -> bool:
        every = self.policy.reminder_seconds
        return not (acknowledged or self.traits.escalates) and every > 0 and abs(self.now - told.last_at) >= every

    # -- what is new here

    def open(self) -> None:
        wanted: list[tuple[Incident, str]] = []
        for incident in self.incidents:
            why = self._why_open(incident)
            if why is None:
                continue
            if reason := self._held(incident):
                self._hush(incident, reason)
            else:
                wanted.append((incident, why))
        speakers = self._speakers([incident for incident, _ in wanted])
        known = self._known([incident for incident, _ in wanted])
        ready: list[tuple[Incident, str]] = []
        for incident, why in wanted:
            if speaker := _explanation(incident, known) or self._inhibitor(incident, speakers):
                self._hush(incident, f"{speaker} says it already")
            else:
                ready.append((incident, why))
        groups = {_group(incident) for incident, _ in ready if not self._waits(incident)}
        for incident, _ in ready:
            if _group(incident) not in groups:
                self._hush(incident, "waits for others of its kind")
        self._page([one for one in ready if _group(one[0]) in groups])  # one that is due takes its kind along

    def _why_open(self, incident: Incident) -> str | None:
        """The reason to tell this channel of this incident for the first time, or None."""
        before = self.ledger.of(incident.key, self.name)
        if before is not None and not before.ended:
            return None
        if incident.shadow or incident.state == "suspect":
            self._hush(incident, "on trial" if incident.shadow else "only suspected")
            return None
        if incident.state == "resolved":
            heard = before is not None and before.incident_id == incident.id
            fresh = incident.opened_at is not None and self.now - incident.opened_at <= STALE_NOTICE_SECONDS
            if not incident.notice or heard or not fresh:
                return None
        if self.name in self._routed(incident):
            return "came back" if incident.opens > 1 else "opened"
        return self._escalation(incident)

    def _routed(self, incident: Incident) -> frozenset[str]:
        """A channel never reports its own failure: if no other one is routed, all others hear of it."""
        routed = self.policy.routed(incident)
        if incident.signature != "delivery_failed":
            return routed
        own = {str(incident.evidence.get("channel"))}
        return routed - own or frozenset(self.policy.channels) - own

    def _escalation(self, incident: Incident) -> str | None:
        told_at = self.ledger.first_at(incident.key)
        if incident.acknowledged_at is not None or told_at is None:
            return None
        for rule in self.policy.escalations:
            fits = self.name in rule.to and incident.severity >= rule.severity and rule.match.fits(incident)
            if fits and abs(self.now - told_at) >= rule.after_seconds:
                return f"nobody acknowledged for {spoken(self.now - told_at)}"
        return None

    def _held(self, incident: Incident) -> str:
        if incident.snoozed_until_at is not None and self.now < incident.snoozed_until_at:
            return f"snoozed until {instant(incident.snoozed_until_at)}"
        for silence in self.policy.silences:
            if silence.covers(incident, self.now):
                return f"silence {silence.name!r} until {instant(silence.until_at)}"
        opened_at = incident.opened_at if incident.opened_at is not None else self.now
        if incident.state == "open" and 0 <= self.now - opened_at < incident.restart_hold_seconds:
            return "waits for a restart that would make it moot"
        return ""

    def _known(self, wanted: list[Incident]) -> dict[str, Incident]:
        """The open incidents that this channel knows of or is about to hear of."""
        told = [one for one in self.incidents if self.ledger.live(one.key, self.name) is not None]
        return {one.key: one for one in (*told, *wanted) if one.state == "open"}

    def _speakers(self, wanted: list[Incident]) -> dict[tuple[int, str], list[str]]:
        """Per rule and node (or run): the open incidents that this channel knows of or is about to hear of."""
        told = [one for one in self.incidents if self.ledger.live(one.key, self.name) is not None]
        speakers: dict[tuple[int, str], list[str]] = defaultdict(list)
        for incident in (*told, *wanted):
            for number, rule in enumerate(self.policy.inhibitions):
                place = _place(incident, rule)
                if place and incident.state == "open" and matches(rule.by, incident.signature, incident.family):
                    speakers[number, place].append(incident.key)
        return speakers

    def _inhibitor(self, incident: Incident, speakers: Mapping[tuple[int, str], list[str]]) -> str:
        for number, rule in enumerate(self.policy.inhibitions):
            if matches(rule.hush, incident.signature, incident.family):
                for key in speakers.get((number, _place(incident, rule)), ())[:2]:
                    if key != incident.key:
                        return key
        return ""

    def _waits(self, incident: Incident) -> bool:
        opened_at = incident.opened_at if incident.opened_at is not None else self.now
        of_a_node = incident.subject.node is not None and not incident.notice
        return of_a_node and 0 <= self.now - opened_at < self.policy.group_wait_seconds

    def _page(self, ready: list[tuple[Incident, str]]) -> None:
        groups: dict[str, list[tuple[Incident, str]]] = defaultdict(list)
        for incident, why in ready:
            groups[_group(incident)].append((incident, why))
        pages = list(groups.values())
        left = self.policy.pages_per_10_minutes - self.ledger.pages_within(self.name, 600.0, self.now)
        if left <= 0 and self.ledger.pages_within(self.name, CROWDED_SECONDS, self.now):
            for incident, _ in ready:
                self._hush(incident, "too many pages lately, goes out with others within a minute")
            return
        if len(pages) > max(1, min(self.policy.storm_from, left)):
            pages = [[one for page in pages for one in page]]
        for page in pages:
            page.sort(key=lambda one: (-int(one[0].severity), one[0].key))
            self._tell(page)

    def _tell(self, page: list[tuple[Incident, str]]) -> None:
        first, why = page[0]
        members = tuple(incident for incident, _ in page) if len(page) > 1 else ()
        key = _group_key(members, self.ledger.holders(self.name)) if members else bounded_key(first.key)
        kind: Kind = "escalated" if why.startswith("nobody") else "opened"
        face = face_of(members or [first])
        self._say(kind, first, key, why, members, face)
        ended = all(incident.state == "resolved" for incident, _ in page)
        if ended and self.traits.keeps_state:
            self._say("resolved", first, key, "it was only news", face=face)
        for incident, _ in page:
            told = Told(
                incident_id=incident.id, dedup_keys=(key,), severity=incident.severity, signature=incident.signature,
                first_at=self.now, last_at=self.now, ended=ended, faces=(face,),
            )  # fmt: skip
            self.ledger.put(incident.key, self.name, told)

    # -- words of the decision

    def _say(
        self, kind: Kind, incident: Incident, key: str, why: str, members: tuple[Incident, ...] = (),
        face: Face | None = None, repeated: bool = False,
    ) -> None:  # fmt: skip
        self.intents.append(
            Intent(
                channel=self.name, kind=kind, incident=incident, dedup_key=key, reason=why, members=members, face=face,
                repeated=repeated,
            )
        )  # fmt: skip

    def _hush(self, incident: Incident, reason: str) -> None:
        self.silent.append(Silent(self.name, incident.key, reason))


def _explanation(incident: Incident, known: Mapping[str, Incident]) -> str:
    """The incident that this one follows from, where that is known here and as grave."""
    for key in incident.explained_by:
        cause = known.get(key)
        if cause is None or cause.key == incident.key or cause.severity < incident.severity:
            continue
        if not _follows(cause, incident.key, known):  # two that explain each other explain nothing
            return key
    return ""


def _follows(incident: Incident, cause: str, known: Mapping[str, Incident]) -> bool:
    seen, waiting = {incident.key}, [incident]
    while waiting:
        for key in waiting.pop().explained_by:
            if key == cause:
                return True
            if key in known and key not in seen:
                seen.add(key)
                waiting.append(known[key])
    return False


def _group(incident: Incident) -> str:
    """What goes out together: the same trouble on several nodes of a run."""
    if incident.subject.node is None or incident.notice:
        return incident.key
    return f"{incident.run or 'watchdog'}/{incident.family}"


def _place(incident: Incident, rule: Inhibition) -> str:
    return (incident.subject.node if rule.same == "node" else incident.run) or ""


def _group_key(members: Sequence[Incident], held: Collection[str]) -> str:
    """By its first member: a second daemon that sees one node more or less has the same. Not one that is open, whose
    repeat a pager would swallow: then by all of its members, then by these very openings of them."""
    keys, ids = sorted(one.key for one in members), sorted(one.id for one in members)
    families = sorted({_group(incident) for incident in members})
    family = families[0] if len(families) == 1 else "several"
    choices = [bounded_key(f"{family}/group/{_digest(named)}") for named in (keys[:1], keys, ids)]
    return next((key for key in choices if key not in held), choices[-1])


def _digest(words: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:16]
