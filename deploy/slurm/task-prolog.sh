#!/bin/bash
# An agent inside the allocation, where no root has set one up: one on each node of the step, ended by task-epilog.sh.
#   srun --task-prolog=$PWD/task-prolog.sh --task-epilog=$PWD/task-epilog.sh ...
# or, for everybody, TaskProlog= and TaskEpilog= in slurm.conf.
# It needs $RUNWATCH_AGENT_CONFIG (default ~/.config/runwatch/agent.yaml) and runwatch in $RUNWATCH or on the PATH.
# slurmd reads what a task prolog prints as commands, and waits for it: this one prints nothing and does not wait.
set -u
[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0
config=${RUNWATCH_AGENT_CONFIG:-$HOME/.config/runwatch/agent.yaml}
[ -r "$config" ] || exit 0

# The name that Slurm knows this node by; the host name may be longer.
export RUNWATCH_NODE=${SLURMD_NODENAME:-}
place=${XDG_CACHE_HOME:-$HOME/.cache}/runwatch/agent.${SLURM_JOB_ID:-0}.${SLURM_STEP_ID:-0}.${RUNWATCH_NODE:-node}
umask 077
mkdir -p "${place%/*}" 2>/dev/null || exit 0 # not in /tmp, where others could lay a trap

# A process group of its own, from its first moment on: slurmd kills that of a prolog that has ended.
set -m
nice -n 10 "${RUNWATCH:-runwatch}" agent --config "$config" </dev/null >"$place.log" 2>&1 &
echo $! >"$place.pid"
exit 0
