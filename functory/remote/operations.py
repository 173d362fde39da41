"""The operations of the API, a class for each noun: made from its description by
``python -m tests.support.remote_client``.
"""

# ruff: noqa: A002, E501

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from msgspec import UNSET, UnsetType

from functory.remote import rows
from functory.remote.pages import Rows
from functory.remote.sender import Sender, given, if_match, quoted


class Activity:
    """Operations of activity."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self, *, minutes: int | None = None, count: int | None = None) -> rows.Activity:
        """The functions that are busiest, and the executions that have run longest, as ``functory top`` shows them."""
        return self._sender.one(rows.Activity, "GET", "/activity", query={"minutes": minutes, "count": count})


class Agents:
    """Operations of agents."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def add(
        self,
        *,
        name: str,
        agents: Sequence[str] | UnsetType | None = UNSET,
        ask_before: Sequence[str] | UnsetType | None = UNSET,
        checks: Sequence[str] | UnsetType | None = UNSET,
        description: str | UnsetType | None = UNSET,
        function: str | UnsetType | None = UNSET,
        limits: Mapping[str, Any] | UnsetType | None = UNSET,
        memo: Mapping[str, Any] | UnsetType | None = UNSET,
        model: str | UnsetType | None = UNSET,
        tools: Sequence[str] | UnsetType | None = UNSET,
    ) -> rows.Agent:
        """Add an agent. A caller with labels names functions and agents with these labels only."""
        return self._sender.one(
            rows.Agent,
            "POST",
            "/agents",
            body=given(
                agents=agents,
                ask_before=ask_before,
                checks=checks,
                description=description,
                function=function,
                limits=limits,
                memo=memo,
                model=model,
                name=name,
                tools=tools,
            ),
        )

    def disable(self, name: str, /) -> rows.Agent:
        """Start no runs of an agent. Open ones go on."""
        return self._sender.one(rows.Agent, "POST", f"/agents/{quoted(name)}:disable")

    def enable(self, name: str, /) -> rows.Agent:
        """Let runs of an agent start."""
        return self._sender.one(rows.Agent, "POST", f"/agents/{quoted(name)}:enable")

    def get(self, name: str, /) -> rows.Agent:
        """An agent with its newest definition."""
        return self._sender.one(rows.Agent, "GET", f"/agents/{quoted(name)}")

    def remove(self, name: str, /) -> None:
        """Delete an agent. Its runs stay, and open ones go on."""
        return self._sender.one(None, "DELETE", f"/agents/{quoted(name)}")

    def update(
        self,
        name: str,
        /,
        *,
        agents: Sequence[str] | UnsetType | None = UNSET,
        ask_before: Sequence[str] | UnsetType | None = UNSET,
        checks: Sequence[str] | UnsetType | None = UNSET,
        description: str | UnsetType | None = UNSET,
        function: str | UnsetType | None = UNSET,
        limits: Mapping[str, Any] | UnsetType | None = UNSET,
        memo: Mapping[str, Any] | UnsetType | None = UNSET,
        model: str | UnsetType | None = UNSET,
        tools: Sequence[str] | UnsetType | None = UNSET,
    ) -> rows.Agent:
        """Change fields of an agent: a new version of it. One that is not sent stays. Open runs keep their version."""
        return self._sender.one(
            rows.Agent,
            "PATCH",
            f"/agents/{quoted(name)}",
            body=given(
                agents=agents,
                ask_before=ask_before,
                checks=checks,
                description=description,
                function=function,
                limits=limits,
                memo=memo,
                model=model,
                tools=tools,
            ),
        )

    def versions(self, name: str, /) -> Rows[rows.AgentVersion]:
        """The versions of an agent, newest first."""
        return self._sender.rows(rows.AgentVersion, f"/agents/{quoted(name)}/versions", {})

    def list(self) -> list[rows.Agent]:
        """The agents by name."""
        return self._sender.one(list[rows.Agent], "GET", "/agents")


class Approvals:
    """Operations of approvals."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def answer(self, id: str, /, *, answer: Any, feedback: str | UnsetType = UNSET) -> rows.Question:
        """Answer a question: its run goes on."""
        return self._sender.one(
            rows.Question,
            "POST",
            f"/approvals/{quoted(id)}:answer",
            body=given(answer=answer, feedback=feedback),
        )

    def approve(
        self,
        id: str,
        /,
        *,
        always: Sequence[str] | UnsetType | None = UNSET,
        arguments: Mapping[str, Any] | UnsetType | None = UNSET,
    ) -> rows.Question:
        """Let a run use a tool, once, perhaps with other arguments; or approve a proposal. 409 with ``decided_by`` and ``decided_at`` when it is decided already."""
        return self._sender.one(
            rows.Question,
            "POST",
            f"/approvals/{quoted(id)}:approve",
            body=given(always=always, arguments=arguments),
        )

    def get(self, id: str, /) -> rows.Question:
        """A question, and how it was decided."""
        return self._sender.one(rows.Question, "GET", f"/approvals/{quoted(id)}")

    def reject(self, id: str, /, *, feedback: str | UnsetType = UNSET) -> rows.Question:
        """Refuse: the run goes on, and gets the feedback. A proposal ends."""
        return self._sender.one(
            rows.Question, "POST", f"/approvals/{quoted(id)}:reject", body=given(feedback=feedback)
        )

    def list(
        self, *, state: str | None = None, kind: str | None = None, run: str | None = None
    ) -> Rows[rows.Question]:
        """List questions, newest first. Those that wait (``state=pending``) come oldest first."""
        return self._sender.rows(rows.Question, "/approvals", {"state": state, "kind": kind, "run": run})


class Audit:
    """Operations of audit."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(
        self,
        *,
        author: str | Sequence[str] = (),
        action: str | Sequence[str] = (),
        subject: str | None = None,
        refused: bool | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
    ) -> Rows[rows.AuditRow]:
        """Who did what to what, newest first. With filters a page may have fewer rows and a next."""
        return self._sender.rows(
            rows.AuditRow,
            "/audit",
            {
                "author": author,
                "action": action,
                "subject": subject,
                "refused": refused,
                "since": since,
                "until": until,
            },
        )


class Backtests:
    """Operations of backtests."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def cancel(self, id: str, /) -> rows.Backtest:
        """Stop a backtest. A partial result stays."""
        return self._sender.one(rows.Backtest, "DELETE", f"/backtests/{quoted(id)}")

    def create(
        self,
        *,
        draft: Mapping[str, Any] | UnsetType | None = UNSET,
        since: str | UnsetType = UNSET,
        trigger: str | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> rows.Backtest:
        """Begin a backtest. It decides on the events of all functions, so a caller with labels may not."""
        return self._sender.keyed(
            rows.Backtest,
            "POST",
            "/backtests",
            body=given(draft=draft, since=since, trigger=trigger),
            key=idempotency_key,
        )

    def get(self, id: str, /) -> rows.Backtest:
        """A backtest, how far it is, and its result."""
        return self._sender.one(rows.Backtest, "GET", f"/backtests/{quoted(id)}")

    def list(self) -> Rows[rows.BacktestRow]:
        """Backtests, newest first. Callers that are limited by labels see their own."""
        return self._sender.rows(rows.BacktestRow, "/backtests", {})


class Batches:
    """Operations of batches."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def cancel(self, id: str, /) -> rows.Batch:
        """Stop a batch. What it has done stays."""
        return self._sender.one(rows.Batch, "DELETE", f"/batches/{quoted(id)}")

    def count(
        self,
        *,
        action: str,
        dry_run: bool | UnsetType = UNSET,
        filter: Any | UnsetType = UNSET,
        ids: Sequence[str] | UnsetType | None = UNSET,
        latest: bool | UnsetType = UNSET,
        limit: int | UnsetType = UNSET,
        reason: str | UnsetType = UNSET,
    ) -> rows.BatchCount:
        """Count what a batch would handle, as its dry_run does. Nothing is done or stored."""
        return self._sender.one(
            rows.BatchCount,
            "POST",
            "/batches:count",
            body=given(
                action=action,
                dry_run=dry_run,
                filter=filter,
                ids=ids,
                latest=latest,
                limit=limit,
                reason=reason,
            ),
        )

    def create(
        self,
        *,
        action: str,
        dry_run: bool | UnsetType = UNSET,
        filter: Any | UnsetType = UNSET,
        ids: Sequence[str] | UnsetType | None = UNSET,
        latest: bool | UnsetType = UNSET,
        limit: int | UnsetType = UNSET,
        reason: str | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> rows.Batch:
        """Retry, replay or cancel many executions. A used Idempotency-Key returns the batch that it made."""
        return self._sender.keyed(
            rows.Batch,
            "POST",
            "/batches",
            body=given(
                action=action,
                dry_run=dry_run,
                filter=filter,
                ids=ids,
                latest=latest,
                limit=limit,
                reason=reason,
            ),
            key=idempotency_key,
        )

    def get(self, id: str, /) -> rows.Batch:
        """A batch and how far it is."""
        return self._sender.one(rows.Batch, "GET", f"/batches/{quoted(id)}")

    def list(self) -> Rows[rows.Batch]:
        """List batches, newest first. Callers that are limited by labels see their own."""
        return self._sender.rows(rows.Batch, "/batches", {})


class Budgets:
    """Operations of budgets."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self, id: str, /) -> rows.Meter:
        """What the tree of an execution has spent, and its limits. 404 for one that has asked no model."""
        return self._sender.one(rows.Meter, "GET", f"/budgets/{quoted(id)}")

    def raise_(
        self,
        id: str,
        /,
        *,
        calls: int | UnsetType | None = UNSET,
        children: int | UnsetType | None = UNSET,
        proposals: int | UnsetType | None = UNSET,
        seconds: float | UnsetType | None = UNSET,
        tokens: int | UnsetType | None = UNSET,
        tool_calls: int | UnsetType | None = UNSET,
        usd: float | str | UnsetType | None = UNSET,
    ) -> rows.Meter:
        """Change limits of the tree of an execution. What it has spent stays counted."""
        return self._sender.one(
            rows.Meter,
            "POST",
            f"/budgets/{quoted(id)}:raise",
            body=given(
                calls=calls,
                children=children,
                proposals=proposals,
                seconds=seconds,
                tokens=tokens,
                tool_calls=tool_calls,
                usd=usd,
            ),
        )


class Calls:
    """Operations of calls."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def cost(self, *, by: str | None = None, since: str | datetime | None = None) -> list[rows.Cost]:
        """Calls, tokens and cost in sum: of each model, agent, user, function or day (UTC)."""
        return self._sender.one(list[rows.Cost], "GET", "/calls:cost", query={"by": by, "since": since})

    def get(self, id: str, /) -> rows.Call:
        """A call with its request, its answer, its tries, and the text so far while the answer streams."""
        return self._sender.one(rows.Call, "GET", f"/calls/{quoted(id)}")

    def list(
        self,
        *,
        model: str | None = None,
        state: str | None = None,
        root: str | None = None,
        execution: str | None = None,
        function: str | None = None,
        agent: str | None = None,
        user: str | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
    ) -> Rows[rows.CallRow]:
        """List calls, newest first, without their requests and answers."""
        return self._sender.rows(
            rows.CallRow,
            "/calls",
            {
                "model": model,
                "state": state,
                "root": root,
                "execution": execution,
                "function": function,
                "agent": agent,
                "user": user,
                "since": since,
                "until": until,
            },
        )


class Canaries:
    """Operations of canaries."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def advance(
        self,
        function: str,
        /,
        *,
        hours: float | UnsetType | None = UNSET,
        share: float | UnsetType | None = UNSET,
    ) -> rows.Canary:
        """Raise the share, or let it go on. One that was held goes on."""
        return self._sender.one(
            rows.Canary, "POST", f"/canaries/{quoted(function)}:advance", body=given(hours=hours, share=share)
        )

    def get(self, function: str, /) -> rows.Canary:
        """The newest canary of a function: what its units have shown, and what is missing for a promotion."""
        return self._sender.one(rows.Canary, "GET", f"/canaries/{quoted(function)}")

    def hold(self, function: str, /, *, reason: str | UnsetType = UNSET) -> rows.Canary:
        """Keep it as it is until a person decides: it is not promoted. It is still rolled back if it is worse."""
        return self._sender.one(
            rows.Canary, "POST", f"/canaries/{quoted(function)}:hold", body=given(reason=reason)
        )

    def promote(self, function: str, /, *, reason: str | UnsetType = UNSET) -> rows.Canary:
        """Make its version the active one now."""
        return self._sender.one(
            rows.Canary, "POST", f"/canaries/{quoted(function)}:promote", body=given(reason=reason)
        )

    def rollback(self, function: str, /, *, reason: str | UnsetType = UNSET) -> rows.Canary:
        """Take the executions back and mark its version bad. What has not begun runs with the active version."""
        return self._sender.one(
            rows.Canary, "POST", f"/canaries/{quoted(function)}:rollback", body=given(reason=reason)
        )

    def start(
        self,
        *,
        function: str,
        version: int,
        hours: float | UnsetType = UNSET,
        share: float | UnsetType = UNSET,
        unit: str | UnsetType = UNSET,
    ) -> rows.Canary:
        """Let a version have a share of the executions of its function. It is rolled back if it is worse, and promoted if it is not."""
        return self._sender.one(
            rows.Canary,
            "POST",
            "/canaries",
            body=given(function=function, hours=hours, share=share, unit=unit, version=version),
        )

    def stop(self, function: str, /, *, reason: str | UnsetType = UNSET) -> rows.Canary:
        """End it without a verdict: new executions run with the active version."""
        return self._sender.one(
            rows.Canary, "POST", f"/canaries/{quoted(function)}:stop", body=given(reason=reason)
        )

    def list(self, *, function: str | None = None, open: bool | None = None) -> Rows[rows.Canary]:
        """List canaries, newest first."""
        return self._sender.rows(rows.Canary, "/canaries", {"function": function, "open": open})


class Events:
    """Operations of events."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def decisions(self, id: str, /) -> list[rows.Decision]:
        """What each trigger decided about the event; without a match the clauses, those with the fewest failures first."""
        return self._sender.one(list[rows.Decision], "GET", f"/events/{quoted(id)}/decisions")

    def emit(
        self,
        *,
        data: Any | UnsetType = UNSET,
        dedup_key: str | UnsetType | None = UNSET,
        subject: str | UnsetType | None = UNSET,
        type: str | UnsetType = UNSET,
        events: Any | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> rows.Emitted:
        """Write one event, or several: all of them or none. An Idempotency-Key that was used before writes nothing."""
        return self._sender.keyed(
            rows.Emitted,
            "POST",
            "/events",
            body=given(data=data, dedup_key=dedup_key, subject=subject, type=type, events=events),
            key=idempotency_key,
        )

    def get(self, id: str, /) -> rows.Event:
        """One event with its data and the recorded decisions of the triggers."""
        return self._sender.one(rows.Event, "GET", f"/events/{quoted(id)}")

    def release(self, id: str, /) -> rows.EventRow:
        """Send a quarantined event to the router again."""
        return self._sender.one(rows.EventRow, "POST", f"/events/{quoted(id)}:release")

    def times(self, id: str, /) -> rows.Times:
        """Where the time went: each step of the event and of its executions."""
        return self._sender.one(rows.Times, "GET", f"/events/{quoted(id)}/times")

    def types(self) -> list[str]:
        """The types of stored events, for completion: the first 500 in their order."""
        return self._sender.one(list[str], "GET", "/events/types")

    def list(
        self,
        *,
        type: str | Sequence[str] = (),
        subject: str | None = None,
        state: str | Sequence[str] = (),
        source: str | None = None,
        root: str | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        q: str | None = None,
    ) -> Rows[rows.EventRow]:
        """List events, newest first. A page may have fewer rows than ``limit`` and still have a ``next``: a page looks at a bounded number of rows."""
        return self._sender.rows(
            rows.EventRow,
            "/events",
            {
                "type": type,
                "subject": subject,
                "state": state,
                "source": source,
                "root": root,
                "since": since,
                "until": until,
                "q": q,
            },
        )


class Executions:
    """Operations of executions."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def attempts(self, id: str, /) -> list[rows.Attempt]:
        """The attempts of an execution, the first one first."""
        return self._sender.one(list[rows.Attempt], "GET", f"/executions/{quoted(id)}/attempts")

    def cancel(self, id: str, /, *, tree: bool | UnsetType = UNSET) -> rows.ExecutionRow:
        """Cancel an execution: a queued one at once, a running one through its worker. Its open children go along, and with ``tree`` everything that it has caused, which a caller with labels may not ask for."""
        return self._sender.one(
            rows.ExecutionRow, "POST", f"/executions/{quoted(id)}:cancel", body=given(tree=tree)
        )

    def compensate(
        self, id: str, /, *, reason: str | UnsetType = UNSET, skip: bool | UnsetType = UNSET
    ) -> rows.Compensation:
        """Go on with a compensation that has stopped: its failed step is tried again, or skipped."""
        return self._sender.one(
            rows.Compensation,
            "POST",
            f"/executions/{quoted(id)}:compensate",
            body=given(reason=reason, skip=skip),
        )

    def get(self, id: str, /) -> rows.Execution:
        """Everything about one execution, without its input and its result."""
        return self._sender.one(rows.Execution, "GET", f"/executions/{quoted(id)}")

    def input(self, id: str, /) -> Any:
        """The input of the execution: its JSON text."""
        return self._sender.one(Any, "GET", f"/executions/{quoted(id)}/input")

    def logs(
        self,
        id: str,
        /,
        *,
        after: str | None = None,
        tail: int | None = None,
        limit: int | None = None,
        fence: int | None = None,
    ) -> list[rows.LogLine]:
        """What the execution has printed and logged, in its order."""
        return self._sender.one(
            list[rows.LogLine],
            "GET",
            f"/executions/{quoted(id)}/logs",
            query={"after": after, "tail": tail, "limit": limit, "fence": fence},
        )

    def replay(
        self, id: str, /, *, latest: bool | UnsetType = UNSET, idempotency_key: str | None = None
    ) -> rows.ExecutionRow:
        """Run a finished execution again: a new execution with the same input."""
        return self._sender.keyed(
            rows.ExecutionRow,
            "POST",
            f"/executions/{quoted(id)}:replay",
            body=given(latest=latest),
            key=idempotency_key,
        )

    def result(self, id: str, /) -> Any:
        """The result of the execution: its JSON text. 404 while it has none."""
        return self._sender.one(Any, "GET", f"/executions/{quoted(id)}/result")

    def retry(
        self, id: str, /, *, latest: bool | UnsetType = UNSET, idempotency_key: str | None = None
    ) -> rows.ExecutionRow:
        """Run an execution that did not succeed again: a new execution with the same input."""
        return self._sender.keyed(
            rows.ExecutionRow,
            "POST",
            f"/executions/{quoted(id)}:retry",
            body=given(latest=latest),
            key=idempotency_key,
        )

    def spans(self, id: str, /) -> list[rows.Span]:
        """The functions that the execution called in its process, in their order."""
        return self._sender.one(list[rows.Span], "GET", f"/executions/{quoted(id)}/spans")

    def start(
        self,
        *,
        function: str,
        delay: float | UnsetType = UNSET,
        input: Mapping[str, Any] | UnsetType = UNSET,
        priority: int | UnsetType | None = UNSET,
        version: int | UnsetType | None = UNSET,
        idempotency_key: str | None = None,
    ) -> rows.ExecutionRow:
        """Start a function. An Idempotency-Key that was used before returns the execution that it started."""
        return self._sender.keyed(
            rows.ExecutionRow,
            "POST",
            "/executions",
            body=given(delay=delay, function=function, input=input, priority=priority, version=version),
            key=idempotency_key,
        )

    def start_many(
        self,
        *,
        function: str,
        inputs: Sequence[Mapping[str, Any]],
        delay: float | UnsetType = UNSET,
        priority: int | UnsetType | None = UNSET,
        version: int | UnsetType | None = UNSET,
        idempotency_key: str | None = None,
    ) -> rows.Started:
        """Start a function once for each input, all of them or none. An Idempotency-Key that was used before returns the executions that it started."""
        return self._sender.keyed(
            rows.Started,
            "POST",
            "/executions:start_many",
            body=given(delay=delay, function=function, inputs=inputs, priority=priority, version=version),
            key=idempotency_key,
        )

    def times(self, id: str, /) -> rows.Times:
        """Where the time went: each step of the execution, since the event that started it."""
        return self._sender.one(rows.Times, "GET", f"/executions/{quoted(id)}/times")

    def trace(self, id: str, /, *, budget: int | None = None) -> rows.Trace:
        """What happened in an execution, for a picture over time: the outline of what it caused, its attempts and spans."""
        return self._sender.one(
            rows.Trace, "GET", f"/executions/{quoted(id)}/trace", query={"budget": budget}
        )

    def why(self, id: str, /) -> rows.Why:
        """Why the execution ran, waits or failed, and what to do."""
        return self._sender.one(rows.Why, "GET", f"/executions/{quoted(id)}/why")

    def list(
        self,
        *,
        function: str | Sequence[str] = (),
        state: str | Sequence[str] = (),
        trigger: str | Sequence[str] = (),
        cause: str | Sequence[str] = (),
        event: str | None = None,
        parent: str | None = None,
        root: str | None = None,
        replay_of: str | None = None,
        version: int | None = None,
        roots: bool | None = None,
        unresolved: bool | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        q: str | None = None,
    ) -> Rows[rows.ExecutionRow]:
        """List executions, newest first; those of one trigger in the order of their events. A page may have fewer rows than ``limit`` and still have a ``next``: a page looks at a bounded number of rows."""
        return self._sender.rows(
            rows.ExecutionRow,
            "/executions",
            {
                "function": function,
                "state": state,
                "trigger": trigger,
                "cause": cause,
                "event": event,
                "parent": parent,
                "root": root,
                "replay_of": replay_of,
                "version": version,
                "roots": roots,
                "unresolved": unresolved,
                "since": since,
                "until": until,
                "q": q,
            },
        )


class Functions:
    """Operations of functions."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def activate(
        self,
        name: str,
        /,
        *,
        version: int,
        force: bool | UnsetType = UNSET,
        expected_version: int | None = None,
    ) -> rows.Function:
        """Make a version the active one."""
        return self._sender.one(
            rows.Function,
            "POST",
            f"/functions/{quoted(name)}:activate",
            body=given(force=force, version=version),
            headers={"if-match": if_match(expected_version)},
        )

    def active(self) -> Rows[rows.Function]:
        """Functions by name, each with its active version, or its newest one while none is active."""
        return self._sender.rows(rows.Function, "/functions:active", {})

    def check(
        self,
        name: str,
        /,
        *,
        compensate: str | UnsetType | None = UNSET,
        dependencies: Sequence[Any] | UnsetType | None = UNSET,
        files: Mapping[str, Sequence[str]] | UnsetType | None = UNSET,
        hosts: Sequence[str] | UnsetType | None = UNSET,
        imports: Sequence[Any] | UnsetType | None = UNSET,
        input_parameters: Any | UnsetType = UNSET,
        limits: Mapping[str, Any] | UnsetType | None = UNSET,
        metadata: Mapping[str, Any] | UnsetType | None = UNSET,
        models: Sequence[str] | UnsetType | None = UNSET,
        modules: Mapping[str, str] | UnsetType | None = UNSET,
        output_parameters: Any | UnsetType = UNSET,
        output_patterns: Mapping[str, Any] | UnsetType | None = UNSET,
        permissions: Sequence[str] | UnsetType | None = UNSET,
        requirements: Sequence[str] | UnsetType | None = UNSET,
        reuse: bool | UnsetType | None = UNSET,
        secrets: Sequence[str] | UnsetType | None = UNSET,
        source: str | UnsetType | None = UNSET,
        subprocess: bool | UnsetType | None = UNSET,
        validate_output: bool | UnsetType | None = UNSET,
    ) -> rows.Check:
        """Check a draft as a save would, and save nothing: findings, schemas, and the triggers that it would break."""
        return self._sender.one(
            rows.Check,
            "POST",
            f"/functions/{quoted(name)}:check",
            body=given(
                compensate=compensate,
                dependencies=dependencies,
                files=files,
                hosts=hosts,
                imports=imports,
                input_parameters=input_parameters,
                limits=limits,
                metadata=metadata,
                models=models,
                modules=modules,
                output_parameters=output_parameters,
                output_patterns=output_patterns,
                permissions=permissions,
                requirements=requirements,
                reuse=reuse,
                secrets=secrets,
                source=source,
                subprocess=subprocess,
                validate_output=validate_output,
            ),
        )

    def delete(self, name: str, /, *, force: bool | None = None) -> None:
        """Delete a function. Its executions and versions stay readable. With ``force`` also one that others use."""
        return self._sender.one(None, "DELETE", f"/functions/{quoted(name)}", query={"force": force})

    def dependents(self, name: str, /) -> list[rows.Dependent]:
        """The functions and triggers that use a function."""
        return self._sender.one(list[rows.Dependent], "GET", f"/functions/{quoted(name)}/dependents")

    def describe(self, name: str, /, *, text: str) -> rows.Description:
        """Describe a function for models that choose tools, and for people. It makes no new version."""
        return self._sender.one(
            rows.Description, "PUT", f"/functions/{quoted(name)}/description", body=given(text=text)
        )

    def description(self, name: str, /) -> rows.Description:
        """The description of a function, which belongs to no version."""
        return self._sender.one(rows.Description, "GET", f"/functions/{quoted(name)}/description")

    def diff(self, name: str, /, *, a: int, b: int) -> rows.Difference:
        """Two versions side by side: a unified diff, both sources, and the other fields that differ."""
        return self._sender.one(
            rows.Difference, "GET", f"/functions/{quoted(name)}/diff", query={"a": a, "b": b}
        )

    def disable(self, name: str, /) -> rows.Function:
        """Stop new executions. Versions stay."""
        return self._sender.one(rows.Function, "POST", f"/functions/{quoted(name)}:disable")

    def enable(self, name: str, /) -> rows.Function:
        """Let executions start again, with the version that was active."""
        return self._sender.one(rows.Function, "POST", f"/functions/{quoted(name)}:enable")

    def gate(self, name: str, /) -> rows.FunctionGate:
        """The rules for proposals of a function, and the policies that they come from."""
        return self._sender.one(rows.FunctionGate, "GET", f"/functions/{quoted(name)}/gate")

    def get(self, name: str, /) -> rows.Function:
        """A function with its active version, or its newest one while none is active."""
        return self._sender.one(rows.Function, "GET", f"/functions/{quoted(name)}")

    def history(self, name: str, /) -> list[rows.ActivationRow]:
        """Which version was active when, newest first."""
        return self._sender.one(list[rows.ActivationRow], "GET", f"/functions/{quoted(name)}/history")

    def labels(
        self,
        name: str,
        /,
        *,
        add: Sequence[str] | UnsetType = UNSET,
        remove: Sequence[str] | UnsetType = UNSET,
    ) -> rows.Labels:
        """Add and remove labels of a function."""
        return self._sender.one(
            rows.Labels, "POST", f"/functions/{quoted(name)}:labels", body=given(add=add, remove=remove)
        )

    def log_policy(self, name: str, /, *, log_policy: str) -> rows.LogPolicy:
        """Set which log lines of a function's executions are kept, from its next attempts on."""
        return self._sender.one(
            rows.LogPolicy, "POST", f"/functions/{quoted(name)}:log-policy", body=given(log_policy=log_policy)
        )

    def mark(self, name: str, /, *, mark: str, reason: str, version: int) -> rows.Function:
        """Mark a version good or bad. A bad one is activated only by force."""
        return self._sender.one(
            rows.Function,
            "POST",
            f"/functions/{quoted(name)}:mark",
            body=given(mark=mark, reason=reason, version=version),
        )

    def modules(self, name: str, number: int, /) -> dict[str, str]:
        """The texts of the modules of one's own of a version, by dotted name."""
        return self._sender.one(
            dict[str, str], "GET", f"/functions/{quoted(name)}/versions/{quoted(number)}/modules"
        )

    def rename(
        self, name: str, /, *, to: str, alias: bool | UnsetType = UNSET, dry_run: bool | UnsetType = UNSET
    ) -> rows.RenameReport:
        """Give a function a new name. The former one stays with its executions: disabled, or as an alias that calls the new one. Refused while something uses the former name, unless ``alias``."""
        return self._sender.one(
            rows.RenameReport,
            "POST",
            f"/functions/{quoted(name)}:rename",
            body=given(alias=alias, dry_run=dry_run, to=to),
        )

    def rollback(
        self,
        name: str,
        /,
        *,
        force: bool | UnsetType = UNSET,
        from_version: int | UnsetType | None = UNSET,
        keep_mark: bool | UnsetType = UNSET,
        to: int | UnsetType | None = UNSET,
    ) -> rows.Function:
        """Go back to an earlier version. The version that is left is marked bad."""
        return self._sender.one(
            rows.Function,
            "POST",
            f"/functions/{quoted(name)}:rollback",
            body=given(force=force, from_version=from_version, keep_mark=keep_mark, to=to),
        )

    def save(
        self,
        name: str,
        /,
        *,
        activate: bool | UnsetType = UNSET,
        compensate: str | UnsetType | None = UNSET,
        dependencies: Sequence[Any] | UnsetType | None = UNSET,
        files: Mapping[str, Sequence[str]] | UnsetType | None = UNSET,
        force: bool | UnsetType = UNSET,
        hosts: Sequence[str] | UnsetType | None = UNSET,
        imports: Sequence[Any] | UnsetType | None = UNSET,
        input_parameters: Any | UnsetType = UNSET,
        limits: Mapping[str, Any] | UnsetType | None = UNSET,
        metadata: Mapping[str, Any] | UnsetType | None = UNSET,
        models: Sequence[str] | UnsetType | None = UNSET,
        modules: Mapping[str, str] | UnsetType | None = UNSET,
        output_parameters: Any | UnsetType = UNSET,
        output_patterns: Mapping[str, Any] | UnsetType | None = UNSET,
        permissions: Sequence[str] | UnsetType | None = UNSET,
        renew: bool | UnsetType = UNSET,
        requirements: Sequence[str] | UnsetType | None = UNSET,
        reuse: bool | UnsetType | None = UNSET,
        secrets: Sequence[str] | UnsetType | None = UNSET,
        source: str | UnsetType | None = UNSET,
        subprocess: bool | UnsetType | None = UNSET,
        validate_output: bool | UnsetType | None = UNSET,
        expected_version: int | None = None,
    ) -> rows.SavedFunction:
        """Save a function. A new one needs a source; an existing one keeps every field that is not given. A new function gets the labels that its author is limited to."""
        return self._sender.one(
            rows.SavedFunction,
            "PUT",
            f"/functions/{quoted(name)}",
            body=given(
                activate=activate,
                compensate=compensate,
                dependencies=dependencies,
                files=files,
                force=force,
                hosts=hosts,
                imports=imports,
                input_parameters=input_parameters,
                limits=limits,
                metadata=metadata,
                models=models,
                modules=modules,
                output_parameters=output_parameters,
                output_patterns=output_patterns,
                permissions=permissions,
                renew=renew,
                requirements=requirements,
                reuse=reuse,
                secrets=secrets,
                source=source,
                subprocess=subprocess,
                validate_output=validate_output,
            ),
            headers={"if-match": if_match(expected_version)},
        )

    def search(self, *, q: str, count: int | None = None) -> list[rows.FoundFunction]:
        """Find functions by name, description and parameters, and with the setting embedding_model by their meaning: the best first."""
        return self._sender.one(
            list[rows.FoundFunction], "GET", "/functions:search", query={"q": q, "count": count}
        )

    def stats(self, name: str, /, *, since: str | datetime | None = None) -> rows.FunctionStats:
        """Executions, failures and percentiles over time and of each version, calls, and advice."""
        return self._sender.one(
            rows.FunctionStats, "GET", f"/functions/{quoted(name)}/stats", query={"since": since}
        )

    def use(self, name: str, /, *, from_: int, to: int | None = None) -> rows.VersionUse:
        """What executions of these versions have touched: to be looked at after a wrong version."""
        return self._sender.one(
            rows.VersionUse, "GET", f"/functions/{quoted(name)}/use", query={"from": from_, "to": to}
        )

    def version(self, name: str, number: int, /) -> rows.Function:
        """One version of a function."""
        return self._sender.one(rows.Function, "GET", f"/functions/{quoted(name)}/versions/{quoted(number)}")

    def versions(self, name: str, /) -> Rows[rows.VersionRow]:
        """The versions of a function, newest first."""
        return self._sender.rows(rows.VersionRow, f"/functions/{quoted(name)}/versions", {})

    def list(
        self, *, q: str | None = None, state: str | Sequence[str] = (), label: str | None = None
    ) -> Rows[rows.FunctionRow]:
        """Functions by name."""
        return self._sender.rows(rows.FunctionRow, "/functions", {"q": q, "state": state, "label": label})


class GatePolicies:
    """Operations of gate policies."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self, name: str, /) -> rows.GatePolicy:
        """One policy."""
        return self._sender.one(rows.GatePolicy, "GET", f"/gate-policies/{quoted(name)}")

    def remove(self, name: str, /) -> None:
        """Remove a policy."""
        return self._sender.one(None, "DELETE", f"/gate-policies/{quoted(name)}")

    def set(
        self,
        name: str,
        /,
        *,
        functions: Sequence[str] | UnsetType = UNSET,
        labels: Sequence[str] | UnsetType = UNSET,
        rules: Any | UnsetType = UNSET,
    ) -> rows.GatePolicy:
        """Make or replace a policy. Proposals that are open keep the rules with which they were made."""
        return self._sender.one(
            rows.GatePolicy,
            "PUT",
            f"/gate-policies/{quoted(name)}",
            body=given(functions=functions, labels=labels, rules=rules),
        )

    def list(self) -> list[rows.GatePolicy]:
        """The policies by name. Where several apply, the strictest of all rules holds."""
        return self._sender.one(list[rows.GatePolicy], "GET", "/gate-policies")


class Grants:
    """Operations of grants."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def allow(
        self,
        *,
        function: str,
        kind: str,
        reason: str,
        value: str | UnsetType = UNSET,
        version: int | UnsetType | None = UNSET,
    ) -> rows.GrantDecision:
        """Allow a grant to exactly this content of a function."""
        return self._sender.one(
            rows.GrantDecision,
            "POST",
            "/grants:allow",
            body=given(function=function, kind=kind, reason=reason, value=value, version=version),
        )

    def refuse(
        self,
        *,
        function: str,
        kind: str,
        reason: str,
        value: str | UnsetType = UNSET,
        version: int | UnsetType | None = UNSET,
    ) -> rows.GrantDecision:
        """Refuse a grant that waits. It can be allowed later."""
        return self._sender.one(
            rows.GrantDecision,
            "POST",
            "/grants:refuse",
            body=given(function=function, kind=kind, reason=reason, value=value, version=version),
        )

    def revoke(
        self,
        *,
        function: str,
        kind: str,
        reason: str,
        value: str | UnsetType = UNSET,
        version: int | UnsetType | None = UNSET,
    ) -> rows.GrantDecision:
        """Take back an approval. Running executions keep what they started with."""
        return self._sender.one(
            rows.GrantDecision,
            "POST",
            "/grants:revoke",
            body=given(function=function, kind=kind, reason=reason, value=value, version=version),
        )

    def waiting(self, *, refused: bool | None = None) -> list[rows.Grant]:
        """The grants that wait for a decision; with ``refused`` those that were refused."""
        return self._sender.one(list[rows.Grant], "GET", "/grants:waiting", query={"refused": refused})

    def list(self, *, function: str | None = None, version: int | None = None) -> list[rows.Grant]:
        """The grants of one version, of one function, or of all functions."""
        return self._sender.one(
            list[rows.Grant], "GET", "/grants", query={"function": function, "version": version}
        )


class Health:
    """Operations of health."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self) -> rows.Health:
        """The parts of the installation, its workers and open work, and the last check of each invariant."""
        return self._sender.one(rows.Health, "GET", "/health")

    def status(self) -> rows.Status:
        """What is there, what is open, and what went wrong within a day."""
        return self._sender.one(rows.Status, "GET", "/status")


class Login:
    """Operations of login."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def begin(
        self,
        *,
        link: str | UnsetType | None = UNSET,
        name: str | UnsetType | None = UNSET,
        password: str | UnsetType | None = UNSET,
    ) -> None:
        """Log in. The answer sets the cookie of the new login; the login of the cookie that was sent ends."""
        return self._sender.one(None, "POST", "/login", body=given(link=link, name=name, password=password))

    def end(self) -> None:
        """End the login of the cookie, if there is one."""
        return self._sender.one(None, "POST", "/logout")

    def ways(self) -> rows.LoginWays:
        """Show how one can log in."""
        return self._sender.one(rows.LoginWays, "GET", "/login")


class Logins:
    """Operations of logins."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def end(self, id: str, /) -> None:
        """End a login. Its open pages are closed within seconds."""
        return self._sender.one(None, "DELETE", f"/logins/{quoted(id)}")

    def list(self, *, user: str | None = None) -> Rows[rows.Login]:
        """List the open logins of the caller; for an admin those of all, or of one ``user``."""
        return self._sender.whole(rows.Login, "/logins", {"user": user})


class Map:
    """Operations of map."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self, *, around: str | None = None, depth: int | None = None) -> rows.Map:
        """Functions, triggers, event types and sources, and which of them may start which."""
        return self._sender.one(rows.Map, "GET", "/map", query={"around": around, "depth": depth})


class Me:
    """Operations of me."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def confirm(self, *, password: str) -> None:
        """Give the password again, as dangerous actions need it."""
        return self._sender.one(None, "POST", "/me:confirm", body=given(password=password))

    def get(self) -> rows.Me:
        """Show the caller: its rights, its labels, and where it is."""
        return self._sender.one(rows.Me, "GET", "/me")

    def password(self, *, new_password: str, password: str) -> None:
        """Change the password. All other logins of the user end."""
        return self._sender.one(
            None, "POST", "/me:password", body=given(new_password=new_password, password=password)
        )

    def update(self, *, preferences: Mapping[str, Any]) -> rows.Me:
        """Change the preferences."""
        return self._sender.one(rows.Me, "PATCH", "/me", body=given(preferences=preferences))


class Memories:
    """Operations of memories."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def add(
        self,
        *,
        text: str,
        agent: str | UnsetType | None = UNSET,
        days: float | UnsetType | None = UNSET,
        importance: float | UnsetType = UNSET,
        kind: str | UnsetType = UNSET,
        run: str | UnsetType | None = UNSET,
    ) -> rows.AddedMemory:
        """Store a memory. The same text is stored once, and becomes more important: then the status is 200."""
        return self._sender.one(
            rows.AddedMemory,
            "POST",
            "/memories",
            body=given(agent=agent, days=days, importance=importance, kind=kind, run=run, text=text),
        )

    def forget(self, id: str, /) -> None:
        """Delete a memory. Nothing of its text and its vectors is kept."""
        return self._sender.one(None, "DELETE", f"/memories/{quoted(id)}")

    def forget_source(
        self, *, execution: str | UnsetType | None = UNSET, run: str | UnsetType | None = UNSET
    ) -> rows.Forgotten:
        """Delete all memories from one execution, or from all executions of one run."""
        return self._sender.one(
            rows.Forgotten, "POST", "/memories:forget", body=given(execution=execution, run=run)
        )

    def get(self, id: str, /) -> rows.Memory:
        """A memory, and where it comes from."""
        return self._sender.one(rows.Memory, "GET", f"/memories/{quoted(id)}")

    def search(
        self,
        *,
        q: str,
        agent: str | None = None,
        run: str | None = None,
        shared: bool | None = None,
        count: int | None = None,
    ) -> list[rows.FoundMemory]:
        """Find memories by their words, and with the setting embedding_model by their meaning: the best first."""
        return self._sender.one(
            list[rows.FoundMemory],
            "GET",
            "/memories:search",
            query={"q": q, "agent": agent, "run": run, "shared": shared, "count": count},
        )

    def list(
        self,
        *,
        agent: str | None = None,
        run: str | None = None,
        shared: bool | None = None,
        kind: str | None = None,
    ) -> Rows[rows.Memory]:
        """List memories, newest first."""
        return self._sender.rows(
            rows.Memory, "/memories", {"agent": agent, "run": run, "shared": shared, "kind": kind}
        )


class Models:
    """Operations of models."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def add(
        self,
        *,
        name: str,
        adapter: str | UnsetType | None = UNSET,
        api_base: str | UnsetType | None = UNSET,
        calls_per_minute: int | UnsetType | None = UNSET,
        capabilities: Any | UnsetType = UNSET,
        context: int | UnsetType | None = UNSET,
        fallbacks: Sequence[str] | UnsetType | None = UNSET,
        max_output: int | UnsetType | None = UNSET,
        note: str | UnsetType | None = UNSET,
        price_cached: float | str | UnsetType | None = UNSET,
        price_in: float | str | UnsetType | None = UNSET,
        price_out: float | str | UnsetType | None = UNSET,
        provider_model: str | UnsetType | None = UNSET,
        secret: str | UnsetType | None = UNSET,
        slots: int | UnsetType | None = UNSET,
        timeout: float | UnsetType | None = UNSET,
        tokens_per_minute: int | UnsetType | None = UNSET,
    ) -> rows.Model:
        """Add a model. Functions ask it by its name, and need the grant for it."""
        return self._sender.one(
            rows.Model,
            "POST",
            "/models",
            body=given(
                adapter=adapter,
                api_base=api_base,
                calls_per_minute=calls_per_minute,
                capabilities=capabilities,
                context=context,
                fallbacks=fallbacks,
                max_output=max_output,
                name=name,
                note=note,
                price_cached=price_cached,
                price_in=price_in,
                price_out=price_out,
                provider_model=provider_model,
                secret=secret,
                slots=slots,
                timeout=timeout,
                tokens_per_minute=tokens_per_minute,
            ),
        )

    def disable(self, name: str, /) -> rows.Model:
        """Let no function ask a model. Calls that wait for it fail or go to its fallback."""
        return self._sender.one(rows.Model, "POST", f"/models/{quoted(name)}:disable")

    def enable(self, name: str, /) -> rows.Model:
        """Let functions ask a model, and close its circuit breaker."""
        return self._sender.one(rows.Model, "POST", f"/models/{quoted(name)}:enable")

    def get(self, name: str, /) -> rows.Model:
        """A model with its health and what was asked of it today."""
        return self._sender.one(rows.Model, "GET", f"/models/{quoted(name)}")

    def remove(self, name: str, /) -> None:
        """Delete a model. What was asked of it stays in the list of calls."""
        return self._sender.one(None, "DELETE", f"/models/{quoted(name)}")

    def test(self, name: str, /) -> rows.ModelTests:
        """Ask a model a few short questions. This costs money. The answers come later: read the tests of the answered ``root_id``."""
        return self._sender.one(rows.ModelTests, "POST", f"/models/{quoted(name)}:test")

    def tests(self, name: str, root: str, /) -> rows.ModelTests:
        """The tests of a model that were begun together, as far as they have ended. Their questions are always the same, so that neither they nor the answers are payloads."""
        return self._sender.one(rows.ModelTests, "GET", f"/models/{quoted(name)}/tests/{quoted(root)}")

    def update(
        self,
        name: str,
        /,
        *,
        adapter: str | UnsetType | None = UNSET,
        api_base: str | UnsetType | None = UNSET,
        calls_per_minute: int | UnsetType | None = UNSET,
        capabilities: Any | UnsetType = UNSET,
        context: int | UnsetType | None = UNSET,
        fallbacks: Sequence[str] | UnsetType | None = UNSET,
        max_output: int | UnsetType | None = UNSET,
        note: str | UnsetType | None = UNSET,
        price_cached: float | str | UnsetType | None = UNSET,
        price_in: float | str | UnsetType | None = UNSET,
        price_out: float | str | UnsetType | None = UNSET,
        provider_model: str | UnsetType | None = UNSET,
        secret: str | UnsetType | None = UNSET,
        slots: int | UnsetType | None = UNSET,
        timeout: float | UnsetType | None = UNSET,
        tokens_per_minute: int | UnsetType | None = UNSET,
    ) -> rows.Model:
        """Change fields of a model; one that is not sent stays. Calls that are sent already keep their prices."""
        return self._sender.one(
            rows.Model,
            "PATCH",
            f"/models/{quoted(name)}",
            body=given(
                adapter=adapter,
                api_base=api_base,
                calls_per_minute=calls_per_minute,
                capabilities=capabilities,
                context=context,
                fallbacks=fallbacks,
                max_output=max_output,
                note=note,
                price_cached=price_cached,
                price_in=price_in,
                price_out=price_out,
                provider_model=provider_model,
                secret=secret,
                slots=slots,
                timeout=timeout,
                tokens_per_minute=tokens_per_minute,
            ),
        )

    def list(self) -> list[rows.Model]:
        """The models by name, with their health and what was asked of them today."""
        return self._sender.one(list[rows.Model], "GET", "/models")


class Overview:
    """Operations of overview."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self) -> rows.Overview:
        """What needs a person, the last hour, what fails, what guards have stopped, and the workers."""
        return self._sender.one(rows.Overview, "GET", "/overview")


class Packs:
    """Operations of packs."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(self) -> list[rows.Pack]:
        """The packs that functions were imported from, with their functions and the triggers of these."""
        return self._sender.one(list[rows.Pack], "GET", "/packs")


class Proposals:
    """Operations of proposals."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def approve(self, id: str, /, *, feedback: str | UnsetType = UNSET) -> rows.Proposal:
        """Approve a proposal: it becomes active, begins its canary, or waits for a second person. 409 for one that is decided, with who has decided and when."""
        return self._sender.one(
            rows.Proposal, "POST", f"/proposals/{quoted(id)}:approve", body=given(feedback=feedback)
        )

    def create(
        self,
        *,
        source: str,
        compensate: str | UnsetType | None = UNSET,
        dependencies: Sequence[Any] | UnsetType | None = UNSET,
        description: str | UnsetType = UNSET,
        files: Mapping[str, Sequence[str]] | UnsetType | None = UNSET,
        hosts: Sequence[str] | UnsetType | None = UNSET,
        imports: Sequence[Any] | UnsetType | None = UNSET,
        input_parameters: Any | UnsetType = UNSET,
        limits: Mapping[str, Any] | UnsetType | None = UNSET,
        metadata: Mapping[str, Any] | UnsetType | None = UNSET,
        models: Sequence[str] | UnsetType | None = UNSET,
        modules: Mapping[str, str] | UnsetType | None = UNSET,
        name: str | UnsetType | None = UNSET,
        output_parameters: Any | UnsetType = UNSET,
        output_patterns: Mapping[str, Any] | UnsetType | None = UNSET,
        permissions: Sequence[str] | UnsetType | None = UNSET,
        replaces: bool | UnsetType = UNSET,
        requirements: Sequence[str] | UnsetType | None = UNSET,
        reuse: bool | UnsetType | None = UNSET,
        secrets: Sequence[str] | UnsetType | None = UNSET,
        subprocess: bool | UnsetType | None = UNSET,
        tests: Sequence[Mapping[str, Any]] | UnsetType = UNSET,
        validate_output: bool | UnsetType | None = UNSET,
    ) -> rows.Proposal:
        """Propose a version of a function. Its checks run on a worker: read it again until it is not ``checking``."""
        return self._sender.one(
            rows.Proposal,
            "POST",
            "/proposals",
            body=given(
                compensate=compensate,
                dependencies=dependencies,
                description=description,
                files=files,
                hosts=hosts,
                imports=imports,
                input_parameters=input_parameters,
                limits=limits,
                metadata=metadata,
                models=models,
                modules=modules,
                name=name,
                output_parameters=output_parameters,
                output_patterns=output_patterns,
                permissions=permissions,
                replaces=replaces,
                requirements=requirements,
                reuse=reuse,
                secrets=secrets,
                source=source,
                subprocess=subprocess,
                tests=tests,
                validate_output=validate_output,
            ),
        )

    def get(self, id: str, /) -> rows.Proposal:
        """A proposal with its checks, what persons decided, its source, and the source that it would replace."""
        return self._sender.one(rows.Proposal, "GET", f"/proposals/{quoted(id)}")

    def reject(self, id: str, /, *, feedback: str | UnsetType = UNSET) -> rows.Proposal:
        """Reject a proposal. A run that waits for it gets the feedback. 409 as for ``:approve``."""
        return self._sender.one(
            rows.Proposal, "POST", f"/proposals/{quoted(id)}:reject", body=given(feedback=feedback)
        )

    def withdraw(self, id: str, /) -> rows.Proposal:
        """End a proposal that is not needed any more."""
        return self._sender.one(rows.Proposal, "POST", f"/proposals/{quoted(id)}:withdraw")

    def list(
        self, *, state: str | None = None, function: str | None = None, run: str | None = None
    ) -> Rows[rows.ProposalRow]:
        """List proposals, newest first, without tests and rules."""
        return self._sender.rows(
            rows.ProposalRow, "/proposals", {"state": state, "function": function, "run": run}
        )


class Quotas:
    """Operations of quotas."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def remove(self, *, scope: str, name: str | UnsetType = UNSET) -> None:
        """Delete a quota. For all together the setting ``day_usd`` holds then."""
        return self._sender.one(None, "POST", "/quotas:remove", body=given(name=name, scope=scope))

    def set(
        self,
        *,
        scope: str,
        calls: int | UnsetType | None = UNSET,
        name: str | UnsetType = UNSET,
        tokens: int | UnsetType | None = UNSET,
        usd: float | str | UnsetType | None = UNSET,
    ) -> list[rows.Quota]:
        """Set what may be spent in a day. A limit that is not sent is none."""
        return self._sender.one(
            list[rows.Quota],
            "POST",
            "/quotas:set",
            body=given(calls=calls, name=name, scope=scope, tokens=tokens, usd=usd),
        )

    def list(self) -> list[rows.Quota]:
        """The quotas with what was used of them today (UTC), and what was used where nothing is limited."""
        return self._sender.one(list[rows.Quota], "GET", "/quotas")


class Runs:
    """Operations of runs."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def cancel(self, id: str, /) -> rows.Run:
        """End a run, with its open step and all that it waits for."""
        return self._sender.one(rows.Run, "POST", f"/runs/{quoted(id)}:cancel")

    def cost(self, id: str, /) -> rows.RunCost:
        """What the steps of a run have asked of models, and what its tree has spent, with its limits."""
        return self._sender.one(rows.RunCost, "GET", f"/runs/{quoted(id)}/cost")

    def get(self, id: str, /) -> rows.Run:
        """A run: its state and why, what it waits for, what it has spent."""
        return self._sender.one(rows.Run, "GET", f"/runs/{quoted(id)}")

    def pause(self, id: str, /) -> rows.Run:
        """Start no further step of a run. What is under way may end."""
        return self._sender.one(rows.Run, "POST", f"/runs/{quoted(id)}:pause")

    def resume(self, id: str, /) -> rows.Run:
        """Let a paused run go on."""
        return self._sender.one(rows.Run, "POST", f"/runs/{quoted(id)}:resume")

    def start(
        self,
        name: str,
        /,
        *,
        goal: str,
        limits: Mapping[str, Any] | UnsetType | None = UNSET,
        memo: Mapping[str, Any] | UnsetType | None = UNSET,
        user: str | UnsetType | None = UNSET,
        idempotency_key: str | None = None,
    ) -> rows.Run:
        """Start a run of an agent. An Idempotency-Key that was used before returns the run that it started."""
        return self._sender.keyed(
            rows.Run,
            "POST",
            f"/agents/{quoted(name)}/runs",
            body=given(goal=goal, limits=limits, memo=memo, user=user),
            key=idempotency_key,
        )

    def steps(self, id: str, /, *, from_step: int | None = None) -> Rows[rows.Step]:
        """The steps of a run, the first one first: what each was given, what it has asked for, what that cost."""
        return self._sender.rows(rows.Step, f"/runs/{quoted(id)}/steps", {"from_step": from_step})

    def list(
        self,
        *,
        agent: str | None = None,
        state: str | None = None,
        root: str | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
    ) -> Rows[rows.RunRow]:
        """List runs, newest first."""
        return self._sender.rows(
            rows.RunRow,
            "/runs",
            {"agent": agent, "state": state, "root": root, "since": since, "until": until},
        )


class Schedules:
    """Operations of schedules."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def backfill(
        self,
        name: str,
        /,
        *,
        from_: str,
        until: str,
        dry_run: bool | UnsetType = UNSET,
        overlap: str | UnsetType | None = UNSET,
    ) -> rows.BackfillAnswer:
        """Fire the times of a range that have no event. With ``dry_run``, which is the default, they are only listed."""
        return self._sender.one(
            rows.BackfillAnswer,
            "POST",
            f"/sources/schedule/{quoted(name)}:backfill",
            body=given(dry_run=dry_run, from_=from_, overlap=overlap, until=until),
        )

    def next(self, name: str, /, *, count: int | None = None) -> list[rows.NextTime]:
        """The next times of a schedule, in UTC and in its zone."""
        return self._sender.one(
            list[rows.NextTime], "GET", f"/sources/schedule/{quoted(name)}/next", query={"count": count}
        )

    def preview(self, *, config: Mapping[str, Any], count: int | UnsetType = UNSET) -> rows.PreviewedTimes:
        """The next times of a schedule that is not saved, in UTC and in its zone, and the first ones after the clocks change. It is asked while a person types, so what is wrong so far is an answer and no error."""
        return self._sender.one(
            rows.PreviewedTimes, "POST", "/sources/schedule:preview", body=given(config=config, count=count)
        )

    def ticks(self, name: str, /, *, limit: int | None = None) -> rows.Ticks:
        """The newest times that became events, and how many passed without one, with the reason where one is known."""
        return self._sender.one(
            rows.Ticks, "GET", f"/sources/schedule/{quoted(name)}/ticks", query={"limit": limit}
        )

    def trigger(self, name: str, /, *, overlap: str | UnsetType | None = UNSET) -> rows.TriggeredSchedule:
        """Fire a schedule now, beside its times."""
        return self._sender.one(
            rows.TriggeredSchedule,
            "POST",
            f"/sources/schedule/{quoted(name)}:trigger",
            body=given(overlap=overlap),
        )


class Search:
    """Operations of search."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(self, *, q: str) -> list[rows.SearchResult]:
        """Functions, triggers and sources by a part of their name; executions, events, triggers and versions by an id."""
        return self._sender.one(list[rows.SearchResult], "GET", "/search", query={"q": q})


class Secrets:
    """Operations of secrets."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def delete(self, name: str, /) -> None:
        """Delete a secret. Executions that need it fail from now on."""
        return self._sender.one(None, "DELETE", f"/secrets/{quoted(name)}")

    def set(self, name: str, /, *, value: str) -> rows.SecretSet:
        """Set or rotate a secret. Running executions keep the value that they started with."""
        return self._sender.one(rows.SecretSet, "PUT", f"/secrets/{quoted(name)}", body=given(value=value))

    def list(self) -> list[rows.Secret]:
        """The secrets with their users, also those that are used and not set. Never a value."""
        return self._sender.one(list[rows.Secret], "GET", "/secrets")


class Settings:
    """Operations of settings."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(self) -> list[rows.Setting]:
        """The settings of this server and where each comes from. Passwords and keys are masked."""
        return self._sender.one(list[rows.Setting], "GET", "/settings")


class Sources:
    """Operations of sources."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def all(self) -> list[rows.SourceRow]:
        """The sources of all kinds."""
        return self._sender.one(list[rows.SourceRow], "GET", "/sources")

    def configs(self, *, kind: str | None = None) -> list[rows.Source]:
        """Sources by kind and name, with their configurations."""
        return self._sender.one(list[rows.Source], "GET", "/sources:configs", query={"kind": kind})

    def delete(self, kind: str, name: str, /) -> None:
        """Delete a source. Its events stay. A schedule's own trigger is deleted too."""
        return self._sender.one(None, "DELETE", f"/sources/{quoted(kind)}/{quoted(name)}")

    def get(self, kind: str, name: str, /) -> rows.Source:
        """A source with its configuration."""
        return self._sender.one(rows.Source, "GET", f"/sources/{quoted(kind)}/{quoted(name)}")

    def kinds(self) -> list[rows.Kind]:
        """The kinds of sources that are installed, with the schema of their configuration."""
        return self._sender.one(list[rows.Kind], "GET", "/sources/kinds")

    def pause(self, kind: str, name: str, /, *, note: str | UnsetType = UNSET) -> rows.Source:
        """Pause a source: it writes no more events."""
        return self._sender.one(
            rows.Source, "POST", f"/sources/{quoted(kind)}/{quoted(name)}:pause", body=given(note=note)
        )

    def resume(self, kind: str, name: str, /) -> rows.ResumedSource:
        """Resume a source. Times of a schedule that passed meanwhile are not caught up."""
        return self._sender.one(rows.ResumedSource, "POST", f"/sources/{quoted(kind)}/{quoted(name)}:resume")

    def save(
        self,
        kind: str,
        name: str,
        /,
        *,
        config: Mapping[str, Any],
        function: str | UnsetType | None = UNSET,
        input: Any | UnsetType = UNSET,
        expected_version: int | None = None,
    ) -> rows.SavedSource:
        """Save a source. A schedule with a function gets the trigger that runs it."""
        return self._sender.one(
            rows.SavedSource,
            "PUT",
            f"/sources/{quoted(kind)}/{quoted(name)}",
            body=given(config=config, function=function, input=input),
            headers={"if-match": if_match(expected_version)},
        )

    def list(self, kind: str, /) -> list[rows.SourceRow]:
        """The sources of a kind, by name."""
        return self._sender.one(list[rows.SourceRow], "GET", f"/sources/{quoted(kind)}")


class State:
    """Operations of state."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def delete(self, function: str, key: str, /) -> None:
        """Delete a value."""
        return self._sender.one(None, "DELETE", f"/state/{quoted(function)}/{quoted(key)}")

    def get(self, function: str, key: str, /) -> rows.StateRow:
        """One value."""
        return self._sender.one(rows.StateRow, "GET", f"/state/{quoted(function)}/{quoted(key)}")

    def set(
        self, function: str, key: str, /, *, value: Any, expected_version: int | None = None
    ) -> rows.StateRow:
        """Set a value. If-Match has its version; 0 for a key that must be new."""
        return self._sender.one(
            rows.StateRow,
            "PUT",
            f"/state/{quoted(function)}/{quoted(key)}",
            body=given(value=value),
            headers={"if-match": if_match(expected_version)},
        )

    def list(self, *, function: str) -> Rows[rows.StateRow]:
        """The values that a function keeps, by their keys."""
        return self._sender.rows(rows.StateRow, "/state", {"function": function})


class Suppressions:
    """Operations of suppressions."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def matches(
        self, *, trigger: str | None = None, reason: str | Sequence[str] = ()
    ) -> Rows[rows.SuppressedFiring]:
        """Suppressed matches that were not resumed, one by one, by trigger, then by event. Without a reason, those that tell of a fault. A page may have fewer rows than ``limit`` and still have a ``next``."""
        return self._sender.rows(
            rows.SuppressedFiring, "/suppressions/matches", {"trigger": trigger, "reason": reason}
        )

    def replay(self, *, event: str, trigger: str) -> rows.Replayed:
        """Fire one suppressed match once. Its execution gets its place in the causal tree."""
        return self._sender.one(
            rows.Replayed, "POST", "/suppressions:replay", body=given(event=event, trigger=trigger)
        )

    def resume(
        self,
        *,
        dry_run: bool | UnsetType = UNSET,
        everything: bool | UnsetType = UNSET,
        reasons: Sequence[str] | UnsetType = UNSET,
        root: str | UnsetType | None = UNSET,
        trigger: str | UnsetType | None = UNSET,
    ) -> rows.ResumedMatches:
        """Fire all suppressed matches of a trigger, a tree or a reason, once each. With ``dry_run`` they are counted."""
        return self._sender.one(
            rows.ResumedMatches,
            "POST",
            "/suppressions:resume",
            body=given(dry_run=dry_run, everything=everything, reasons=reasons, root=root, trigger=trigger),
        )

    def list(
        self, *, trigger: str | None = None, reason: str | Sequence[str] = (), root: str | None = None
    ) -> Rows[rows.Suppression]:
        """Suppressed matches by trigger, tree and reason, each with a count, the latest first."""
        return self._sender.rows(
            rows.Suppression, "/suppressions", {"trigger": trigger, "reason": reason, "root": root}
        )


class Switches:
    """Operations of switches."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def halt(self, name: str, /, *, note: str | UnsetType = UNSET) -> list[rows.Switch]:
        """Throw a kill switch. ``triggers``: no trigger fires, events wait."""
        return self._sender.one(
            list[rows.Switch], "POST", f"/switches/{quoted(name)}:halt", body=given(note=note)
        )

    def release(self, name: str, /) -> list[rows.Switch]:
        """Release a kill switch. What waited goes on."""
        return self._sender.one(list[rows.Switch], "POST", f"/switches/{quoted(name)}:release")

    def list(self) -> list[rows.Switch]:
        """The kill switches, and which of them are on."""
        return self._sender.one(list[rows.Switch], "GET", "/switches")


class Tokens:
    """Operations of tokens."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(
        self,
        *,
        name: str,
        days: int | UnsetType = UNSET,
        labels: Sequence[str] | UnsetType | None = UNSET,
        rights: Sequence[str] | UnsetType = UNSET,
        role: str | UnsetType | None = UNSET,
        user: str | UnsetType | None = UNSET,
    ) -> rows.NewToken:
        """Create a token. Only this answer has its text."""
        return self._sender.one(
            rows.NewToken,
            "POST",
            "/tokens",
            body=given(days=days, labels=labels, name=name, rights=rights, role=role, user=user),
        )

    def revoke(self, id: str, /) -> None:
        """Revoke a token: the next request with it is refused."""
        return self._sender.one(None, "DELETE", f"/tokens/{quoted(id)}")

    def list(self, *, user: str | None = None) -> Rows[rows.Token]:
        """List the tokens of the caller; for an admin those of all, or of one ``user``."""
        return self._sender.whole(rows.Token, "/tokens", {"user": user})


class Trees:
    """Operations of trees."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def budget(self, id: str, /, *, maximum: int) -> rows.Budget:
        """Change how many executions the tree may cause. What was suppressed stays suppressed."""
        return self._sender.one(
            rows.Budget, "PATCH", f"/trees/{quoted(id)}/budget", body=given(maximum=maximum)
        )

    def children(
        self, id: str, /, *, of: str, after: str | None = None, limit: int | None = None
    ) -> Rows[rows.OutlineNode]:
        """The direct children of a node, or the members of a group."""
        return self._sender.whole(
            rows.OutlineNode, f"/trees/{quoted(id)}/children", {"of": of, "after": after, "limit": limit}
        )

    def get(self, id: str, /) -> rows.Tree:
        """What the tree of an execution or event has started and touched, in numbers."""
        return self._sender.one(rows.Tree, "GET", f"/trees/{quoted(id)}")

    def nodes(self, id: str, /, *, below: bool | None = None) -> rows.WholeTree:
        """The whole tree of an execution or event, or with ``below`` only what it caused: at most 5,000 rows of a kind."""
        return self._sender.one(rows.WholeTree, "GET", f"/trees/{quoted(id)}/nodes", query={"below": below})

    def outline(self, id: str, /, *, at: str | None = None, budget: int | None = None) -> rows.Outline:
        """The tree from the top, or from a node, level by level; equal siblings beyond the first ones are one group."""
        return self._sender.one(
            rows.Outline, "GET", f"/trees/{quoted(id)}/outline", query={"at": at, "budget": budget}
        )


class Triggers:
    """Operations of triggers."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def definitions(self) -> Rows[rows.TriggerDefinition]:
        """Triggers by name with their definitions, and the numbers of all of their decisions."""
        return self._sender.rows(rows.TriggerDefinition, "/triggers:definitions", {})

    def delete(self, name: str, /) -> None:
        """Delete a trigger. Its firings and versions stay readable."""
        return self._sender.one(None, "DELETE", f"/triggers/{quoted(name)}")

    def fire(self, name: str, /, *, event: str, dry_run: bool | UnsetType = UNSET) -> rows.Fired:
        """Start the execution of a trigger for a stored event that matches it and that it has not fired for. Guards, flow control, a pause and shadow mode do not stop it. With ``dry_run`` nothing is started."""
        return self._sender.one(
            rows.Fired, "POST", f"/triggers/{quoted(name)}:fire", body=given(dry_run=dry_run, event=event)
        )

    def firings(
        self, name: str, /, *, decision: str | Sequence[str] = (), reason: str | Sequence[str] = ()
    ) -> Rows[rows.FiringRow]:
        """What the trigger decided, newest event first. With filters a page may have fewer rows and a next."""
        return self._sender.rows(
            rows.FiringRow, f"/triggers/{quoted(name)}/firings", {"decision": decision, "reason": reason}
        )

    def flow(self, name: str, /, *, key: str | None = None) -> rows.Flow:
        """What waits in the flow control of a trigger, by key."""
        return self._sender.one(rows.Flow, "GET", f"/triggers/{quoted(name)}/flow", query={"key": key})

    def get(self, name: str, /, *, totals: bool | None = None) -> rows.Trigger:
        """A trigger with its definition, and the shortest cycle that it is part of."""
        return self._sender.one(rows.Trigger, "GET", f"/triggers/{quoted(name)}", query={"totals": totals})

    def graph(self) -> rows.TriggerGraph:
        """Which trigger may start which, and every cycle. What the labels of the caller hide is left out."""
        return self._sender.one(rows.TriggerGraph, "GET", "/triggers:graph")

    def labels(
        self,
        name: str,
        /,
        *,
        add: Sequence[str] | UnsetType = UNSET,
        remove: Sequence[str] | UnsetType = UNSET,
    ) -> rows.Labels:
        """Add and remove labels of a trigger."""
        return self._sender.one(
            rows.Labels, "POST", f"/triggers/{quoted(name)}:labels", body=given(add=add, remove=remove)
        )

    def pause(self, name: str, /, *, note: str | UnsetType = UNSET) -> rows.Trigger:
        """Pause a trigger. Its matches are suppressed and recorded until it is resumed."""
        return self._sender.one(
            rows.Trigger, "POST", f"/triggers/{quoted(name)}:pause", body=given(note=note)
        )

    def preview(
        self,
        *,
        draft: Mapping[str, Any],
        event: str | UnsetType | None = UNSET,
        limit: int | UnsetType = UNSET,
        name: str | UnsetType | None = UNSET,
    ) -> rows.Preview:
        """Try a draft on the newest events that it could match. Nothing is saved."""
        return self._sender.one(
            rows.Preview,
            "POST",
            "/triggers:preview",
            body=given(draft=draft, event=event, limit=limit, name=name),
        )

    def promote(self, name: str, /) -> rows.Trigger:
        """Enable a trigger that is in shadow mode."""
        return self._sender.one(rows.Trigger, "POST", f"/triggers/{quoted(name)}:promote")

    def resume(self, name: str, /) -> rows.Trigger:
        """Resume a paused trigger, and close its circuit breaker."""
        return self._sender.one(rows.Trigger, "POST", f"/triggers/{quoted(name)}:resume")

    def save(
        self,
        name: str,
        /,
        *,
        definition: Mapping[str, Any],
        shadow: bool | UnsetType = UNSET,
        expected_version: int | None = None,
    ) -> rows.SavedTrigger:
        """Save a trigger. A definition that can never work is refused, and so is a cycle that it does not accept. A new trigger gets the labels that its author is limited to."""
        return self._sender.one(
            rows.SavedTrigger,
            "PUT",
            f"/triggers/{quoted(name)}",
            body=given(definition=definition, shadow=shadow),
            headers={"if-match": if_match(expected_version)},
        )

    def test(self, name: str, /, *, event: str | Mapping[str, Any]) -> rows.DryRun:
        """What the trigger would decide about an event by itself. Nothing is started."""
        return self._sender.one(
            rows.DryRun, "POST", f"/triggers/{quoted(name)}:test", body=given(event=event)
        )

    def versions(self, name: str, /) -> Rows[rows.TriggerVersion]:
        """The versions of a trigger, newest first."""
        return self._sender.rows(rows.TriggerVersion, f"/triggers/{quoted(name)}/versions", {})

    def list(
        self,
        *,
        q: str | None = None,
        state: str | Sequence[str] = (),
        function: str | None = None,
        label: str | None = None,
    ) -> Rows[rows.TriggerRow]:
        """Triggers by name."""
        return self._sender.rows(
            rows.TriggerRow, "/triggers", {"q": q, "state": state, "function": function, "label": label}
        )


class Users:
    """Operations of users."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(
        self,
        *,
        name: str,
        labels: Sequence[str] | UnsetType | None = UNSET,
        password: str | UnsetType | None = UNSET,
        rights: Sequence[str] | UnsetType = UNSET,
        role: str | UnsetType = UNSET,
    ) -> rows.User:
        """Create a user."""
        return self._sender.one(
            rows.User,
            "POST",
            "/users",
            body=given(labels=labels, name=name, password=password, rights=rights, role=role),
        )

    def delete(self, name: str, /) -> None:
        """Delete a user with its tokens and logins."""
        return self._sender.one(None, "DELETE", f"/users/{quoted(name)}")

    def get(self, name: str, /) -> rows.User:
        """Show a user."""
        return self._sender.one(rows.User, "GET", f"/users/{quoted(name)}")

    def password(self, name: str, /, *, password: str) -> None:
        """Give a user another password, and end its logins."""
        return self._sender.one(
            None, "POST", f"/users/{quoted(name)}:password", body=given(password=password)
        )

    def update(
        self,
        name: str,
        /,
        *,
        labels: Sequence[str] | UnsetType | None = UNSET,
        rights: Sequence[str] | UnsetType | None = UNSET,
        role: str | UnsetType | None = UNSET,
        state: str | UnsetType | None = UNSET,
    ) -> rows.User:
        """Change a user's role, rights, labels or state. It holds from the user's next request on."""
        return self._sender.one(
            rows.User,
            "PATCH",
            f"/users/{quoted(name)}",
            body=given(labels=labels, rights=rights, role=role, state=state),
        )

    def list(self) -> Rows[rows.UserRow]:
        """List all users."""
        return self._sender.whole(rows.UserRow, "/users", {})


class Watches:
    """Operations of watches."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def files(self, name: str, /, *, limit: int | None = None) -> rows.KnownFiles:
        """The files that a watch knows, in the order of their paths, and the number of all."""
        return self._sender.one(
            rows.KnownFiles, "GET", f"/sources/file/{quoted(name)}/files", query={"limit": limit}
        )

    def rescan(self, name: str, /, *, content: bool | UnsetType = UNSET) -> None:
        """Compare all files of a watch with the known ones now. No event is written twice."""
        return self._sender.one(
            None, "POST", f"/sources/file/{quoted(name)}:rescan", body=given(content=content)
        )


class Workers:
    """Operations of workers."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(self) -> list[rows.Worker]:
        """The workers that are alive."""
        return self._sender.one(list[rows.Worker], "GET", "/workers")


class Operations:
    """All operations, by the noun that they are about."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    @cached_property
    def activity(self) -> Activity:
        """Operations of activity."""
        return Activity(self._sender)

    @cached_property
    def agents(self) -> Agents:
        """Operations of agents."""
        return Agents(self._sender)

    @cached_property
    def approvals(self) -> Approvals:
        """Operations of approvals."""
        return Approvals(self._sender)

    @cached_property
    def audit(self) -> Audit:
        """Operations of audit."""
        return Audit(self._sender)

    @cached_property
    def backtests(self) -> Backtests:
        """Operations of backtests."""
        return Backtests(self._sender)

    @cached_property
    def batches(self) -> Batches:
        """Operations of batches."""
        return Batches(self._sender)

    @cached_property
    def budgets(self) -> Budgets:
        """Operations of budgets."""
        return Budgets(self._sender)

    @cached_property
    def calls(self) -> Calls:
        """Operations of calls."""
        return Calls(self._sender)

    @cached_property
    def canaries(self) -> Canaries:
        """Operations of canaries."""
        return Canaries(self._sender)

    @cached_property
    def events(self) -> Events:
        """Operations of events."""
        return Events(self._sender)

    @cached_property
    def executions(self) -> Executions:
        """Operations of executions."""
        return Executions(self._sender)

    @cached_property
    def functions(self) -> Functions:
        """Operations of functions."""
        return Functions(self._sender)

    @cached_property
    def gate_policies(self) -> GatePolicies:
        """Operations of gate policies."""
        return GatePolicies(self._sender)

    @cached_property
    def grants(self) -> Grants:
        """Operations of grants."""
        return Grants(self._sender)

    @cached_property
    def health(self) -> Health:
        """Operations of health."""
        return Health(self._sender)

    @cached_property
    def login(self) -> Login:
        """Operations of login."""
        return Login(self._sender)

    @cached_property
    def logins(self) -> Logins:
        """Operations of logins."""
        return Logins(self._sender)

    @cached_property
    def map(self) -> Map:
        """Operations of map."""
        return Map(self._sender)

    @cached_property
    def me(self) -> Me:
        """Operations of me."""
        return Me(self._sender)

    @cached_property
    def memories(self) -> Memories:
        """Operations of memories."""
        return Memories(self._sender)

    @cached_property
    def models(self) -> Models:
        """Operations of models."""
        return Models(self._sender)

    @cached_property
    def overview(self) -> Overview:
        """Operations of overview."""
        return Overview(self._sender)

    @cached_property
    def packs(self) -> Packs:
        """Operations of packs."""
        return Packs(self._sender)

    @cached_property
    def proposals(self) -> Proposals:
        """Operations of proposals."""
        return Proposals(self._sender)

    @cached_property
    def quotas(self) -> Quotas:
        """Operations of quotas."""
        return Quotas(self._sender)

    @cached_property
    def runs(self) -> Runs:
        """Operations of runs."""
        return Runs(self._sender)

    @cached_property
    def schedules(self) -> Schedules:
        """Operations of schedules."""
        return Schedules(self._sender)

    @cached_property
    def search(self) -> Search:
        """Operations of search."""
        return Search(self._sender)

    @cached_property
    def secrets(self) -> Secrets:
        """Operations of secrets."""
        return Secrets(self._sender)

    @cached_property
    def settings(self) -> Settings:
        """Operations of settings."""
        return Settings(self._sender)

    @cached_property
    def sources(self) -> Sources:
        """Operations of sources."""
        return Sources(self._sender)

    @cached_property
    def state(self) -> State:
        """Operations of state."""
        return State(self._sender)

    @cached_property
    def suppressions(self) -> Suppressions:
        """Operations of suppressions."""
        return Suppressions(self._sender)

    @cached_property
    def switches(self) -> Switches:
        """Operations of switches."""
        return Switches(self._sender)

    @cached_property
    def tokens(self) -> Tokens:
        """Operations of tokens."""
        return Tokens(self._sender)

    @cached_property
    def trees(self) -> Trees:
        """Operations of trees."""
        return Trees(self._sender)

    @cached_property
    def triggers(self) -> Triggers:
        """Operations of triggers."""
        return Triggers(self._sender)

    @cached_property
    def users(self) -> Users:
        """Operations of users."""
        return Users(self._sender)

    @cached_property
    def watches(self) -> Watches:
        """Operations of watches."""
        return Watches(self._sender)

    @cached_property
    def workers(self) -> Workers:
        """Operations of workers."""
        return Workers(self._sender)
