"""The name and the colour that tell one installation from another."""

from __future__ import annotations

from functory.engine.settings import Settings


def installation(settings: Settings) -> dict[str, str]:
    """Return the ``name`` and the ``color`` of this installation."""
    return {
        "name": settings.installation_name or settings.namespace,
        "color": settings.installation_color,
    }
