"""Has a node of this run been struck before?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from watcher.doctor._api import Check, Line, RunScene, Scene, listed

WEEK_SECONDS = 7 * 86_400.0


def look(scene: Scene, run: RunScene) -> Iterator[Line]:
    recent = Counter(s.node for s in run.frame.strikes if s.counted and scene.now - s.at <= WEEK_SECONDS)
    if not recent:
        yield Line("ok", "strikes", "none of its nodes had a hardware fault within a week")
        return
    twice = sorted(node for node, count in recent.items() if count >= 2)
    text = f"hardware faults within a week on {listed(f'{node} ({count})' for node, count in recent.items())}"
    advice = f"leave out the worst: --exclude={','.join(twice)}" if twice else "watch them: `runwatch suspects`"
    yield Line("fail" if twice else "warn", "strikes", text, advice)


CHECK = Check(70, of_run=look)
