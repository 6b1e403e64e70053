#!/bin/bash
# Ends the agent that task-prolog.sh started on this node. Slurm with proctrack/cgroup would end it too, but hard.
set -u
[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0
place=${XDG_CACHE_HOME:-$HOME/.cache}/runwatch/agent.${SLURM_JOB_ID:-0}.${SLURM_STEP_ID:-0}.${SLURMD_NODENAME:-node}
if read -r agent <"$place.pid"; then
  kill -- "-$agent" # its process group
  rm -f "$place.pid"
fi 2>/dev/null
exit 0
