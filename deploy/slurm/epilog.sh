#!/bin/sh
# Epilog of slurmd, as root: an agent that prolog.sh started is stopped with the last of its jobs. One that ran before,
# as a service of the node, goes on. Never fails: a failing epilog drains the node.
#   slurm.conf:  Epilog=/etc/slurm/epilog.d/*      this file: /etc/slurm/epilog.d/50-runwatch.sh
set -u
jobs=${RUNWATCH_JOBS_DIR:-/run/runwatch-jobs}
unit=runwatch-agent

within() { timeout --kill-after=1 "$@"; }

if [ -d "$jobs" ]; then
  rm -f "$jobs/${SLURM_JOB_ID:-unknown}"
  if rmdir "$jobs"; then # the last one
    within 2 systemctl --no-block stop "$unit"
  fi
fi 2>/dev/null
exit 0
