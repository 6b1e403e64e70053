"""The rules over the history that a Prometheus-compatible engine has kept."""
