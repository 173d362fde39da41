"""Decides which triggers each event fires, and releases waiting matches and executions."""
