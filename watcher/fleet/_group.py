"""Jobs -> runs: which jobs are one run, which is its present launch, what waits, how earlier ones ended. Pure.

An array and a chain of dependencies are one run whose tasks are attempts. Of several that run at once the one that
started last is the run, and that is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field

from detectors.frame import Scheduler
from watcher.fleet._api import Job, Place

MAX_RUNS = 200  # of one rule
MAX_NAME = 120
PLACEHOLDER = re.compile(r"\{(\w+)\}")
UNFIT = re.compile(r"[/\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How one launch ended. `state` is a job's, `text` one line for people."""

    job_id: str
    restarts: int
    state: str
    started_at: float | None = None
    at: float | None = None
    node: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a source says of one run now.

    places: the nodes of what runs; empty while nothing does. scheduler: None where the source knows no jobs. ended:
    launches that are over, as long as the source tells of them. job: what runs, else what waits, else what ended last.
    """

    run: str
    source: str
    places: tuple[Place, ...] = ()
    scheduler: Scheduler | None = None
    ended: tuple[Ended, ...] = ()
    job: Job | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A run of the config that a source finds. `name` may hold placeholders: then every value is a run of its own."""

    name: str
    wants: Callable[[Job], bool] = field(repr=False)

    @property
    def is_pattern(self) -> bool:
        return PLACEHOLDER.search(self.name) is not None

    def run_of(self, job: Job) -> str:
        """Its run's name, fit to be one whatever the job is called."""
        text = PLACEHOLDER.sub(lambda found: job.labels.get(found[1], ""), self.name)
        return UNFIT.sub("_", text).strip()[:MAX_NAME] or "unnamed"


def sights(
    source: str, rules: Sequence[Rule], jobs: Iterable[Job], known: Container[str] = ()
) -> dict[str, tuple[Rule, Sight]]:
    """Runs by name, with their rule. One without placeholders always has its run, one with them one for each value.

    Where those are too many, the ones in `known` stay, then those that run come first.
    """
    jobs = list(jobs)
    out: dict[str, tuple[Rule, Sight]] = {}
    for rule in sorted(rules, key=lambda rule: rule.is_pattern):  # a name that the config writes out is taken
        groups: dict[str, list[Job]] = {} if rule.is_pattern else {rule.name: []}
        for job in jobs:
            if rule.wants(job):
                groups.setdefault(rule.run_of(job), []).append(job)
        names = list(groups)
        if len(names) > MAX_RUNS:
            names = sorted(names, key=lambda name: (name not in known, min(_rank(job) for job in groups[name])))
        for name in [name for n, name in enumerate(names) if n < MAX_RUNS or name in known]:
            if name not in out:  # the first rule that names a run has it
                out[name] = rule, sight_of(name, source, groups[name])
    return out


def _rank(job: Job) -> int:
    return 2 if job.over or job.state == "gone" else 1 if job.state == "pending" else 0


def sight_of(run: str, source: str, jobs: Sequence[Job]) -> Sight:
    if not jobs:
        return Sight(run=run, source=source, scheduler=Scheduler(state="none"))
    lists = [job for job in jobs if job.state == "listed"]
    if lists:
        return Sight(run=run, source=source, places=_places(lists), job=lists[0])
    running = sorted((j for j in jobs if j.state == "running"), key=lambda j: (j.started_at or 0.0, j.id))
    waiting = sorted((j for j in jobs if j.state == "pending"), key=lambda j: (j.held, j.submitted_at or 0.0, j.id))
    over = sorted((j for j in jobs if j.over), key=lambda j: (j.ended_at or 0.0, j.id))
    gone = [job for job in jobs if job.state == "gone"]
    waits = any(not job.held for job in waiting)
    note = ""
    if running:
        job = running[-1]
        parts = [j for j in running if j is job or (job.part_of and j.part_of == job.part_of)]
        if len(running) > len(parts):
            note = (
                f"{len(running)} jobs of it run at once, {job.id} is watched: "
                "match more narrowly, or give each a run by placeholders in its name"
            )
        places = _places(parts)
    else:
        places = ()
        job = next(iter(j for j in waiting if not j.held), None) or (over or gone or waiting)[-1]
        if job.over and job.releasing:
            places = _places([job])
    scheduler = Scheduler(
        state=job.state,
        job_id=job.id,
        restarts=job.restarts,
        ends_by_at=job.ends_by_at,
        successor_waits=waits if job.state != "pending" else any(not j.held for j in waiting if j is not job),
        nodes=tuple(place.node for place in places),
        started_at=job.started_at,
        ended_at=job.ended_at,
        held=job.held or (not running and not waits and bool(waiting)),
        note=note,
        reason=job.reason or (waiting[0].reason if waiting and not running and not waits else ""),
    )
    return Sight(
        run=run,
        source=source,
        places=places,
        scheduler=scheduler,
        ended=(*(_ended(source, j) for j in over[-20:]), *_given_back(source, [*running, *waiting], job)),
        job=job,
    )


def _places(jobs: Iterable[Job]) -> tuple[Place, ...]:
    """Each node once; devices of several jobs on it together, unknown where one of them is."""
    found: dict[str, Place] = {}
    for job in jobs:
        for place in job.places:
            before = found.get(place.node)
            if before is None:
                found[place.node] = place
            elif before.gpu_minors is None or place.gpu_minors is None:
                found[place.node] = Place(node=place.node)
            else:
                minors = tuple(sorted({*before.gpu_minors, *place.gpu_minors}))
                found[place.node] = Place(node=place.node, gpu_minors=minors)
    return tuple(found.values())


def _given_back(source: str, jobs: Iterable[Job], shown: Job) -> Iterable[Ended]:
    """Launches that ended in the queue again, while another job of the run is the present one."""
    return (
        Ended(
            job_id=job.id, restarts=job.restarts - 1, state="requeued", at=job.submitted_at,
            text=f"{source}: job {job.id} was given back to the queue",
        )
        for job in jobs
        if job.restarts and job is not shown
    )  # fmt: skip


def _ended(source: str, job: Job) -> Ended:
    why = f" ({job.reason})" if job.reason else ""
    what = job.state.replace("_", " ")
    return Ended(
        job_id=job.id,
        restarts=job.restarts,
        state=job.state,
        started_at=job.started_at,
        at=job.ended_at,
        node=job.failed_node,
        text=f"{source}: job {job.id} {'was ' if job.state in ('cancelled', 'preempted') else ''}{what}{why}"[:300],
    )
