"""Rows of proposals and of the policies of the gate."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from functory.rows.base import Body, Instant, Redacted, Row, Text
from functory.rows.functions import FunctionDraft

Approval = Literal["auto", "one", "two", "never"]
Occasion = Literal["none", "reads", "acts", "replaces", "widens", "packages", "ephemeral"]
ProposalState = Literal[
    "checking", "waiting", "canary", "active", "rejected", "expired", "superseded", "withdrawn", "rolled_back"
]


class VersionRights(Row):
    """What a version may do with all its rights, compared with the one that was active. A right is [kind, value]."""

    effect: Literal["none", "reads", "acts"]
    adds: list[list[str]]
    removes: list[list[str]]
    packages: list[str] = Field(description="New ones.")
    dependents: list[str] = Field(description="Functions that would run it in their own process.")
    replaces: bool
    widens: bool


class GateRules(Row):
    """What a proposal must show, and who approves it."""

    tests: Literal["off", "warn", "required"]
    mutants: float = Field(description="The share of faults that the tests must see.")
    approval: dict[str, Approval] = Field(description="How many persons approve, by occasion.")
    canary: float = Field(description="The share of executions that try it first; 0 for none.")
    days: int = Field(description="Days in which a person must decide.")


class ProposalRow(Row):
    """A proposal in a list."""

    id: str
    function: str
    version: int
    base_version: int | None = Field(description="The version that was active then.")
    state: ProposalState
    reason: Text | None = Field(description="Why it has ended.")
    description: Text
    is_ephemeral: bool = Field(description="Only the run that proposed it may use it, until the run ends.")
    policies: list[str] = Field(description="Where its rules come from. Empty for the usual ones.")
    rights: VersionRights
    author: str
    root_id: str | None
    run_id: str | None
    execution_id: str | None
    created_at: Instant
    updated_at: Instant
    expires_at: Instant
    ended_at: Instant | None


class GateCheck(Row):
    """A check of a proposal. The values in the report of its tests are payloads."""

    name: str
    state: Literal["pending", "running", "passed", "warned", "failed", "skipped"]
    report: dict[str, Any]
    tries: int
    seconds: float | None
    updated_at: Instant


class ProposalDecision(Row):
    """A question whether a proposal may become active, and what a person decided."""

    id: str
    state: str
    decided_by: str | None
    feedback: Text | None
    requested_at: Instant
    decided_at: Instant | None


class Proposal(ProposalRow):
    """A proposal with its checks and decisions. ``base_source`` is null for a new function."""

    tests: list[dict[str, Any]] | Redacted
    rules: GateRules
    checks: list[GateCheck]
    decisions: list[ProposalDecision]
    source: str | None
    base_source: str | None


class NewProposal(FunctionDraft):
    """A version to be proposed: the fields of a function, its tests, and what it is for."""

    source: str  # type: ignore[assignment]
    name: str | None = Field(
        default=None, description="The name of the function, when the source has several."
    )
    tests: list[dict[str, Any]] = []
    description: str = ""
    replaces: bool = Field(default=False, description="It takes the place of the function's active version.")


class Feedback(Body):
    """Words for the author of a proposal."""

    feedback: str = Field(default="", max_length=4000)


class AppliesTo(Row):
    """The functions that a policy holds for: these, and those with one of the labels. Without both: all."""

    functions: list[str] = []
    labels: list[str] = []


class GatePolicy(Row):
    """A policy of the gate. A change makes a new number."""

    name: str
    number: int
    applies_to: AppliesTo
    rules: GateRules
    author: str
    created_at: Instant


class GateRulesChange(Body):
    """Rules of a policy; one that is not sent is the usual one."""

    tests: Literal["off", "warn", "required"] | None = None
    mutants: float | None = None
    approval: dict[Occasion, Approval] | None = None
    canary: float | None = None
    days: int | None = None


class GatePolicySet(Body):
    """What a policy says, and for which functions: those named, and those with one of the labels; else all."""

    rules: GateRulesChange = GateRulesChange()
    functions: list[str] = []
    labels: list[str] = []


class FunctionGate(Row):
    """The rules for proposals of a function, and the policies that they come from."""

    rules: GateRules
    policies: list[str]
