"""The checks of ``functory doctor``: each returns what it found, and what repairs it."""
