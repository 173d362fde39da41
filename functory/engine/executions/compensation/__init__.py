"""Compensation: the steps of a failed workflow that are undone, their order, and their progress."""
