"""A simulated run: pure functions of virtual time, for the demo, tests and benchmarks. No GPU, no network."""
