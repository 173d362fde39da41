"""Decides what each event starts, and what is released once time or a slot allows it."""
