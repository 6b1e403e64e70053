"""Whatever is lost, doubled, late or out of order: one open incident per key, and no end without health."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.incidents import Judged, step
from detectors.verdict import Clear, Finding, Firing, Severity, Unknown
from tests.alerts.incident_samples import RUN, Life, finding, gpu_finding

NODES = frozenset({"n1", "n2"})


def _members() -> list[tuple[str, str, list[Finding]]]:
    stall = [
        finding(name, precision=precision, severity=severity, stage=stage)
        for name, precision in (("low_power_deadlock", 30), ("busy_stall", 20))
        for severity in (Severity.WARNING, Severity.CRITICAL)
        for stage in ("suspect", "open")
    ]
    lost = [gpu_finding(node, gpu) for node in sorted(NODES) for gpu in ("GPU-1", "GPU-2")]
    done = [finding("completed", family="completed", notice=True, severity=Severity.INFO)]
    return [
        ("low_power_deadlock", "stall", [f for f in stall if f.signature == "low_power_deadlock"]),
        ("busy_stall", "stall", [f for f in stall if f.signature == "busy_stall"]),
        ("gpu_lost", "gpu_lost", lost),
        ("completed", "completed", done),
    ]


def _judgements() -> st.SearchStrategy[Judged]:
    one = []
    for signature, family, findings in _members():
        unknown = st.frozensets(st.sampled_from(sorted(NODES)))
        verdict = st.one_of(
            st.builds(Clear, unknown),
            st.builds(Firing, st.lists(st.sampled_from(findings), min_size=1, max_size=3).map(tuple), unknown),
            st.just(Unknown("no data")),
        )
        one.append(
            verdict.map(lambda said, s=signature, f=family: Judged(signature=s, family=f, run=RUN, verdict=said))
        )
    return st.one_of(one)


evaluations = st.lists(st.lists(_judgements(), max_size=6), max_size=25)


def _healthy_look_at(key: str, judged: list[Judged]) -> bool:
    """An independent, blunt reading of the rule: somebody was clear about this key and nobody fired or was blind."""
    family = key.split("/")[1]
    node = key.split("/")[0] if key.split("/")[0] in NODES else None
    verdicts = [one.verdict for one in judged if one.family == family]
    if not verdicts or any(isinstance(verdict, Unknown) for verdict in verdicts):
        return False
    seen = [verdict for verdict in verdicts if isinstance(verdict, Clear | Firing)]
    fired = {found.key for verdict in seen if isinstance(verdict, Firing) for found in verdict.findings}
    return key not in fired and not any(node in verdict.unknown_nodes for verdict in seen)


@settings(max_examples=150, deadline=None)
@given(evaluations, st.sampled_from([0.0, 15.0]), st.randoms(use_true_random=False))
def test_every_life_is_in_order_and_ends_only_on_fresh_healthy_data(evaluations, keep, random) -> None:  # type: ignore[no-untyped-def]
    life = Life(resolve_after_seconds=keep, flap_clear_seconds=keep)
    state: dict[str, str] = {}
    seconds = 0.0
    for judged in evaluations:
        seconds += random.choice([10.0, 10.0, 10.0, 700.0, -30.0])
        told = len(life.transitions)
        life.at(seconds, *judged)
        for transition in life.transitions[told:]:
            key, before = transition.incident.key, state.get(transition.incident.key, "none")
            allowed = {
                "suspected": {"none", "resolved"},
                "opened": {"none", "suspect", "resolved"},
                "updated": {"open"},
                "resolved": {"suspect", "open"},
            }
            assert before in allowed[transition.event]
            if transition.event == "resolved" and not transition.incident.notice:
                assert _healthy_look_at(key, judged)
            state[key] = transition.incident.state
        for key, incident in life.incidents.items():
            assert state[key] == incident.state == life.incidents[incident.key].state


@settings(max_examples=100, deadline=None)
@given(evaluations, st.randoms(use_true_random=False))
def test_order_and_doubling_within_an_evaluation_change_nothing(evaluations, random) -> None:  # type: ignore[no-untyped-def]
    plain, shuffled = Life(resolve_after_seconds=10), Life(resolve_after_seconds=10)
    for number, judged in enumerate(evaluations):
        again = [*judged, *random.choices(judged, k=len(judged))] if judged else []
        random.shuffle(again)
        plain.at(10.0 * number, *judged)
        shuffled.at(10.0 * number, *again)
    assert plain.transitions == shuffled.transitions
    assert plain.incidents == shuffled.incidents


@settings(max_examples=100, deadline=None)
@given(evaluations, st.sets(st.integers(0, 24)))
def test_an_evaluation_without_judgements_can_only_delay(evaluations, lost) -> None:  # type: ignore[no-untyped-def]
    life = Life(resolve_after_seconds=0)
    for number, judged in enumerate(evaluations):
        if number in lost:
            before = dict(life.incidents)
            result = step(before, (), life.now + 1, life.policy)
            assert result.transitions == ()
            life.incidents = dict(result.incidents)
        else:
            life.at(10.0 * number, *judged)
