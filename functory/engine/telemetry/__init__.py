"""Logging and metric families."""
