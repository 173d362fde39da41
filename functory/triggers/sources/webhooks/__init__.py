"""Webhooks: HTTP requests of other services become events.

A webhook is a source of kind ``webhook``: a name under ``/webhooks/``, how its sender authenticates
(``authentication``), and the mapping to an event (``event_mapping``, CEL over headers, body and query). The server
passes each request to the :class:`WebhookReceiver`; no other process is needed.
"""

from __future__ import annotations

from functory.triggers.sources.webhooks.plugin import WebhookSource
from functory.triggers.sources.webhooks.receiver import WebhookReceiver, WebhookResponse
from functory.triggers.sources.webhooks.request import Request

__all__ = ["WebhookResponse", "WebhookReceiver", "Request", "WebhookSource"]
