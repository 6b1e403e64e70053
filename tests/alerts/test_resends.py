"""A side that forgets is told again: under every key, with the labels it knows, and of the end as well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from alerts.policy import ChannelTraits, Silence
from detectors.verdict import Severity
from tests.alerts.incident_samples import T0, clear, finding, fires, gpu_finding
from tests.alerts.test_policy import KEY, Told

FORGETS = ChannelTraits(keeps_state=True, escalates=True, resend_seconds=60.0)
MILD = finding(severity=Severity.WARNING)
LOST = ("gpu_lost", "gpu_lost")


def _desk(**policy: Any) -> Told:
    return Told({"am": FORGETS}, **policy)


def _faces(desk: Told) -> list[tuple[str, str, str]]:
    """(kind, key, severity as it was at first) of the last messages."""
    return [(one.kind, one.dedup_key, one.face.severity.label) for one in desk.last.intents if one.face is not None]


def test_one_that_got_worse_is_kept_alive_and_ended_under_both_keys_as_they_were_first_told() -> None:
    desk = _desk()
    desk.at(0, fires(MILD))
    desk.at(10, fires(finding()))
    both = [(KEY, "warning"), (f"{KEY}/critical", "critical")]
    desk.at(80, fires(finding()))
    assert _faces(desk) == [("reminder", *one) for one in both]
    assert all(one.repeated for one in desk.last.intents)
    desk.at(90, clear())
    assert _faces(desk) == [("resolved", *one) for one in both]


def test_a_group_goes_by_one_face_whoever_of_it_recovers_first() -> None:
    desk = _desk(group_wait_seconds=0)
    lost = [gpu_finding(f"n{number}", gpu=f"GPU-{number}") for number in (1, 2, 3)]
    desk.at(0, fires(*lost))
    (first,) = desk.last.intents
    desk.at(70, fires(*lost[1:]))
    (again,) = desk.last.intents
    desk.at(80, clear(*LOST))
    (end,) = desk.last.intents
    assert first.face == again.face == end.face
    assert first.face is not None
    assert (first.face.family, first.face.node, first.face.gpu) == ("gpu_lost", None, None)
    assert first.dedup_key == again.dedup_key == end.dedup_key


def test_an_end_is_said_again_for_a_quarter_of_an_hour_and_not_once_it_is_back() -> None:
    desk = _desk()
    desk.at(0, fires(finding()))
    desk.at(10, clear())
    ends = [seconds for seconds in range(20, 2000, 10) if desk.at(seconds, clear())]
    assert 8 <= len(ends) <= 15
    assert ends[-1] <= 910
    desk.at(3000, fires(finding()))
    desk.at(3010, clear())
    desk.at(3020, fires(finding()))
    assert [one.kind for one in desk.last.intents] == ["opened"]
    assert [kind for at in range(3030, 3300, 10) for _, kind, _ in desk.at(at, fires(finding()))] == ["reminder"] * 4


def test_a_silence_and_a_snooze_are_no_end() -> None:
    desk = _desk(silences=(Silence(name="move", from_at=T0 + 5, until_at=T0 + 500),))
    desk.at(0, fires(finding()))
    desk.change(KEY, replace(desk.life.incidents[KEY], snoozed_until_at=T0 + 1000))
    said = [one for seconds in range(10, 1000, 10) for one in desk.at(seconds, fires(finding()))]
    assert [kind for _, kind, _ in said] == ["reminder"] * 16


def test_what_begins_in_a_silence_is_not_said_at_all() -> None:
    desk = _desk(silences=(Silence(name="move", from_at=T0 - 5, until_at=T0 + 500),))
    assert [one for seconds in range(0, 500, 10) for one in desk.at(seconds, fires(finding()))] == []
