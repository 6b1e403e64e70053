from __future__ import annotations

from pathlib import Path

import pytest

from detectors.verdict import Severity, Subject
from tests.alerts.incident_samples import Life, fires, gpu_finding
from watcher.config.alerting import alert_policy, build_channels, fallbacks
from watcher.config.daemon import DaemonConfig
from watcher.config.load import ConfigError, load

WHOLE = """
channels:
  oncall: {pagerduty: {routing_key: k}, fallback: team}
  team: {slack: {webhook_url: "https://hooks.example/x"}}
  boss: {email: {host: mail, sender: rw@example.org, to: [boss@example.org]}}
  ours: {command: {argv: [/usr/bin/page]}}
  prom: {alertmanager: {url: "http://am:9093", labels: {team: ml}}}
  phone: {apprise: {url: "ntfys://topic"}}
  here: {console: }
routes:
  - {severity: critical, to: [oncall, team]}
  - {severity: critical, to: boss, escalate_after_minutes: 30, run: "prod-*"}
paging: {reminder_minutes: 60, resolve_after_seconds: 5}
maintenance:
  - {name: rack move, from: 2026-12-01T08:00:00Z, until: 2026-12-01T09:00:00+00:00, node: "n0*"}
"""


def _load(tmp_path: Path, text: str) -> DaemonConfig:
    path = tmp_path / "runwatch.yaml"
    path.write_text(text)
    return load(path, DaemonConfig)


def test_every_channel_can_be_configured_and_the_policy_is_what_was_written(tmp_path: Path) -> None:
    config = _load(tmp_path, WHOLE)
    policy = alert_policy(config)
    assert set(build_channels(config.channels)) == set(policy.channels) == set(config.channels)
    assert fallbacks(config.channels) == {"oncall": "team"}
    assert policy.routes[0].severity == Severity.CRITICAL
    assert (policy.escalations[0].after_seconds, policy.escalations[0].match.runs) == (1800, ("prod-*",))
    assert policy.reminder_seconds == 3600
    assert policy.silences[0].until_at - policy.silences[0].from_at == 3600
    assert config.paging.hysteresis().resolve_after_seconds == 5
    assert policy.channels["oncall"].escalates
    assert "https://hooks.example" not in repr(config)


LABELLED = """
channels:
  facility: {console: }
  team: {console: }
node_labels:
  "n[1-4]": {rack: r1, hall: north}
  "n[5-8]": {rack: r2, hall: north}
  "spare-*": {rack: r2}
routes:
  - {to: facility, labels: {rack: r2, hall: [north, south]}}
  - {to: team, labels: {rack: "r*"}, signature: gpu_lost}
maintenance:
  - {name: r1, from: 2026-12-01T08:00:00Z, until: 2026-12-01T09:00:00Z, labels: {rack: r1}}
"""


@pytest.mark.parametrize(
    ("node", "hears", "hushed"),
    [
        ("n4", {"team"}, True),
        ("n5", {"facility", "team"}, False),
        ("spare-9", {"team"}, False),
        ("other", set(), False),
        (None, set(), False),
    ],
)
def test_nodes_are_routed_and_hushed_by_their_labels(
    tmp_path: Path, node: str | None, hears: set[str], hushed: bool
) -> None:
    policy = alert_policy(_load(tmp_path, LABELLED))
    life = Life()
    life.at(0, fires(gpu_finding(node) if node else gpu_finding("x", subject=Subject(run="tr7"))))
    (incident,) = life.incidents.values()
    assert policy.routed(incident) == hears
    (window,) = policy.silences
    assert window.covers(incident, window.from_at) is hushed


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("rack: r2, hall: [", "rack: r9, hall: [", "routes[0].labels: no node has a label rack: r9"),
        ("labels: {rack: r1}", "labels: {row: x}", "maintenance[0].labels: no node has a label row: x"),
        ("n[1-4]", "n[4-1", "node_labels"),
    ],
)
def test_a_label_that_no_node_has_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, LABELLED.replace(old, new))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("fallback: team", "fallback: nobody", "no other channel is called 'nobody'"),
        ("fallback: team", "fallback: oncall", "no other channel is called 'oncall'"),
        ("until: 2026-12-01T09", "until: 2026-12-01T07", "until must be later than from"),
        ("08:00:00Z", "08:00:00", "timezone"),
        ("{console: }", "{console: , webhook: {url: x}}", "not console and webhook"),
        ("{console: }", "{consol: }", "consol"),
        ("routing_key: k", "routing_kex: k", "routing_kex"),
        ("paging: {", "daemon: {interval_seconds: 120}\npaging: {", "channels.prom forgets what is not said again"),
    ],
)
def test_what_cannot_work_is_refused_with_its_place(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in WHOLE
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, WHOLE.replace(old, new))
    assert says in str(caught.value)
