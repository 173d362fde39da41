"""HTTP: the application of the server role.

``create_app(functory)`` is an ordinary ASGI application, for ``functory server`` and for any other
ASGI server. It takes webhooks and CloudEvents, and shows the health of the deployment and the metrics of its process.
"""

from __future__ import annotations

from functory.api.application import create_app

__all__ = ["create_app"]
