"""The same kills on plain Celery and on Functory: ``python -m tests.chaos.peer``."""
