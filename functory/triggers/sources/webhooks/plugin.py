"""The source plug-in ``webhook``."""

from __future__ import annotations

from typing import ClassVar

from functory.engine.errors import Invalid
from functory.triggers.sources.plugin import SourcePlugin
from functory.triggers.sources.webhooks.config import WebhookConfig
from functory.triggers.sources.webhooks.event_mapping import EventMapping


class WebhookSource(SourcePlugin):
    """Requests to ``/webhooks/NAME``."""

    kind: ClassVar[str] = "webhook"
    summary: ClassVar[str] = "what others send over HTTP, signed or with a token"
    types: ClassVar[tuple[str, ...]] = ("webhook.received", "*")
    Config = WebhookConfig

    def check(self, config: WebhookConfig) -> None:
        """Raise :class:`Invalid` for an expression that is not CEL, or cannot have the required type."""
        mapping = EventMapping("check", config)
        wrong = mapping.static_problem()
        if wrong:
            raise Invalid("wrong webhook", wrong)
