"""Benchmarks of whole deployments."""
