"""One line about the agent for `systemctl status`: what it reads, and what it cannot read."""

from __future__ import annotations

from watcher.agent.app import Agent


def status_line(agent: Agent) -> str:
    gpus = len(agent.gpus.latest.gpus) if agent.gpus.latest is not None else 0
    unread = [status for status in agent.statuses if status.error is not None]
    files = len(agent.statuses) - len(unread)
    line = f"reads {gpus} GPU{'' if gpus == 1 else 's'} and {files} log file{'' if files == 1 else 's'}"
    troubles = [f"{status.path}: {status.error}" for status in unread]
    troubles += [f"{name}: {health.error or 'fails'}" for name, health in agent.health().items() if not health.ok]
    if agent.push is not None and agent.push.error is not None:
        troubles.append(f"push: {agent.push.error}")
    return "; ".join([line, *troubles])
