"""Verbs of ``functory function``."""
