"""Which nodes, and which GPUs on them, belong to a run now, and what its scheduler says: one file, one source."""
