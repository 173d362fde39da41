"""Receives webhook requests: authenticates them and writes one event for each delivery.

The order makes it safe. No part of a request is parsed before it is authenticated, and *accepted* is answered only
after the event is committed. A sender without valid credentials gets the same answer, after the same work, from a
webhook that does not exist, from a paused one, and for a wrong signature.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping as Map
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import SecretStr

from functory.engine.access.secrets import Secrets
from functory.engine.database.clock import Clock
from functory.engine.errors import FunctoryError, Invalid
from functory.engine.events import trace_origins
from functory.engine.events.lineage_tokens import LineageTokens
from functory.engine.events.receipts import IncomingEvent
from functory.engine.flow_control.controls import Key, RateLimit
from functory.engine.serialization import durations, json_codec
from functory.engine.serialization.media_types import UnsupportedMediaType
from functory.engine.sources import refusals
from functory.engine.sources.webhooks import Webhooks
from functory.engine.telemetry import traces
from functory.triggers.sources import registry
from functory.triggers.sources.webhooks import request as requests
from functory.triggers.sources.webhooks import signatures
from functory.triggers.sources.webhooks.authentication import GitHub, Slack
from functory.triggers.sources.webhooks.config import WebhookConfig
from functory.triggers.sources.webhooks.event_mapping import EventMapping
from functory.triggers.sources.webhooks.plugin import WebhookSource
from functory.triggers.sources.webhooks.request import Request

# Largest age of a server's snapshot of the webhooks. Most changes are notified at once; this covers the others.
SNAPSHOT_SECONDS = 1.0
# Shortest interval between two stored problems of one webhook: unknown senders may cause many.
PROBLEM_INTERVAL_SECONDS = 5.0
# The least time that a sender waits while the breaker is open: its watch resumes the webhook after up to a round.
RESUME_SECONDS = 15
# Webhooks whose last stored problem is remembered; a deployment has tens.
MAX_REPORTED = 1000

REFUSED_DETAIL = "no webhook accepts this request: its name, its state or its credentials are not right"


@dataclass(frozen=True)
class WebhookResponse:
    """The answer to a request. ``reason`` is a label for the metrics. ``problem`` is for the operator of the webhook
    ``webhook_id``, and never part of the answer, and so is ``refusal``: why the request became no event, a word of
    :data:`functory.engine.sources.refusals.REASONS`."""

    status: int
    reason: str
    body: Map[str, Any] = field(default_factory=dict)
    detail: str = ""
    retry_after: int | None = None
    webhook_id: str | None = None
    problem: str = ""
    refusal: str = ""


@dataclass(frozen=True)
class _CompiledWebhook:
    """A stored webhook, read and compiled."""

    config: WebhookConfig
    mapping: EventMapping
    rate: RateLimit | None


@dataclass(frozen=True)
class _Snapshot:
    """All webhooks at one time, with their secrets. All are loaded, so that looking up a name takes no query, whose
    time would reveal whether the webhook exists."""

    generation: int
    until: float
    webhooks: Map[str, tuple[Map[str, Any], _CompiledWebhook]]
    secrets: Map[str, SecretStr | FunctoryError]


_NOTHING = _Snapshot(-1, -math.inf, {}, {})


class WebhookReceiver:
    """Answers the requests of all webhooks. Thread-safe."""

    def __init__(self, webhooks: Webhooks, secrets: Secrets, clock: Clock, max_bytes: int) -> None:
        self._webhooks = webhooks
        self._secrets = secrets
        self._clock = clock
        self._max_bytes = max_bytes
        self._lineage_tokens = LineageTokens(secrets.derive_keys)
        self._kind = WebhookSource()
        self._compiled: dict[tuple[str, int], _CompiledWebhook] = {}
        # Of each webhook: when its last problem was stored, and how many refusals of each reason are not stored yet.
        self._reported_at: dict[str, float] = {}
        self._refusals: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._lock = threading.Lock()
        self._snapshot = _NOTHING

    def receive(self, name: str, request: Request) -> WebhookResponse:
        """Handle a request. Raises :class:`Unavailable` without a database: nothing is written then, and the sender has
        to send it again."""
        try:
            media = requests.content_type(request)
        except UnsupportedMediaType as error:
            return replace(self.refuse_unread(name, 415, "content_type"), detail=str(error))
        known = self._load()
        row, ready = known.webhooks.get(name, (None, None))
        proof = self._authenticate(known, ready, request)
        if row is not None and proof.ok and row["paused_until"] is not None:
            left = (row["paused_until"] - self._clock.now()).total_seconds()
            # The watch resumes it some seconds later.
            again = max(RESUME_SECONDS, math.ceil(left))
            return WebhookResponse(
                503, "paused", detail="too many requests came; it takes them again later", retry_after=again
            )
        if row is None or ready is None or not proof.ok or row["state"] != "enabled":
            reported = row is not None and row["state"] == "enabled" and proof.problem
            return WebhookResponse(
                404,
                "refused",
                detail=REFUSED_DETAIL,
                webhook_id=row["id"] if row is not None and reported else None,
                problem=f"a request was refused: {proof.problem}" if reported else "",
                refusal=proof.refusal,
            )
        return self._accept(row, ready, media, request, proof)

    def refuse_unread(self, name: str, status: int, refusal: str) -> WebhookResponse:
        """The answer to a request that is refused before it is known who sends it, for a reason of
        :data:`functory.engine.sources.refusals.REASONS`. It is the same for a webhook that does not exist. Raises
        :class:`Unavailable`.
        """
        row, _ = self._load().webhooks.get(name, (None, None))
        if row is None or row["state"] != "enabled":
            return WebhookResponse(status, refusal)
        problem = f"a request was refused: {refusals.REASONS[refusal]}"
        return WebhookResponse(status, refusal, webhook_id=row["id"], problem=problem, refusal=refusal)

    def count_refusal(self, answer: WebhookResponse) -> float | None:
        """Count a refused request. Returns the seconds after which :meth:`record_refusals` is to be called with its
        answer; None when it will be called for an earlier one."""
        if answer.webhook_id is None:
            return None
        with self._lock:
            waiting = self._refusals[answer.webhook_id]
            waiting[answer.refusal] += 1
            if waiting.total() > 1:
                return None
            last = self._reported_at.get(answer.webhook_id, -math.inf)
        return max(0.0, last + PROBLEM_INTERVAL_SECONDS - self._clock.monotonic())

    def record_refusals(self, answer: WebhookResponse) -> None:
        """Store an answer's problem on its webhook, and the number of refusals since the last time. Called after the
        answer was sent, so that its time reveals nothing. Raises :class:`Unavailable`; what was counted is lost then.
        """
        if answer.webhook_id is None:
            return
        with self._lock:
            if len(self._reported_at) >= MAX_REPORTED:
                self._reported_at.clear()
            self._reported_at[answer.webhook_id] = self._clock.monotonic()
            numbers = self._refusals.pop(answer.webhook_id, Counter())
        self._webhooks.record_refusals(answer.webhook_id, answer.problem, numbers)
        # The next accepted request must see the problem, and clear it.
        self._snapshot = _NOTHING

    def _load(self) -> _Snapshot:
        """The present snapshot. Raises :class:`Unavailable`."""
        known = self._snapshot
        if known.until > self._clock.monotonic() and known.generation == self._webhooks.generation():
            return known
        with self._lock:
            if known is not self._snapshot:
                # Another thread has loaded it meanwhile.
                return self._snapshot
            generation, now = self._webhooks.generation(), self._clock.monotonic()
            webhooks = {}
            for row in self._webhooks.all():
                ready = self._compile(row)
                if ready is not None:
                    webhooks[row["name"]] = (row, ready)
            names = sorted({name for _, ready in webhooks.values() for name in ready.config.auth.secret})
            secrets = self._secrets.open_all(names)
            self._compiled = {(row["id"], row["version"]): ready for row, ready in webhooks.values()}
            self._snapshot = _Snapshot(generation, now + SNAPSHOT_SECONDS, webhooks, secrets)
            return self._snapshot

    def _compile(self, row: Map[str, Any]) -> _CompiledWebhook | None:
        found = self._compiled.get((row["id"], row["version"]))
        if found is not None:
            return found
        try:
            config = registry.parse_config(self._kind, row["config"])
            return _CompiledWebhook(
                config, EventMapping(row["name"], config), rate_limit_of(row["name"], config)
            )
        except Invalid:
            # Stored by another release, with fields that this one does not know.
            return None

    def _authenticate(
        self, known: _Snapshot, ready: _CompiledWebhook | None, request: Request
    ) -> signatures.VerificationResult:
        names = ready.config.auth.secret if ready is not None else ()
        found = [known.secrets[name] for name in names]
        keys = [one.get_secret_value() for one in found if isinstance(one, SecretStr)]
        if ready is None or (names and not keys):
            signatures.dummy_verify(request)
            absent = [one.reason for one in found if isinstance(one, FunctoryError)]
            return signatures.VerificationResult(False, "; ".join(absent), refusal="secret_missing")
        # The sender's clock is compared with the real one, which the engine's time may be ahead of.
        return signatures.verify(ready.config.auth, keys, request, self._clock.wall().timestamp())

    def _accept(
        self,
        row: Map[str, Any],
        ready: _CompiledWebhook,
        media: str,
        request: Request,
        proof: signatures.VerificationResult,
    ) -> WebhookResponse:
        def refuse(status: int, reason: str, detail: str) -> WebhookResponse:
            return WebhookResponse(
                status, reason, detail=detail, webhook_id=row["id"], problem=detail, refusal=reason
            )

        limit = min(ready.config.max_bytes or self._max_bytes, self._max_bytes)
        if len(request.body) > limit:
            return refuse(413, "too_large", f"{len(request.body):,} bytes; at most {limit:,} are taken")
        auth = ready.config.auth
        try:
            body = requests.read_body(media, request.body, payload=isinstance(auth, GitHub | Slack))
            json_codec.encode(body)
        except Invalid as error:
            return refuse(400, "malformed", error.reason)
        answered = handshake_response(auth, body, request)
        if answered is not None:
            return answered
        mapping = ready.mapping
        try:
            variables = mapping.variables(request, body)
            if not mapping.accepts(variables):
                return WebhookResponse(202, "ignored", {"event": None, "ignored": True})
            made = mapping.to_event(variables)
            size = len(json_codec.encode(made.data))
        except FunctoryError as error:
            return refuse(422, "mapping", error.reason)
        if size > self._max_bytes:
            return refuse(
                413, "too_large", f"the event has {size:,} bytes; at most {self._max_bytes:,} are taken"
            )
        trusted = made.id_is_signed or (made.delivery_id is not None and auth.trust_delivery_id)
        arrival = IncomingEvent(
            made.type,
            made.data,
            made.subject,
            key=made.delivery_id,
            content_key=None if trusted else proof.content_key,
            extensions=None if traces.recorder is None else trace_origins.with_header(None, request.headers),
        )
        lineage = self._lineage_tokens.verify(request.headers, self._clock.now())
        taken = self._webhooks.ingest(row, arrival, ready.rate, lineage)
        if taken.retry_after > 0:
            again = durations.format_duration(taken.retry_after)
            return WebhookResponse(
                429,
                "limited",
                detail=f"more than {ready.rate.limit if ready.rate else 0} requests came in too short a time",
                retry_after=math.ceil(taken.retry_after),
                webhook_id=row["id"],
                problem=f"more requests came than its rate allows; one is taken again in {again}",
                refusal="rate",
            )
        return WebhookResponse(
            202,
            "duplicate" if taken.duplicate else "accepted",
            {"event": taken.event_id, "duplicate": taken.duplicate},
        )


def rate_limit_of(name: str, config: WebhookConfig) -> RateLimit | None:
    """The rate limit of a configuration; None for no limit."""
    allowed = config.effective_rate
    if allowed is None:
        return None
    period = durations.parse(allowed.period, "period")
    return RateLimit(Key("", name), allowed.limit, period, allowed.effective_burst)


def handshake_response(auth: Any, body: Any, request: Request) -> WebhookResponse | None:
    """The answer to a sender's test request (Slack's challenge, GitHub's ping), which becomes no event; else None."""
    if isinstance(auth, Slack) and isinstance(body, dict) and body.get("type") == "url_verification":
        return WebhookResponse(200, "greeting", {"challenge": body.get("challenge")})
    if isinstance(auth, GitHub) and request.one("x-github-event") == "ping":
        return WebhookResponse(200, "greeting", {"pong": True})
    return None


def dry_run(
    row: Map[str, Any], body: bytes, headers: Sequence[tuple[str, str]], query: str
) -> dict[str, Any]:
    """The event that the webhook ``row`` would write for an authenticated request. Nothing is written.

    Returns ``type``, ``subject``, ``delivery`` and ``data``; or ``ignored``, ``greeting`` or ``problem``.
    """
    config = registry.parse_config(WebhookSource(), row["config"])
    request = Request("POST", headers, query, body)
    try:
        media = requests.content_type(request)
        value = requests.read_body(media, body, payload=isinstance(config.auth, GitHub | Slack))
        answer = handshake_response(config.auth, value, request)
        if answer is not None:
            return {"greeting": dict(answer.body)}
        mapping = EventMapping(row["name"], config)
        variables = mapping.variables(request, value)
        if not mapping.accepts(variables):
            return {"ignored": True}
        made = mapping.to_event(variables)
    except UnsupportedMediaType as error:
        return {"problem": str(error)}
    except Invalid as error:
        return {"problem": error.reason}
    delivery = made.delivery_id.removeprefix("delivery:") if made.delivery_id is not None else None
    return {"type": made.type, "subject": made.subject, "delivery": delivery, "data": made.data}
