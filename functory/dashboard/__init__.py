"""The dashboard: serves the built files of ``dashboard/`` beside the API."""

from functory.dashboard.serving import is_built, mount

__all__ = ["is_built", "mount"]
