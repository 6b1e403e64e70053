"""Telemetry sources of a node, one file each: `async read() -> what it saw`, with a deadline of its own."""
