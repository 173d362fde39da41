"""Maps a request to its event: type, subject, data and delivery id, by CEL over the request or by default.

The expressions see ``headers`` (lower-case names, without those that carry credentials), ``body`` (the parsed JSON, the
fields of a form, or a text), ``query`` and ``method``.
"""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.events import store as event_store
from functory.engine.serialization import json_codec
from functory.triggers.expressions import values
from functory.triggers.sources.webhooks.authentication import CREDENTIALS, GitHub, Slack, Standard, Stripe
from functory.triggers.sources.webhooks.config import WebhookConfig
from functory.triggers.sources.webhooks.request import Request, read_fields

TYPE = "webhook.received"
VARIABLES = ("headers", "body", "query", "method")
EXAMPLE = 'body.action + "/" + headers["x-event"]'
# Headers in every event, beside those that the webhook names.
DEFAULT_HEADERS = ("content-type", "user-agent")

TEXTS = frozenset({"STRING", "DYN", "NULL"})


@dataclass(frozen=True)
class MappedEvent:
    """The event of a request. ``delivery_id`` is None if none was found. ``id_is_signed`` is False for an id that comes
    from headers or the query, which most senders do not sign.
    """

    type: str
    subject: str
    data: Any
    delivery_id: str | None
    id_is_signed: bool


def compile_one(text: str | None, what: str) -> values.ValueExpression | None:
    """One expression of a webhook; None without a text. Raises :class:`Invalid`."""
    return None if text is None else values.compile_value(text, what, VARIABLES, EXAMPLE)


class EventMapping:
    """The compiled expressions of one webhook."""

    def __init__(self, name: str, config: WebhookConfig) -> None:
        """Raises :class:`Invalid` for an expression that is not CEL."""
        self._name = name
        self._auth = config.auth
        self._hidden = config.auth.credential_headers | CREDENTIALS
        self._kept = tuple(dict.fromkeys((*DEFAULT_HEADERS, *config.auth.kept_headers, *config.headers)))
        self._type = compile_one(config.type, "type")
        self._subject = compile_one(config.subject, "subject")
        self._data = compile_one(config.data, "data")
        self._delivery = compile_one(config.delivery, "delivery")
        self._when = compile_one(config.when, "when")

    def static_problem(self) -> str | None:
        """The problem of an expression whose type is wrong for every request; None without one."""
        for one, what, kinds in (
            (self._type, "type", TEXTS),
            (self._subject, "subject", TEXTS),
            (self._delivery, "delivery", TEXTS | {"INT", "UINT"}),
            (self._when, "when", {"BOOL", "DYN"}),
        ):
            if one is not None and one.kind not in kinds:
                wanted = "boolean" if what == "when" else "text"
                return f"{what} gives a value of type {one.kind.lower()}, not a {wanted}"
        return None

    def variables(self, request: Request, body: Any) -> dict[str, Any]:
        """The variables of the expressions. Raises :class:`Invalid` for a malformed query."""
        headers: dict[str, str] = {}
        for name, value in request.headers:
            if name not in self._hidden:
                # Several lines of one name are one list (RFC 9110, section 5.3).
                headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return {
            "headers": headers,
            "body": body,
            "query": read_fields(request.query),
            "method": request.method,
        }

    def accepts(self, variables: Map[str, Any]) -> bool:
        """True if ``when`` accepts the request. Raises :class:`Invalid`."""
        if self._when is None:
            return True
        answer = self._when.evaluate(variables)
        if not isinstance(answer, bool):
            raise Invalid("when is not true or false for this request", f"got {_shown(answer)}")
        return answer

    def to_event(self, variables: Map[str, Any]) -> MappedEvent:
        """The event. Raises :class:`Invalid` with the expression that failed, and why."""
        type_ = self._type.evaluate(variables) if self._type is not None else None
        if type_ is None:
            type_ = TYPE
        elif type_ != TYPE:
            event_store.check_type(type_)
        subject = self._subject.evaluate(variables) if self._subject is not None else None
        subject = self._name if subject is None else _text(subject, "subject")
        event_store.check_subject(subject)
        event_store.check_storable(subject, "event subject")
        data = self._data.evaluate(variables) if self._data is not None else self._plain(variables)
        id_ = self._id(variables)
        return MappedEvent(type_, subject, data, id_, id_ is not None and self._signs(variables, id_))

    def _plain(self, variables: Map[str, Any]) -> dict[str, Any]:
        headers = variables["headers"]
        return {
            "webhook": self._name,
            "headers": {name: headers[name] for name in self._kept if name in headers},
            "query": variables["query"],
            "body": variables["body"],
        }

    def _id(self, variables: Map[str, Any]) -> str | None:
        if self._delivery is not None:
            found = self._delivery.evaluate(variables)
            return None if found is None else "delivery:" + _text(found, "delivery")
        body, headers = variables["body"], variables["headers"]
        match self._auth:
            case GitHub():
                found = headers.get("x-github-delivery")
            case Standard():
                found = headers.get("webhook-id")
            case Stripe():
                found = body.get("id") if isinstance(body, dict) else None
            case Slack():
                # The Events API has event_id; interactions of users have trigger_id.
                found = (body.get("event_id") or body.get("trigger_id")) if isinstance(body, dict) else None
            case _:
                found = None
        return f"delivery:{found}" if isinstance(found, str) and found else None

    def _signs(self, variables: Map[str, Any], id_: str) -> bool:
        """True for an id that the signature covers: it is the same without what the signature leaves out."""
        if isinstance(self._auth, Standard) and self._delivery is None:
            return True
        try:
            return self._id({**variables, "headers": {}, "query": {}, "method": ""}) == id_
        except Invalid:
            return False


def _text(value: Any, what: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise Invalid(f"{what} is no text for this request", f"got {_shown(value)}")
    return str(value)


def _shown(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", bool: "a boolean", float: "a number", type(None): "null"}
    return kinds.get(type(value)) or json_codec.dumps(value)[:80]
