"""Rows of agents, of their runs, and of the questions that runs and proposals ask. Money is in US dollars."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from functory.rows.base import Body, Instant, Redacted, Row, Text
from functory.rows.executions import Error
from functory.rows.models import Meter

RunState = Literal[
    "running", "waiting_model", "waiting_children", "waiting_person", "waiting_proposal", "paused", "succeeded",
    "failed", "stopped", "cancelled", "needs_human",
]  # fmt: skip
QuestionState = Literal["pending", "approved", "edited", "rejected", "answered", "expired", "withdrawn"]
QuestionKind = Literal["ask", "tool", "proposal"]
# A JSON object that is a payload.
Object = dict[str, Any] | Redacted


class AgentDefinition(Row):
    """What an agent is: the function of its steps, and what its runs may use and spend."""

    function: str
    description: str
    model: str | None
    memo: Object
    tools: list[str]
    agents: list[str]
    checks: list[str]
    ask_before: list[str] = Field(
        default=[], description="Tools, and effects of tools, that need a person's consent."
    )
    limits: dict[str, Any]


class Agent(Row):
    """An agent with its newest definition. A name that the caller's labels hide is ``(hidden)``."""

    name: str
    state: Literal["enabled", "disabled"]
    version: int
    definition: AgentDefinition
    author: str = Field(description="Who made this version.")
    created_at: Instant
    updated_at: Instant


class AgentVersion(Row):
    """A version of an agent. Runs keep the one with which they began."""

    number: int
    definition: AgentDefinition
    author: str
    created_at: Instant


class AgentFields(Body):
    """The fields of an agent; one that is not sent stays, or has its default in a new agent."""

    function: str | None = Field(default=None, description="Each step of a run is an execution of it.")
    description: str | None = None
    model: str | None = Field(default=None, description="The model of requests that name none.")
    memo: dict[str, Any] | None = None
    tools: list[str] | None = None
    agents: list[str] | None = None
    checks: list[str] | None = None
    ask_before: list[str] | None = None
    limits: dict[str, Any] | None = Field(
        default=None,
        description="usd, tokens, calls, tool_calls, children, proposals, seconds, steps, errors. A limit that is not "
        "sent stays; null removes it.",
    )


class NewAgent(AgentFields):
    """An agent to be added: ``function`` is needed."""

    name: str


class NewRun(Body):
    """A run to be started. Its limits may be lower than those of its agent, never higher."""

    goal: str
    memo: dict[str, Any] | None = Field(default=None, description="What else the first step knows.")
    user: str | None = Field(
        default=None, max_length=200, description="For whom: quotas of this user count what it costs."
    )
    limits: dict[str, Any] | None = None


class RunRow(Row):
    """A run in a list. What it has spent is that of its whole tree."""

    id: str = Field(description="That of its first execution.")
    root_id: str
    parent_run_id: str | None
    agent: str | None
    agent_version: int | None
    function: str
    goal: Text
    user_name: str | None
    author: str
    state: RunState
    reason: str | None = Field(description="Why it was stopped: the limit, or loop, or no_progress.")
    step: int
    max_steps: int
    errors: int = Field(description="In a row.")
    checked: bool | None = Field(description="null: its agent has no checks.")
    usd_spent: float
    usd_limit: float | None
    pause_requested_at: Instant | None
    created_at: Instant
    updated_at: Instant
    ended_at: Instant | None


class RunWait(Row):
    """What a run waits for: a call, an execution, a run, an approval or a proposal."""

    kind: str
    target_id: str


class Question(Row):
    """What a run or a proposal asks. ``payload`` has ``question`` and ``choices``, or ``tool``, ``version``,
    ``arguments`` and ``effect``, or what is proposed; what is a payload in it is redacted by itself.
    """

    id: str
    kind: QuestionKind
    state: QuestionState
    root_id: str
    run_id: str | None
    execution_id: str | None
    proposal_id: str | None
    function: str = Field(description="Of the run's steps, or the proposed one.")
    agent: str | None
    goal: Text | None
    payload: dict[str, Any]
    answer: Any = Field(description="An answer, or the arguments with which a tool was approved.")
    feedback: Text | None
    decided_by: str | None
    requested_at: Instant
    expires_at: Instant
    decided_at: Instant | None


class Run(RunRow):
    """A run with what it waits for. ``waits``, ``state`` and ``reason`` are of the same time."""

    detail: Object | None = Field(description="Why it has ended, or the steps that show it.")
    memo: Any
    result: Any
    spent: Meter | None
    waits: list[RunWait]
    questions: list[Question] = Field(description="Those that wait for a person.")


class Step(Row):
    """A step of a run: an execution with what it was given, and what it has asked for."""

    number: int
    kind: str = Field(description="What it was given.")
    execution_id: str
    state: str
    version: int
    input: Any
    result: Any = Field(description="The directive that it has returned.")
    error: Error | None
    attempt: int
    cost: float = Field(description="Of the calls of models that it has asked for.")
    created_at: Instant
    run_at: Instant
    started_at: Instant | None
    finished_at: Instant | None


class ModelCost(Row):
    """What the steps of a run have asked of one model."""

    model: str
    calls: int
    cost: float
    tokens_in: int
    tokens_out: int


class RunCost(Row):
    """What a run costs: its own steps by model, and its whole tree with its tools and child runs."""

    models: list[ModelCost]
    tree: Meter | None


class Approve(Body):
    """Consent to one call of a tool."""

    arguments: dict[str, Any] | None = Field(
        default=None, description="All arguments with which it runs, instead of those that were asked for."
    )
    always: list[str] | None = Field(
        default=None,
        description="Names of arguments: calls with the same values of them need no consent for the rest of the run.",
    )


class Answer(Body):
    """The answer to a question: one of its choices, when it has some."""

    answer: Any
    feedback: str = Field(default="", max_length=8_000)


class Reject(Body):
    """Words for the run, which goes on without what it has asked for."""

    feedback: str = Field(default="", max_length=8_000)
