"""Progress of a run from metrics that the job itself exports, for runs whose log is not read."""
