"""Executions under random kills: what must not be left when everything that can die has died."""
