"""Everything that touches the world: agent, daemon, logs, NVML, Slurm, HTTP, SQLite and the commands."""

__version__ = "0.1.0"
