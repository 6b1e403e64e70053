#!/bin/sh
# Runs a command, such as a reset in a health check, while the agent holds no GPU; its exit code is the command's.
#   gpus-free.sh nvidia-smi --gpu-reset -i 3
set -u
runwatch=${RUNWATCH:-/opt/runwatch/bin/runwatch}
config=${RUNWATCH_AGENT_CONFIG:-/etc/runwatch/agent.yaml}

tell() { timeout --kill-after=1 10 "$runwatch" agent --config "$config" "$1" >/dev/null 2>&1; }

[ $# -gt 0 ] || { echo "usage: gpus-free.sh COMMAND..." >&2; exit 2; }
trap 'tell --resume' EXIT
trap 'exit 143' TERM INT
tell --release || echo "gpus-free.sh: the agent did not answer; going on without it" >&2
"$@"
