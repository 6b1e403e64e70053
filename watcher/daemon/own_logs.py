"""Which of the logs that agents follow are a run's: in a shared folder each agent sees those of all jobs. Pure."""

from __future__ import annotations

from fnmatch import fnmatchcase

from watcher.fleet._api import Job
from watcher.fleet._log_paths import paths_of

KEPT = 4_096  # paths whose answer is known


class OwnLogs:
    """`paths`: as the config has them; none: all logs. Those of the last job count on, for its last lines."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths = paths
        self._now: tuple[str, ...] = ()
        self._before: tuple[str, ...] = ()
        self._known: dict[str, bool] = {}

    def of_job(self, job: Job) -> None:
        wanted = tuple(pattern for path in self._paths for pattern in paths_of(path, job))
        if wanted != self._now:
            self._before, self._now = self._now, wanted
            self._known.clear()

    def has(self, path: str) -> bool:
        if not self._now:
            return True
        if path not in self._known:
            if len(self._known) >= KEPT:
                self._known.clear()
            self._known[path] = any(fnmatchcase(path, pattern) for pattern in (*self._now, *self._before))
        return self._known[path]
