"""YAML to typed configuration."""
