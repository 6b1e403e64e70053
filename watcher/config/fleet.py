"""`fleet:` and `runs[].match`: who tells which nodes belong to a run. Each source owns its two sections."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, create_model, model_validator

from watcher.fleet._api import FleetSection, load_fleet
from watcher.fleet._group import PLACEHOLDER, Rule

if TYPE_CHECKING:
    from watcher.clock import Clock
    from watcher.config.daemon import DaemonConfig, RunSection
    from watcher.daemon.fleet import Feed

    class FoundBy(BaseModel):
        def source(self) -> tuple[str, FleetSection]: ...

    Fleet = BaseModel
else:

    class _FoundBy(BaseModel):
        """One source with its own keys, or its short keys: {slurm_job_name: "tr11-*"}."""

        model_config = ConfigDict(extra="forbid", frozen=True)
        SHORT: ClassVar[dict[str, tuple[str, str]]] = {}

        def source(self) -> tuple[str, FleetSection]:
            """The source's name and what it shall look for."""
            name = self._named()[0]
            section = getattr(self, name)
            if section is not None:
                return name, section
            given = {
                field: value for key, (_, field) in self.SHORT.items() if (value := getattr(self, key)) is not None
            }
            return name, load_fleet()[name].match.model_validate(given)

        def _named(self) -> list[str]:
            short = [name for key, (name, _) in self.SHORT.items() if getattr(self, key) is not None]
            return list(dict.fromkeys([n for n in load_fleet() if getattr(self, n) is not None] + short))

        @model_validator(mode="after")
        def _one(self) -> _FoundBy:
            named = self._named()
            if len(named) != 1:
                known = ", ".join(load_fleet())
                raise ValueError(
                    f"give the keys of one source ({known})" + (f", not {' and '.join(named)}" if named else "")
                )
            if getattr(self, named[0]) is not None and any(
                name == named[0] and getattr(self, key) is not None for key, (name, _) in self.SHORT.items()
            ):
                raise ValueError(f"give the keys of {named[0]} in its section, or the short ones, not both")
            self.source()
            return self

    def _models() -> tuple[type[BaseModel], type[BaseModel]]:
        fields: dict[str, Any] = {name: (plugin.match | None, None) for name, plugin in load_fleet().items()}
        short = {f"{name}_{key}": (name, key) for name, plugin in load_fleet().items() for key in plugin.short}
        fields |= {
            written: (load_fleet()[name].match.model_fields[key].annotation, None)
            for written, (name, key) in short.items()
        }
        found_by = create_model("FoundBy", __base__=_FoundBy, **fields)
        found_by.SHORT = short
        settings = {name: (plugin.settings | None, None) for name, plugin in load_fleet().items()}
        return found_by, create_model("Fleet", __config__=ConfigDict(extra="forbid", frozen=True), **settings)

    FoundBy, Fleet = _models()


def check_name(name: str, match: FoundBy | None) -> None:
    """Placeholders in a run's name are labels that its source gives. Raises ValueError."""
    used = PLACEHOLDER.findall(name)
    labels = load_fleet()[match.source()[0]].labels if match is not None else ()
    if unknown := [label for label in used if label not in labels]:
        known = f"known are {', '.join(f'{{{label}}}' for label in labels)}" if labels else "its source gives none"
        raise ValueError(f"name: nothing fills in {{{unknown[0]}}}; {known}")


def build_feeds(config: DaemonConfig, clock: Clock) -> list[Feed]:
    """One for each source that some run is found by."""
    from watcher.daemon.fleet import Feed

    runs: dict[str, list[tuple[RunSection, FleetSection]]] = {}
    for run in config.runs:
        if run.match is not None:
            name, match = run.match.source()
            runs.setdefault(name, []).append((run, match))
    feeds = []
    for name, found in runs.items():
        plugin = load_fleet()[name]
        given: Any = getattr(config.fleet, name)
        settings: Any = given if given is not None else plugin.settings()
        rules = [Rule(run.name, partial(plugin.accepts, match)) for run, match in found]
        source = plugin.build(settings, [match for _, match in found], clock)
        feeds.append(Feed(name, source, rules, settings.poll_seconds))
    return feeds


def fleet_notes(config: DaemonConfig) -> Sequence[str]:
    """What a person should hear of runs that are found."""
    notes = []
    for number, run in enumerate(config.runs):
        logs = [log.path for log in run.logs if log.tail == "daemon" and log.path == "%stdout"]
        if logs and (run.match is None or run.match.source()[0] != "slurm"):
            notes.append(f"runs[{number}].logs: %stdout is what a Slurm job writes to, and no Slurm tells of this run")
    for name in dict.fromkeys(run.match.source()[0] for run in config.runs if run.match is not None):
        needs = load_fleet()[name].needs
        if needs is not None and find_spec(needs) is None:
            notes.append(f"fleet.{name}: nothing is found without its client: pip install 'runwatch[{name}]'")
    return notes
