"""Does the source of the run's jobs answer, and what does it say of the run?"""

from __future__ import annotations

from collections.abc import Iterator

from watcher.doctor._api import Check, Line, RunScene, Scene


def look(scene: Scene, run: RunScene) -> Iterator[Line]:
    found = run.found
    if found.source is None:
        return
    if found.error is not None:
        yield Line("fail", "fleet", found.error, "until it answers new runs, attempts and other nodes are not seen")
        return
    sight = found.sight
    if sight is None or (sight.job is None and not sight.places):
        yield Line("note", "fleet", f"{found.source} knows nothing that matches now", "is match: what you mean?")
        return
    places = sight.places
    where = f"{len(places)} {'node' if len(places) == 1 else 'nodes'}"
    scheduler = sight.scheduler
    if scheduler is None:
        yield Line("ok" if places else "note", "fleet", f"{found.source} lists {where}")
    elif scheduler.state == "running":
        yield Line("ok", "fleet", f"{found.source}: job {scheduler.job_id} runs on {where}")
    else:
        why = f": {scheduler.reason}" if scheduler.reason else ""
        text = f"{found.source}: job {scheduler.job_id} is {scheduler.state.replace('_', ' ')}{why}"
        yield Line("warn" if scheduler.held else "note", "fleet", text)
    if scheduler is not None and scheduler.note:
        yield Line("warn", "fleet", scheduler.note)
    if scheduler is not None and any(place.gpu_minors is None for place in places):
        yield Line("note", "fleet", f"{found.source} does not tell which GPUs of a node are its own: all are taken so")


CHECK = Check(5, of_run=look)
