"""The resources under ``/api/v1``: one module for each noun, each with a ``router``."""
