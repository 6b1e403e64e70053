"""What one look of `nvidia-smi` says of a run, and what would make it certain."""
