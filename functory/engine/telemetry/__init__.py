"""Telemetry: logging and metric families."""
