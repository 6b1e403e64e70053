#!/bin/sh
# Prolog of slurmd, as root: the agent runs before the job does. Only environment, files and systemd are asked, each with
# a deadline; whatever fails here, the job starts.
#   slurm.conf:  Prolog=/etc/slurm/prolog.d/*      this file: /etc/slurm/prolog.d/50-runwatch.sh
set -u
jobs=${RUNWATCH_JOBS_DIR:-/run/runwatch-jobs}   # one empty file for each job that the agent was started for
unit=runwatch-agent

within() { timeout --kill-after=1 "$@"; }

note() { logger -t runwatch-prolog -- "$*" 2>/dev/null || true; }

enlist() { mkdir -p "$jobs" && : >"$jobs/${SLURM_JOB_ID:-unknown}"; }

if ! within 2 systemctl --quiet is-active "$unit" || [ -d "$jobs" ]; then
  if enlist || enlist; then # the epilog of another job may take the folder away in between
    within 2 systemctl --no-block start "$unit" || note "$unit could not be started for job ${SLURM_JOB_ID:-unknown}"
  fi
fi 2>/dev/null
exit 0
