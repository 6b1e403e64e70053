"""The `actions:` section: nothing is done that does not stand here, and nothing for real without `dry_run: false`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field, create_model, model_validator

from alerts.actions import ActionRule
from alerts.policy import Match
from detectors.registry import load_plugins
from watcher.actions._api import ActionPlugin, load_actions
from watcher.config.alerting import Names
from watcher.config.one_kind import OneKind, chosen

if TYPE_CHECKING:
    from pydantic import BaseModel

    Action = BaseModel
else:

    class _Action(OneKind):
        """`signatures`: for which it is done, by name. `runs`: shell-style patterns, default all."""

        signatures: Names = Field(min_length=1)
        runs: Names = ()
        dry_run: bool = True
        after_seconds: float = Field(default=60.0, ge=0, le=3600)
        most_per_day: int = Field(default=2, ge=1, le=100)

        @model_validator(mode="after")
        def _allowed(self) -> _Action:
            kind, _ = chosen(self)
            if load_actions()[kind].dry_only and not self.dry_run:
                raise ValueError(f"{kind} can only be tried for now: leave dry_run at true")
            if any(set(name) & set("*?[") for name in self.signatures):
                raise ValueError("signatures: name each of them, no patterns: an action is never for whatever may come")
            if unknown := [name for name in self.signatures if name not in load_plugins()]:
                raise ValueError(f"signatures: no signature is called {unknown[0]!r}")
            return self

    _KINDS = load_actions()
    Action = create_model("Action", __base__=_Action, **{n: (p.config | None, None) for n, p in _KINDS.items()})
    Action.KINDS = tuple(_KINDS)


def action_rules(actions: Mapping[str, BaseModel]) -> list[tuple[ActionRule, ActionPlugin, Any]]:
    """The rules with the plug-in and the section of each."""
    plugins, out = load_actions(), []
    for name, item in actions.items():
        kind, section = chosen(item)
        given: Any = item
        rule = ActionRule(
            name=name, kind=kind, match=Match(signatures=given.signatures, runs=given.runs), of=plugins[kind].of,
            dry_run=given.dry_run, after_seconds=given.after_seconds, most_per_day=given.most_per_day,
        )  # fmt: skip
        out.append((rule, plugins[kind], section))
    return out
