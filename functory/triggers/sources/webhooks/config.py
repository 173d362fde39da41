"""The configuration of a webhook."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from functory.engine.serialization import durations
from functory.triggers.sources.plugin import ConfigPart, SourceConfig
from functory.triggers.sources.webhooks.authentication import (
    CREDENTIALS,
    Authentication,
    NoAuthentication,
    header_name,
)

MAX_PERIOD = 86_400.0


class RateConfig(ConfigPart):
    """At most ``limit`` requests become events in a ``period``, ``burst`` of them at once."""

    limit: int = Field(ge=1, le=1_000_000)
    period: str | float = "1m"
    burst: int | None = Field(default=None, ge=1, le=1_000_000)

    @field_validator("period")
    @classmethod
    def _in_bounds(cls, given: str | float) -> str | float:
        durations.parse(given, "period", 1, MAX_PERIOD)
        return given

    @property
    def effective_burst(self) -> int:
        """Requests that may come at once: ``burst``, by default ``limit``."""
        return self.limit if self.burst is None else self.burst


# The default rate of a webhook without authentication.
UNAUTHENTICATED_RATE = RateConfig(limit=60)


class WebhookConfig(SourceConfig):
    """Authentication, mapping to an event, and limits of a webhook."""

    auth: Authentication = Field(description="how a request proves that it is from its sender")
    type: str | None = Field(None, description="CEL: type of the event; webhook.received by default")
    subject: str | None = Field(None, description="CEL: subject of the event; the webhook's name by default")
    data: str | None = Field(
        None, description="CEL: data of the event; webhook, headers, query and body by default"
    )
    delivery: str | None = Field(
        None, description="CEL: id of a delivery, such as body.id; a repeated one makes no event"
    )
    when: str | None = Field(None, description="CEL: true for requests that become events; all by default")
    headers: list[str] = Field([], max_length=50, description="headers that the event's data keeps")
    max_bytes: int | None = Field(None, ge=1, le=16_777_216, description="largest body that is taken")
    rate: RateConfig | None = Field(None, description="beyond it requests are answered by 429")

    @field_validator("headers")
    @classmethod
    def _names(cls, given: list[str]) -> list[str]:
        return sorted({header_name(name) for name in given})

    @model_validator(mode="after")
    def _keeps_no_credentials(self) -> WebhookConfig:
        shown = sorted(set(self.headers) & (CREDENTIALS | self.auth.credential_headers))
        if shown:
            raise ValueError(
                f"headers: {', '.join(shown)} would put credentials into events, where many can read them"
            )
        return self

    @property
    def effective_rate(self) -> RateConfig | None:
        """The rate in force; None for no limit."""
        return (
            UNAUTHENTICATED_RATE
            if self.rate is None and isinstance(self.auth, NoAuthentication)
            else self.rate
        )
