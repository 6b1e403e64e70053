from __future__ import annotations

import json

import numpy as np
import pytest

from alerts.incidents import bounded_key, transition_to_json
from detectors.verdict import Clear, Firing, Severity, Subject, Unknown
from tests.alerts.incident_samples import RUN, T0, Life, clear, finding, fires, gpu_finding, judged

KEY = f"{RUN}/stall"


def test_a_suspicion_is_recorded_then_opens_then_resolves_on_a_clear_look() -> None:
    life = Life(resolve_after_seconds=0)
    assert life.at(0, fires(finding(stage="suspect"))) == ["suspected"]
    assert life.at(10, fires(finding(stage="suspect"))) == []
    assert life.at(20, fires(finding())) == ["opened"]
    assert life.at(30, fires(finding())) == []
    assert life.at(40, clear()) == ["resolved"]
    assert life.incidents[KEY].resolve_reason == "moved on by itself after 40 s"


def test_a_suspicion_that_passes_leaves_nothing_behind() -> None:
    life = Life()
    life.at(0, fires(finding(stage="suspect")))
    assert life.at(10, clear()) == ["resolved"]
    assert life.incidents == {}


@pytest.mark.parametrize(
    ("why", "looks"),
    [
        ("the detector could not look", [judged(Unknown("agent silent"))]),
        ("nobody was asked", []),
        ("only another member of the family looked", [clear("busy_stall")]),
        ("another member of the family could not look", [clear(), judged(Unknown("no power"), "busy_stall")]),
        ("only another run was judged", [clear(run="other")]),
        ("a doubled judgement says two things", [clear(), judged(Unknown("late"))]),
    ],
)
def test_an_open_incident_stays_open_when(why: str, looks: list) -> None:  # type: ignore[type-arg]
    life = Life(resolve_after_seconds=0)
    life.at(0, fires(finding()))
    for seconds in (10, 400, 4000):
        assert life.at(seconds, *looks) == [], why
    assert life.incidents[KEY].state == "open"


def test_a_node_nobody_could_see_keeps_its_incident_while_the_others_resolve() -> None:
    life = Life(resolve_after_seconds=0)
    life.at(0, fires(gpu_finding("n3"), gpu_finding("n4")))
    blind = judged(Clear(unknown_nodes=frozenset({"n3"})), "gpu_lost", "gpu_lost")
    assert life.at(10, blind) == ["resolved"]
    assert [i.subject.node for i in life.incidents.values() if i.state == "open"] == ["n3"]


def test_a_firing_for_one_gpu_is_a_clear_look_at_its_neighbour() -> None:
    life = Life(resolve_after_seconds=0)
    life.at(0, fires(gpu_finding(gpu="GPU-1"), gpu_finding(gpu="GPU-2")))
    assert life.at(10, fires(gpu_finding(gpu="GPU-1"))) == ["resolved"]
    blind = judged(Firing((gpu_finding("n9"),), frozenset({"n3"})), "gpu_lost", "gpu_lost")
    assert life.at(20, blind) == ["opened"]
    assert life.incidents["n3/gpu_lost/GPU-1"].state == "open"


def test_it_resolves_only_when_clear_for_the_keep_time_without_a_gap_in_between() -> None:
    life = Life(resolve_after_seconds=30, evidence_gap_seconds=60)
    life.at(0, fires(finding()))
    assert life.at(10, clear()) == []
    assert life.at(20, clear()) == []
    assert life.at(30, fires(finding())) == []  # starts over
    assert life.at(40, clear()) == []
    assert life.at(500, clear()) == []  # nothing is known of the time between
    assert life.at(520, judged(Unknown("late"))) == []
    assert life.at(530, clear()) == ["resolved"]


def test_a_clock_that_steps_back_does_not_resolve_anything_early() -> None:
    life = Life(resolve_after_seconds=30)
    life.at(0, fires(finding()))
    life.at(10, clear())
    assert life.at(-5000, clear()) == []
    assert life.at(-4980, clear()) == []
    assert life.at(-4970, clear()) == ["resolved"]


def test_the_signature_sharpens_and_never_blunts() -> None:
    life = Life()
    busy = finding("busy_stall", precision=20)
    assert life.at(0, fires(busy)) == ["opened"]
    assert life.at(10, fires(busy), fires(finding())) == ["updated"]
    assert life.transitions[-1].reason == "now seen as low_power_deadlock, was busy_stall"
    assert life.at(20, fires(busy), clear()) == []
    assert life.incidents[KEY].signature == "low_power_deadlock"


def test_an_open_member_opens_the_incident_although_a_sharper_one_only_suspects() -> None:
    life = Life()
    busy, sharper = finding("busy_stall", precision=20), finding(stage="suspect")
    assert life.at(0, fires(sharper)) == ["suspected"]
    assert life.at(10, fires(sharper), fires(busy)) == ["opened"]
    assert life.incidents[KEY].signature == "busy_stall"


def test_severity_rises_once_and_does_not_fall_while_open() -> None:
    life = Life()
    mild, bad = finding(severity=Severity.WARNING), finding(severity=Severity.CRITICAL)
    assert life.at(0, fires(mild)) == ["opened"]
    assert life.at(10, fires(bad)) == ["updated"]
    assert life.transitions[-1].raised
    assert life.at(20, fires(mild)) == []
    assert life.incidents[KEY].severity == Severity.CRITICAL


def test_evidence_is_refreshed_without_a_word() -> None:
    life = Life()
    life.at(0, fires(finding(evidence={"idle_seconds": 240})))
    assert life.at(10, fires(finding(evidence={"idle_seconds": 250}))) == []
    assert life.incidents[KEY].evidence == {"idle_seconds": 250}


def test_a_notice_opens_and_resolves_at_once_and_is_said_once() -> None:
    life = Life()
    done = finding("completed", family="", severity=Severity.INFO, notice=True)
    assert life.at(0, fires(done)) == ["opened", "resolved"]
    for seconds in (10, 2000, 90_000):
        assert life.at(seconds, fires(done)) == []
    assert life.at(90_010, clear("completed", "completed")) == []
    assert life.at(90_020, fires(done)) == ["opened", "resolved"]


def test_a_flapping_condition_is_one_incident_that_resolves_more_slowly() -> None:
    life = Life(resolve_after_seconds=0, flap_clear_seconds=600, reopen_window_seconds=600)
    life.at(0, fires(finding()))
    life.at(10, clear())
    assert life.at(100, fires(finding())) == ["opened"]
    first, again = life.transitions[0].incident, life.transitions[-1].incident
    assert (again.id, again.opens) == (first.id, 2)
    events = [life.at(110 + 10 * n, fires(finding()) if n % 2 else clear()) for n in range(100)]
    assert events == [[]] * 100  # flapping every 10 s says nothing more
    life.at(2000, clear())
    for n in range(1, 12):
        life.at(2000 + 50 * n, clear())
    assert life.at(2600, clear()) == ["resolved"]


def test_after_the_window_it_is_a_new_incident() -> None:
    life = Life(resolve_after_seconds=0, reopen_window_seconds=600)
    life.at(0, fires(finding()))
    life.at(10, clear())
    life.at(700, clear())
    assert life.incidents == {}
    life.at(710, fires(finding()))
    assert life.transitions[-1].incident.opens == 1


def test_pending_time_is_what_was_seen_and_not_what_went_by() -> None:
    life = Life(open_after_seconds={"gpu_lost": 900}, evidence_gap_seconds=30)
    lost = fires(gpu_finding())
    assert life.at(0, lost) == ["suspected"]
    for seconds in range(15, 600, 15):
        assert life.at(seconds, lost) == []
    assert life.at(5000, lost) == []  # away for long: counts as one gap at most
    for seconds in range(5015, 5270, 15):
        assert life.at(seconds, lost) == []
    assert [life.at(5270 + 15 * n, lost) for n in range(3)].count(["opened"]) == 1


def test_a_detector_on_trial_touches_nothing_that_is_real() -> None:
    life = Life(resolve_after_seconds=0)
    life.at(0, fires(finding(), mode="shadow"))
    assert life.incidents[f"shadow/{KEY}"].shadow
    life.at(10, fires(finding("busy_stall")), fires(finding(), mode="shadow"))
    assert not life.incidents[KEY].shadow
    assert life.at(20, clear("busy_stall"), judged(Unknown("x"), mode="shadow")) == ["resolved"]
    assert life.incidents[KEY].state == "resolved"


def test_the_end_says_so_when_the_run_was_restarted() -> None:
    life = Life(resolve_after_seconds=0)
    life.at(0, fires(finding("crash", family="crash"), attempt=6))
    life.at(192, clear("crash", "crash", attempt=7))
    assert life.transitions[-1].reason == "restarted as attempt 7, after 3 m 12 s"


def test_long_names_give_short_keys_that_differ_in_their_last_character() -> None:
    names = ["job train-" + "x" * 300 + end for end in "AB"]
    keys = [bounded_key(f"{name}/stall") for name in names]
    assert keys[0] != keys[1]
    assert all(len(key) <= 200 for key in keys)
    assert bounded_key(keys[0]) == keys[0]
    life = Life()
    life.at(0, fires(finding(subject=Subject(run=names[0]))))
    assert list(life.incidents) == [keys[0]]


def test_a_transition_prints_as_promised_whatever_a_detector_put_into_its_evidence() -> None:
    life = Life()
    odd = {"power_watts": np.float32(87.5), "gone": float("nan"), "per_gpu": np.arange(3), "who": {"n3"}}
    life.at(0, fires(gpu_finding(evidence=odd)))
    told = transition_to_json(life.transitions[0])
    assert json.loads(json.dumps(told, allow_nan=False)) == {
        "at": T0, "event": "opened", "key": "n3/gpu_lost/GPU-3", "signature": "gpu_lost", "severity": "critical",
        "run": RUN, "subject": {"node": "n3", "gpu": "GPU-3", "gpu_index": 3}, "summary": "GPU 3 of n3 is gone",
        "evidence": {"power_watts": 87.5, "gone": "nan", "per_gpu": [0, 1, 2], "who": ["n3"]},
    }  # fmt: skip
