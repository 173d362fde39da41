"""Ways in which a sender authenticates: their configurations, and the headers that carry credentials.

A configuration names stored secrets and never holds a value. Several names are accepted, so that a secret can be
rotated without losing a request: one fitting secret is enough.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from functory.engine.names import NAME
from functory.engine.serialization import durations
from functory.triggers.sources.plugin import ConfigPart

MAX_SECRETS = 5
# RFC 9110, section 5.6.2, in the lower case that HTTP/2 sends.
HEADER = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]{1,100}")
FIVE_MINUTES = 300.0
# Beyond an hour a timestamp protects from nothing.
MAX_TOLERANCE = 3600.0

# Headers that no event shows, however a webhook is configured.
CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie"})


def header_name(given: str) -> str:
    """A header's name in lower case. Raises ValueError."""
    name = given.strip().lower()
    if not HEADER.fullmatch(name):
        raise ValueError(f"{given[:100]!r} is not a header name")
    return name


class _SecretAuth(ConfigPart):
    """The base of configurations with a secret: ``secret`` is the name of a stored one, or a list of names."""

    secret: list[str] = Field(min_length=1, max_length=MAX_SECRETS)

    # True to take a delivery id that is not signed as it is: two requests with one body and two ids are two events.
    trust_delivery_id: bool | None = None

    # Headers of a known sender that events include.
    kept_headers: ClassVar[tuple[str, ...]] = ()
    # Headers of a sender's signatures, which no event shows.
    signature_headers: ClassVar[tuple[str, ...]] = ()

    @field_validator("secret", mode="before")
    @classmethod
    def _names(cls, given: Any) -> Any:
        names = [given] if isinstance(given, str) else given
        if isinstance(names, list) and not all(isinstance(one, str) and NAME.fullmatch(one) for one in names):
            # Not shown: it may be the secret itself.
            raise ValueError(
                "this must be the name of a stored secret (functory secret set NAME), not its value"
            )
        return names

    @property
    def credential_headers(self) -> frozenset[str]:
        """Headers that carry credentials."""
        return frozenset(self.signature_headers)


class _TimestampedAuth(_SecretAuth):
    """A signature with a timestamp, which must be within ``tolerance`` of the present."""

    tolerance: str | float = FIVE_MINUTES

    @field_validator("tolerance")
    @classmethod
    def _in_bounds(cls, given: str | float) -> str | float:
        durations.parse(given, "tolerance", 1, MAX_TOLERANCE)
        return given


class GitHub(_SecretAuth):
    """https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries"""

    type: Literal["github"]
    kept_headers: ClassVar[tuple[str, ...]] = ("x-github-event", "x-github-delivery", "x-github-hook-id")
    signature_headers: ClassVar[tuple[str, ...]] = (
        "x-hub-signature",
        "x-hub-signature-256",
    )


class Stripe(_TimestampedAuth):
    """https://docs.stripe.com/webhooks#verify-manually"""

    type: Literal["stripe"]
    signature_headers: ClassVar[tuple[str, ...]] = ("stripe-signature",)


class Slack(_TimestampedAuth):
    """https://docs.slack.dev/authentication/verifying-requests-from-slack"""

    type: Literal["slack"]
    kept_headers: ClassVar[tuple[str, ...]] = ("x-slack-retry-num", "x-slack-retry-reason")
    signature_headers: ClassVar[tuple[str, ...]] = ("x-slack-signature",)


class Standard(_TimestampedAuth):
    """https://www.standardwebhooks.com, symmetric signatures: what many services send."""

    type: Literal["standard"]
    kept_headers: ClassVar[tuple[str, ...]] = ("webhook-id",)
    signature_headers: ClassVar[tuple[str, ...]] = ("webhook-signature",)


class Hmac(_TimestampedAuth):
    """Any sender that signs with HMAC (RFC 2104).

    ``signed`` is the signed text, with ``{body}`` and, with a ``timestamp_header``, ``{timestamp}`` in it.
    """

    type: Literal["hmac"]
    header: str
    algorithm: Literal["sha1", "sha256", "sha512"] = "sha256"
    encoding: Literal["hex", "base64"] = "hex"
    prefix: str = Field("", max_length=50)
    timestamp_header: str | None = None
    signed: str | None = Field(None, max_length=200)

    @field_validator("header", "timestamp_header")
    @classmethod
    def _header(cls, given: str | None) -> str | None:
        return None if given is None else header_name(given)

    @model_validator(mode="after")
    def _template(self) -> Hmac:
        wanted = ["{body}"] if self.timestamp_header is None else ["{body}", "{timestamp}"]
        if self.signed is not None and sorted(re.findall(r"\{[^}]*\}", self.signed)) != wanted:
            raise ValueError(f"signed holds {' and '.join(wanted)} once, as in {self._usual!r}")
        if self.timestamp_header == self.header:
            raise ValueError("header and timestamp_header are two headers")
        return self

    @property
    def template(self) -> str:
        """The template of the signed text."""
        return self._usual if self.signed is None else self.signed

    @property
    def _usual(self) -> str:
        return "{body}" if self.timestamp_header is None else "{timestamp}.{body}"

    @property
    def credential_headers(self) -> frozenset[str]:
        return frozenset({self.header})


class Token(_SecretAuth):
    """A secret text in a header; in ``authorization`` it comes after ``Bearer`` (RFC 6750, section 2.1)."""

    type: Literal["token"]
    header: str = "authorization"

    @field_validator("header")
    @classmethod
    def _header(cls, given: str) -> str:
        return header_name(given)

    @property
    def credential_headers(self) -> frozenset[str]:
        return frozenset({self.header})


class Basic(_SecretAuth):
    """A user and a secret password (RFC 7617)."""

    type: Literal["basic"]
    user: str = Field(min_length=1, max_length=200, pattern=r"^[^:\x00-\x1f\x7f]+$")


class NoAuthentication(ConfigPart):
    """No authentication. It must be confirmed, so that it is never an oversight."""

    type: Literal["none"]
    allow_unauthenticated: bool = False

    secret: ClassVar[Sequence[str]] = ()
    trust_delivery_id: ClassVar[bool] = False
    kept_headers: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _meant(self) -> NoAuthentication:
        if not self.allow_unauthenticated:
            raise ValueError(
                "everyone who knows the address could write events; if intended, set allow_unauthenticated: true"
            )
        return self

    @property
    def credential_headers(self) -> frozenset[str]:
        """No header carries credentials."""
        return frozenset()


Authentication = Annotated[
    GitHub | Stripe | Slack | Standard | Hmac | Token | Basic | NoAuthentication, Field(discriminator="type")
]
