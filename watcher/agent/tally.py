"""What a follower counts, from its start."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Tally:
    rotations: int = 0  # a path came to mean another file, or a file began anew
    errors: int = 0  # of the file system
    skipped_bytes: int = 0  # not read, because there were too many of them
    long_lines: int = 0  # cut
