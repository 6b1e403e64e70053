"""An action is taken for what its owner named, where two independent signals agree, and not one time too often."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from alerts.actions import ActionRule, Deed, decide_actions, deed_from_json, deed_to_json
from alerts.incidents import Incident
from alerts.policy import Match
from alerts.signals import COUNTERS, DRIVER_LOG, RUN, signals_of
from detectors.verdict import Severity, Subject

NOW = 1_700_000_000.0
STRIKES = ["ecc_uncorrectable GPU 4", "crash_start attempt 2"]
DRAIN = ActionRule(name="drain", kind="slurm_drain", match=Match(signatures=("repeated_ecc",)), dry_run=False)


def incident(signature: str = "repeated_ecc", node: str | None = "n3", **more: Any) -> Incident:
    given: dict[str, Any] = {
        "key": f"{node or 'r1'}/{signature}", "id": f"id-{signature}-{node}", "family": signature, "state": "open",
        "severity": Severity.CRITICAL, "subject": Subject(run="r1", node=node), "run": "r1",
        "suspect_since_at": NOW - 300, "opened_at": NOW - 200, "last_firing_at": NOW, "last_changed_at": NOW - 200,
        "evidence": {"strikes": STRIKES} if signature == "repeated_ecc" else {},
    }  # fmt: skip
    return Incident(signature=signature, **{**given, **more})


def decide(*incidents: Incident, rule: ActionRule = DRAIN, deeds: tuple[Deed, ...] = (), jobs: Any = None) -> Any:
    return decide_actions([rule], {i.key: i for i in incidents}, deeds, jobs or {}, NOW)


def deed(at: float = NOW - 3600, **more: Any) -> Deed:
    given = {"rule": "drain", "kind": "slurm_drain", "target": "n9", "key": "n9/x", "incident_id": "other"}
    return Deed(at=at, signature="repeated_ecc", **{**given, **more})


def test_a_node_that_two_signals_speak_against_is_due():
    (due,) = decide(incident()).due
    assert due.target == "n3"
    assert due.signals == (COUNTERS, RUN)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"severity": Severity.WARNING}, "it is not critical"),
        ({"acknowledged_at": NOW - 5, "acknowledged_by": "ada"}, "ada is at it"),
        ({"snoozed_until_at": NOW + 60}, "it is snoozed"),
        ({"opened_at": NOW - 10}, "it is open for less than 60 s"),
        ({"evidence": {"strikes": ["ecc_uncorrectable a", "remap_failed b"]}}, "only one signal speaks for it"),
        ({"evidence": {}}, "only one signal speaks for it: none that is known"),
    ],
)
def test_each_reason_why_nothing_is_done_is_told(changed, why):
    one = replace(incident(), **changed)
    decided = decide(one)
    assert decided.due == []
    assert why in decided.refused["drain", one.key]


@pytest.mark.parametrize(
    "changed", [{"state": "suspect"}, {"state": "resolved"}, {"shadow": True}, {"signature": "xid", "family": "xid"}]
)
def test_what_is_not_open_or_not_named_is_no_matter_of_the_rule(changed):
    decided = decide(replace(incident(), **changed))
    assert (decided.due, decided.refused) == ([], {})


def test_another_incident_of_the_node_is_a_second_signal_and_one_of_another_node_is_none():
    ecc = replace(incident(), evidence={"strikes": ["ecc_uncorrectable a"]})
    assert signals_of(ecc, [ecc, incident("xid")], NOW) == (COUNTERS, DRIVER_LOG)
    assert signals_of(ecc, [ecc, incident("xid", node="n4")], NOW) == (COUNTERS,)
    ended = replace(incident("xid"), state="resolved", resolved_at=NOW - 7200)
    assert signals_of(ecc, [ecc, ended], NOW) == (COUNTERS,)


def test_a_crash_of_the_run_speaks_against_the_node_that_it_points_at():
    ecc = replace(incident(), evidence={"strikes": ["ecc_uncorrectable a"]})
    crash = incident("crash", node=None, evidence={"odd": {"node": "n3"}})
    assert RUN in signals_of(ecc, [ecc, crash], NOW)
    assert RUN not in signals_of(ecc, [ecc, replace(crash, evidence={"odd": {"node": "n1"}})], NOW)


def test_nothing_is_done_twice_for_one_incident_nor_too_often_in_a_day():
    done = deed(key="n3/repeated_ecc", incident_id=incident().id)
    assert decide(incident(), deeds=(done,)).due == []
    full = (deed(), deed(NOW - 7200, incident_id="y"))
    decided = decide(incident(), deeds=full)
    assert "2 today already, at most 2 a day" in decided.refused["drain", "n3/repeated_ecc"]
    assert decide(incident(), deeds=tuple(replace(d, at=NOW - 90_000) for d in full)).due
    many = [incident(node=f"n{n}") for n in range(5)]
    assert len(decide(*many).due) == 2


def test_an_action_on_the_job_needs_to_know_the_job():
    rule = ActionRule(name="again", kind="slurm_requeue", match=Match(signatures=("low_power_deadlock",)), of="job")
    stall = incident("low_power_deadlock", node=None)
    assert "the job is not known" in decide(stall, rule=rule).refused["again", stall.key]
    (due,) = decide(stall, rule=rule, jobs={"r1": "4711"}).due
    assert due.target == "4711"


def test_the_audit_survives_its_way_through_json():
    one = deed(signals=("a", "b"), command=("x", "y"), ok=True, outcome="done")
    assert deed_from_json(deed_to_json(one)) == one


@pytest.mark.parametrize(
    "name", ["n[1-99]", "n1,n2", "ALL", "all", "-f", "--all", "n1 n2", "n1\n", "n1=x", "@all", "ü"]
)
def test_what_is_not_the_plain_name_of_one_node_is_never_acted_on(name):
    one = incident(node=name)
    decided = decide(one)
    assert decided.due == []
    assert "not the plain name of one node" in decided.refused["drain", one.key]


def test_a_node_with_many_broken_gpus_is_dealt_with_once():
    gpus = [replace(incident(), key=f"n3/repeated_ecc/{n}", id=f"id-{n}") for n in range(8)]
    decided = decide(*gpus)
    assert len(decided.due) == 1
    again = replace(gpus[1], id="id-new")
    assert (
        "to n3 today already"
        in decide(again, deeds=(deed(target="n3", ok=True, dry_run=False),)).refused["drain", again.key]
    )
    assert decide(again, deeds=(deed(target="n3", ok=False, dry_run=False),)).due  # it failed
    assert decide(again, deeds=(deed(target="n3", ok=True, dry_run=True),)).due  # it was only tried


@pytest.mark.parametrize("signature", ["action_taken", "repeated_ecc", "struck_node", "clock_skew"])
def test_news_and_what_is_drawn_from_the_same_counters_is_no_second_signal(signature):
    ecc = incident("ecc_uncorrectable")
    other = replace(incident(signature), evidence={"strikes": ["ecc_uncorrectable GPU 4"]})
    assert signals_of(ecc, [ecc, other], NOW) == (COUNTERS,)
