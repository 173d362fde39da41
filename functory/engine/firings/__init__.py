"""Stored triggers, and the transaction that turns a batch of events into firings and executions.

The rows are here; the decisions are in :mod:`functory.triggers`.
"""
