"""Telemetry of GPUs without our agent: exporters that are scraped, and engines that have scraped them."""
