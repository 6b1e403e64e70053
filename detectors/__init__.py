"""From a frame to a verdict: one signature per file. Imports nothing of ours; no I/O, no clock."""
