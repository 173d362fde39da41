"""Chaos tests: real deployments and workers under random kills and other faults."""
