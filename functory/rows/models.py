"""Rows of language models, of their calls, and of what may be spent on them. Money is in US dollars."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal

from pydantic import Field

from functory.rows.base import Body, Instant, Redacted, Row, Text

Adapter = Literal["openai", "litellm", "script"]
Form = Literal["native", "json", "none"]
# US dollars, as a number or as a text such as "0.15".
Dollars = float | str
CallState = Literal["queued", "sent", "succeeded", "failed", "unknown", "refused", "cancelled"]
QuotaScope = Literal["all", "key", "agent", "user"]


class Capabilities(Row):
    """What a model can do, and how it takes tools and schemas."""

    tools: Form
    schema_: Form = Field(alias="schema")
    stream: bool
    vision: bool
    dimensions: int | None = Field(
        description="The length of its embeddings; null for a model that makes none."
    )
    length: str


class ModelHealth(Row):
    """Whether a model answers. ``open_until``: its circuit breaker is open."""

    failures: int = Field(description="In a row.")
    open_until: Instant | None
    problem: Text | None


class Model(Row):
    """A language model. The secret is named; no key is ever returned. Prices are for a million tokens."""

    name: str
    state: Literal["enabled", "disabled"]
    adapter: str
    provider_model: str
    price_in: float
    price_out: float
    api_base: str | None
    secret: str | None
    context: int
    max_output: int
    price_cached: float
    calls_per_minute: int | None
    tokens_per_minute: int | None
    slots: int
    timeout: float
    fallbacks: list[str]
    note: str
    capabilities: Capabilities
    author: str
    created_at: Instant
    updated_at: Instant
    health: ModelHealth
    secret_set: bool | None = Field(description="null: it needs no secret.")
    # Of the calls that were asked of it: open ones, and those of today (UTC).
    open_calls: int
    calls_today: int
    cost_today: float


class CapabilityChange(Body):
    """Capabilities; one that is not sent stays, or has its default in a new model."""

    tools: Form | None = None
    schema_: Form | None = Field(default=None, alias="schema")
    stream: bool | None = None
    vision: bool | None = None
    dimensions: int | None = None
    length: Literal["max_tokens", "max_completion_tokens"] | None = None


class ModelFields(Body):
    """The fields of a model. Prices are US dollars for a million tokens."""

    adapter: Adapter | None = None
    provider_model: str | None = None
    price_in: Dollars | None = None
    price_out: Dollars | None = None
    price_cached: Dollars | None = None
    api_base: str | None = None
    secret: str | None = Field(default=None, description="The name of the secret with its key.")
    context: int | None = None
    max_output: int | None = None
    calls_per_minute: int | None = None
    tokens_per_minute: int | None = None
    slots: int | None = None
    timeout: float | None = None
    fallbacks: list[str] | None = None
    note: str | None = None
    capabilities: CapabilityChange | None = None


class NewModel(ModelFields):
    """A model to be added: ``adapter``, ``provider_model``, ``price_in`` and ``price_out`` are needed."""

    name: str


class ModelTest(Row):
    """One test of a model. ``problem`` is null when it passed, and while it runs."""

    test: str
    state: CallState
    answer: str | None
    problem: str | None
    cost: float
    call_id: str | None


class ModelTests(Row):
    """The tests of a model, begun together."""

    root_id: str
    ended: bool
    tests: list[ModelTest]


class CallError(Row):
    """Why a call has no answer. ``limit``: what may be spent does not allow it."""

    message: Text | None = None
    answer: Text | None = Field(default=None, description="An answer that did not fit.")
    status: int | None = None
    limit: dict[str, Any] | None = None


class CallRow(Row):
    """A call of a model in a list, without its request and its answer."""

    id: str
    root_id: str
    execution_id: str | None
    function: str
    agent: str | None
    user_name: str | None
    number: int
    request_sha256: str
    nth: int
    kind: Literal["chat", "embed"]
    state: CallState
    model: str = Field(description="The model that was asked for.")
    asked: str = Field(description="The model that was asked: a fallback may answer.")
    stream: bool
    max_tokens: int
    error: CallError | None
    finish_reason: str | None
    tries: int
    model_tries: int
    due_at: Instant
    reserved: float = Field(description="What it may cost at most, while it is sent.")
    reserved_tokens: int
    cost: float
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    estimated: bool = Field(description="The provider told no usage: the tokens are counted here.")
    gateway: str | None
    created_at: Instant
    sent_at: Instant | None
    ended_at: Instant | None


class CallTry(Row):
    """One time that a call was sent."""

    number: int
    model: str
    at: Instant
    status: int | None
    problem: Text | None
    retry_after: float | None
    seconds: float
    cost: float


class Call(CallRow):
    """A call with its request, its answer and its tries."""

    request: dict[str, Any] | Redacted | None = Field(
        description="null when its time in the archive is over."
    )
    response: dict[str, Any] | Redacted | None
    tried: list[CallTry]
    partial: Text | None = Field(description="The text so far, while the answer streams.")


class Cost(Row):
    """Calls, tokens and cost in sum. ``of`` is null where calls have none."""

    of: str | None
    calls: int
    cost: float
    tokens_in: int
    tokens_out: int


class Meter(Row):
    """What a tree may spend on models, and has. Reserved: by calls that are sent."""

    root_id: str
    usd_limit: float
    usd_spent: float
    usd_reserved: float
    tokens_limit: int
    tokens_spent: int
    tokens_reserved: int
    calls_limit: int
    calls: int
    tool_calls_limit: int
    tool_calls: int
    children_limit: int
    children: int
    proposals_limit: int
    proposals: int
    deadline_at: Instant
    warned_at: Instant | None
    exceeded_at: Instant | None
    created_at: Instant


class MeterChange(Body):
    """Limits of a tree that change; one that is not sent stays. ``seconds`` are from now."""

    usd: Dollars | None = None
    tokens: int | None = None
    calls: int | None = None
    tool_calls: int | None = None
    children: int | None = None
    proposals: int | None = None
    seconds: float | None = None


class Quota(Row):
    """What may be spent in a day (UTC), and what was spent today. A limit that is null is none."""

    scope: QuotaScope
    name: str
    day: date
    usd_spent: float
    usd_reserved: float
    tokens_spent: int
    tokens_reserved: int
    calls: int
    usd: float | None
    tokens: int | None
    calls_limit: int | None


class QuotaName(Body):
    """Which quota: ``all`` has no name; a key is named by its secret."""

    scope: QuotaScope
    name: str = Field(default="", max_length=200)


class QuotaLimits(QuotaName):
    """The limits of a day. Zero allows nothing; one that is not sent is not limited by this quota."""

    usd: Dollars | None = None
    tokens: int | None = None
    calls: int | None = None
