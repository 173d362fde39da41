"""Tallies: what happened in each minute and hour, counted once by a scheduler and read by the dashboard."""
