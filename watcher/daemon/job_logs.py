"""The shared logs of a run whose jobs come and go: each job's paths, and those of the one before until it is read."""

from __future__ import annotations

from collections.abc import Sequence

from watcher.agent.follow import LogFollower
from watcher.clock import Clock
from watcher.config.logs import LogConfig
from watcher.daemon.fold import RunFold
from watcher.daemon.shared_logs import SharedLogs
from watcher.fleet._api import Job
from watcher.fleet._log_paths import paths_of

NEW_SECONDS = 300.0  # a job that began before that is met in the middle of its log


class JobLogs(SharedLogs):
    def __init__(self, fold: RunFold, logs: Sequence[LogConfig], follower: LogFollower, clock: Clock) -> None:
        super().__init__(fold, follower, clock)
        self._configs = logs
        self._before: list[LogConfig] = []
        self._now: list[LogConfig] = []

    def of_job(self, now: float, job: Job) -> None:
        """The job that runs. Another one writes elsewhere; what the last one wrote is still read to its end."""
        wanted = [
            config.model_copy(update={"path": path}) for config in self._configs for path in paths_of(config.path, job)
        ]
        if [config.path for config in wanted] == [config.path for config in self._now]:
            return
        self._before, self._now = self._now, wanted
        paths = {config.path for config in wanted}
        kept = [config for config in self._before if config.path not in paths]
        existed = job.started_at is not None and now - job.started_at > NEW_SECONDS
        self._follower.follow([*wanted, *kept], existed=existed)
