"""What is done is written down first, done once, and told; a dry run only says what would have been done."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from alerts.actions import ActionRule
from alerts.incidents import Hysteresis, step
from alerts.outbox import JournalError
from alerts.policy import Match
from tests.alerts.test_actions import NOW, incident
from watcher.actions._api import load_actions
from watcher.config.daemon import DaemonConfig
from watcher.config.load import ConfigError, validate
from watcher.daemon.acting import Actor, run_command
from watcher.daemon.store import Store


class Site:
    def __init__(self, folder: Any, dry_run: bool = False) -> None:
        self.store = Store(folder / "x.db", NOW)
        self.ran: list[tuple[str, ...]] = []
        self.ended = threading.Event()
        self.answer = (True, "")
        self.dry_run = dry_run
        self.actor = self.start()

    def start(self) -> Actor:
        plugin = load_actions()["slurm_drain"]
        rule = ActionRule(
            name="drain", kind="slurm_drain", match=Match(signatures=("repeated_ecc",)), dry_run=self.dry_run
        )
        return Actor([(rule, plugin, plugin.config())], self.store, self._run)

    def _run(self, argv: tuple[str, ...]) -> tuple[bool, str]:
        self.ran.append(argv)
        self.ended.set()
        return self.answer

    def consider(self, now: float = NOW) -> None:
        one = incident(summary="n3 was struck; `rm -rf /` $(x)\n2 times")
        self.actor.consider({one.key: one}, {}, now)

    def settle(self) -> None:
        assert self.ended.wait(10)
        while any(deed.ok is None for deed in self.actor.deeds):
            threading.Event().wait(0.01)


@pytest.fixture
def site(tmp_path):
    one = Site(tmp_path)
    yield one
    one.store.close()


def test_a_struck_node_is_drained_once_with_a_plain_reason_also_over_a_restart(site):
    site.consider()
    site.settle()
    site.consider(NOW + 10)
    site.actor = site.start()
    site.consider(NOW + 20)
    ((*command, reason),) = site.ran
    assert command == ["scontrol", "update", "nodename=n3", "state=drain"]
    assert reason.startswith("reason=runwatch repeated_ecc of r1: n3 was struck;")
    assert not set(reason) & set("`$\n")
    (deed,) = site.actor.deeds
    assert (deed.ok, deed.outcome, deed.dry_run) == (True, "done", False)


def test_a_dry_run_runs_nothing_and_says_what_it_would_have_run(tmp_path):
    site = Site(tmp_path, dry_run=True)
    site.consider()
    assert site.ran == []
    ((finding,),) = [one.verdict.findings for one in site.actor.judged(NOW + 1)]
    assert finding.summary.startswith("Dry run of action drain for n3/repeated_ecc. Would have run: scontrol update")
    site.store.close()


def test_what_was_done_is_a_page_of_its_own_that_ends(site):
    site.answer = (False, "exit 1: slurm_update error: Invalid node name")
    site.consider()
    site.settle()
    opened = step({}, site.actor.judged(NOW + 1), NOW + 1, Hysteresis())
    ((key, one),) = opened.incidents.items()
    assert (key, one.state) == ("n3/action_taken.drain", "open")
    assert "FAILED action drain" in one.summary
    assert "Invalid node name" in one.summary
    later = step(opened.incidents, site.actor.judged(NOW + 700), NOW + 700, Hysteresis(resolve_after_seconds=0))
    assert later.incidents[key].state == "resolved"


def test_nothing_is_done_that_cannot_be_written_down(site, monkeypatch):
    def full(*_: Any) -> None:
        raise JournalError("no space left on device")

    monkeypatch.setattr(site.store, "put_state", full)
    site.consider()
    assert (site.ran, site.actor.deeds) == ([], ())


def test_a_command_that_is_missing_fails_or_never_ends_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr("watcher.daemon.acting.DEADLINE_REAL_SECONDS", 0.2)
    assert run_command(("/nowhere/scontrol", "x")) == (False, "/nowhere/scontrol: No such file or directory")
    assert run_command(("/bin/sh", "-c", "echo a >&2; echo b >&2; exit 3")) == (False, "exit 3: a b")
    assert run_command(("/bin/sleep", "60")) == (False, "no end after 0.2 s, killed")
    assert run_command(("/bin/true",)) == (True, "")


def config(**rule: Any) -> DaemonConfig:
    return validate({"actions": {"drain": rule}}, DaemonConfig, "x.yaml")


def test_an_action_is_tried_only_unless_its_owner_says_otherwise():
    assert config(slurm_drain={}, signatures=["repeated_ecc"]).actions["drain"].dry_run is True  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"slurm_drain": {}}, "signatures: is missing"),
        ({"slurm_drain": {}, "signatures": []}, "signatures"),
        ({"slurm_drain": {}, "signatures": ["*"]}, "name each of them"),
        ({"slurm_drain": {}, "signatures": ["repeated_ec"]}, "no signature is called 'repeated_ec'"),
        ({"signatures": ["xid"]}, "must be one of command, kubernetes_cordon, slurm_drain, slurm_requeue"),
        ({"slurm_drain": {}, "command": {"argv": ["x"]}, "signatures": ["xid"]}, "not command and slurm_drain"),
        ({"slurm_requeue": {}, "signatures": ["low_power_deadlock"], "dry_run": False}, "can only be tried for now"),
    ],
)
def test_a_rule_that_says_too_little_or_too_much_is_refused(rule, problem):
    with pytest.raises(ConfigError) as caught:
        config(**rule)
    assert problem in str(caught.value)


def test_each_kind_says_its_command_without_a_shell():
    from alerts.actions import Due

    due = Due(ActionRule(name="a", kind="x", match=Match()), incident(), "n3", ())
    said = {name: plugin.argv(plugin.config(**({"argv": ["/x/fence", "--now"]} if name == "command" else {})), due)
            for name, plugin in load_actions().items()}  # fmt: skip
    assert said["kubernetes_cordon"] == ("kubectl", "cordon", "--", "n3")
    assert said["command"] == ("/x/fence", "--now", "n3")
    assert said["slurm_requeue"] == ("scontrol", "requeue", "n3")


def test_a_command_that_talks_without_end_is_kept_in_one_line():
    ok, said = run_command(("/bin/sh", "-c", "head -c 20000000 /dev/zero | tr '\\0' x"))
    assert ok
    assert len(said) <= 200


def test_what_a_command_has_started_holds_nothing_up(monkeypatch):
    monkeypatch.setattr("watcher.daemon.acting.LINGER_REAL_SECONDS", 0.2)
    monkeypatch.setattr("watcher.daemon.acting.DEADLINE_REAL_SECONDS", 5.0)
    assert run_command(("/bin/sh", "-c", "sleep 20 & echo started")) == (True, "started")


def test_a_command_that_cannot_be_one_is_told():
    assert run_command(("/bin/echo", "a\0b")) == (False, "/bin/echo: embedded null byte")


def test_a_deed_that_a_restart_has_cut_short_is_told_and_not_done_again(site):
    began, go_on = threading.Event(), threading.Event()

    def hang(argv: tuple[str, ...]) -> tuple[bool, str]:
        began.set()
        go_on.wait(10)
        return True, ""

    site.actor = Actor(site.actor._rules, site.store, hang)
    site.consider()
    assert began.wait(10)
    after = site.start()
    site.actor = after
    site.consider(NOW + 10)
    ((finding,),) = [one.verdict.findings for one in after.judged(NOW + 11)]
    assert "look whether it was done" in finding.summary
    assert site.ran == []
    go_on.set()
