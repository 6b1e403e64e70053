"""What a recording would have raised, and when: the daemon's own fold, detectors and incidents over files."""
