"""Webhooks: what others send over HTTP becomes events.

A webhook is a source of kind ``webhook``: a name under ``/webhooks/``, how its sender proves who it is
(``authentication``), and what an event is made of (``mapping``, CEL over headers, body and query). The server asks the
:class:`Door` about each request; nothing else runs.
"""

from __future__ import annotations

from functory.triggers.sources.webhooks.plugin import WebhookSource
from functory.triggers.sources.webhooks.receiver import WebhookReceiver, WebhookResponse
from functory.triggers.sources.webhooks.request import Request

__all__ = ["WebhookResponse", "WebhookReceiver", "Request", "WebhookSource"]
