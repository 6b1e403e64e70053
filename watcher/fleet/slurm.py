"""Slurm: one `squeue --json` a minute for all runs, else `scontrol`; `sacct` for jobs that are no longer listed."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from pydantic import Field, model_validator

from watcher.aside import aside
from watcher.clock import Clock
from watcher.fleet._api import FleetError, FleetPlugin, FleetSection, Job
from watcher.fleet._child import RefusedError, TooLargeError, output
from watcher.fleet._slurm_accounting import FIELDS, Record, records
from watcher.fleet._slurm_jobs import jobs_from_json, jobs_from_rows

log = logging.getLogger(__name__)
MAX_BYTES = 64 << 20
ASKED_AT_ONCE = 50  # jobs in one question to sacct
NO_JSON = ("unrecognized option", "invalid option", "plugin", "serializer", "unable to dump", "json")
KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH", "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "TZ")


class SlurmSettings(FleetSection):
    """How Slurm is asked. squeue, scontrol, sacct: programs, where they are not on the daemon's PATH.

    slurm_conf: where the programs do not find it themselves. cluster: another one than the local. accounting: false
    where sacct must not be asked.
    """

    squeue: str = Field(default="squeue", min_length=1)
    scontrol: str = Field(default="scontrol", min_length=1)
    sacct: str = Field(default="sacct", min_length=1)
    slurm_conf: Path | None = None
    cluster: str | None = Field(default=None, pattern=r"^[\w.-]+$")
    accounting: bool = True
    poll_seconds: float = Field(default=60.0, ge=60, le=3600)  # each question is one to the controller
    timeout_seconds: float = Field(default=20.0, ge=1, le=120)


class SlurmMatch(FleetSection):
    """Which jobs are the run; patterns are shell-style. job_id: of a job, or of a whole array."""

    job_name: str | None = Field(default=None, min_length=1)
    job_id: int | None = Field(default=None, ge=1)
    user: str | None = Field(default=None, min_length=1)
    partition: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _narrow(self) -> SlurmMatch:
        if self.job_name is None and self.job_id is None and self.user is None:
            raise ValueError("give job_name, job_id or user: a partition alone is everybody's jobs")
        return self


def accepts(match: SlurmMatch, job: Job) -> bool:
    labels = job.labels
    wanted = str(match.job_id)
    return (
        (match.job_name is None or fnmatchcase(job.name, match.job_name))
        and (match.job_id is None or wanted in (job.id, labels.get("array_job_id"), job.log_names.get("%j")))
        and (match.user is None or fnmatchcase(labels.get("user", ""), match.user))
        and (
            match.partition is None
            or any(fnmatchcase(name, match.partition) for name in labels.get("partition", "").split(","))
        )
    )


class SlurmSource:
    def __init__(self, settings: SlurmSettings, matches: Sequence[SlurmMatch], clock: Clock) -> None:
        self._settings, self._matches = settings, matches
        self._speaks_json = True
        self._accounting = settings.accounting
        self._running: dict[str, Job] = {}  # at the last poll, of the runs

    async def jobs(self) -> Sequence[Job]:
        listed = [job for job in await self._listed() if any(accepts(match, job) for match in self._matches)]
        found = {job.id for job in listed}
        gone = [job for job in self._running.values() if job.id not in found]
        ended = await self._ended(gone) if gone else []
        self._running = {job.id: job for job in listed if job.state == "running"}
        return [*listed, *ended]

    async def aclose(self) -> None:
        """Nothing is held between two polls."""

    async def _listed(self) -> list[Job]:
        settings = self._settings
        if self._speaks_json:
            try:
                told = await self._run([settings.squeue, "--json", "--states=all"])
                return await aside(partial(jobs_from_json, told))  # seconds for thousands of jobs
            except TooLargeError as error:
                log.warning("slurm: %s; scontrol is asked from now on", error)
            except RefusedError as error:
                if not any(word in str(error) for word in NO_JSON):
                    raise
                log.info("slurm: squeue speaks no JSON, scontrol is asked from now on: %s", error)
            self._speaks_json = False
        told = await self._run([settings.scontrol, "--details", "--oneliner", "show", "job"])
        return await aside(partial(jobs_from_rows, told))

    async def _ended(self, gone: Sequence[Job]) -> list[Job]:
        """Jobs that ran at the last poll and are no longer listed: how they ended, or that it is not known."""
        told: dict[str, Record] = {}
        if self._accounting:
            ids = ",".join(job.id for job in gone[:ASKED_AT_ONCE])
            argv = [self._settings.sacct, "--allocations", "--duplicates", "--parsable2", "--noheader"]
            try:
                data = await self._run([*argv, f"--format={','.join(FIELDS)}", f"--jobs={ids}"])
                told = {record.id: record for record in records(data)}  # the last launch of each
            except FleetError as error:
                if "disabled" in str(error):
                    self._accounting = False
                log.info("slurm: how jobs %s ended is not known: %s", ids, error)
        return [_ended(job, told.get(job.id)) for job in gone]

    async def _run(self, argv: list[str]) -> bytes:
        settings = self._settings
        cluster = [f"--clusters={settings.cluster}"] if settings.cluster is not None else []
        env = {name: value for name in KEPT if (value := os.environ.get(name)) is not None}
        env |= {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
        if settings.slurm_conf is not None:
            env["SLURM_CONF"] = str(settings.slurm_conf)
        return await output([argv[0], *cluster, *argv[1:]], env, settings.timeout_seconds, MAX_BYTES)


def _ended(job: Job, record: Record | None) -> Job:
    if record is None or record.state == "running":
        return replace(job, state="gone", ends_by_at=None, reason="no longer listed by squeue")
    return replace(
        job,
        state=record.state,
        ended_at=record.ended_at,
        ends_by_at=None,
        reason=f"exit code {record.exit_code}" if record.exit_code not in ("", "0:0") else "",
    )


PLUGIN = FleetPlugin(
    "slurm", SlurmSettings, SlurmMatch, SlurmSource, accepts,
    labels=("job_name", "user", "partition", "job_id", "array_job_id"),
    short=("job_name", "job_id", "user", "partition"),
)  # fmt: skip
