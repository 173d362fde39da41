"""The operations and verbs of :class:`functory.remote.client.RemoteFunctory` for ``async def``.

``python -m tests.support.remote_client`` makes them from the synchronous ones.

The synchronous client does the work, on threads of its own: the event loop never waits for a socket.
"""

# ruff: noqa: A002, E501

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from msgspec import UNSET, UnsetType

from functory.remote import operations, rows
from functory.remote.async_base import AsyncBase, AsyncRows, Threads
from functory.remote.client import RemoteFunctory
from functory.remote.connection import ANSWER_SECONDS


class AsyncActivity:
    """Operations of activity."""

    def __init__(self, sync: operations.Activity, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def get(self, *, minutes: int | None = None, count: int | None = None) -> rows.Activity:
        """The functions that are busiest, and the executions that have run longest, as ``functory top`` shows them."""
        return await self._threads.run(lambda: self._sync.get(minutes=minutes, count=count))


class AsyncAgents:
    """Operations of agents."""

    def __init__(self, sync: operations.Agents, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def add(
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
        return await self._threads.run(
            lambda: self._sync.add(
                name=name,
                agents=agents,
                ask_before=ask_before,
                checks=checks,
                description=description,
                function=function,
                limits=limits,
                memo=memo,
                model=model,
                tools=tools,
            )
        )

    async def disable(self, name: str, /) -> rows.Agent:
        """Start no runs of an agent. Open ones go on."""
        return await self._threads.run(lambda: self._sync.disable(name))

    async def enable(self, name: str, /) -> rows.Agent:
        """Let runs of an agent start."""
        return await self._threads.run(lambda: self._sync.enable(name))

    async def get(self, name: str, /) -> rows.Agent:
        """An agent with its newest definition."""
        return await self._threads.run(lambda: self._sync.get(name))

    async def remove(self, name: str, /) -> None:
        """Delete an agent. Its runs stay, and open ones go on."""
        await self._threads.run(lambda: self._sync.remove(name))

    async def update(
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
        return await self._threads.run(
            lambda: self._sync.update(
                name,
                agents=agents,
                ask_before=ask_before,
                checks=checks,
                description=description,
                function=function,
                limits=limits,
                memo=memo,
                model=model,
                tools=tools,
            )
        )

    def versions(self, name: str, /) -> AsyncRows[rows.AgentVersion]:
        """The versions of an agent, newest first."""
        return AsyncRows(self._sync.versions(name), self._threads)

    async def list(self) -> list[rows.Agent]:
        """The agents by name."""
        return await self._threads.run(self._sync.list)


class AsyncApprovals:
    """Operations of approvals."""

    def __init__(self, sync: operations.Approvals, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def answer(self, id: str, /, *, answer: Any, feedback: str | UnsetType = UNSET) -> rows.Question:
        """Answer a question: its run goes on."""
        return await self._threads.run(lambda: self._sync.answer(id, answer=answer, feedback=feedback))

    async def approve(
        self,
        id: str,
        /,
        *,
        always: Sequence[str] | UnsetType | None = UNSET,
        arguments: Mapping[str, Any] | UnsetType | None = UNSET,
    ) -> rows.Question:
        """Let a run use a tool, once, perhaps with other arguments; or approve a proposal. 409 with ``decided_by`` and ``decided_at`` when it is decided already."""
        return await self._threads.run(lambda: self._sync.approve(id, always=always, arguments=arguments))

    async def get(self, id: str, /) -> rows.Question:
        """A question, and how it was decided."""
        return await self._threads.run(lambda: self._sync.get(id))

    async def reject(self, id: str, /, *, feedback: str | UnsetType = UNSET) -> rows.Question:
        """Refuse: the run goes on, and gets the feedback. A proposal ends."""
        return await self._threads.run(lambda: self._sync.reject(id, feedback=feedback))

    def list(
        self, *, state: str | None = None, kind: str | None = None, run: str | None = None
    ) -> AsyncRows[rows.Question]:
        """List questions, newest first. Those that wait (``state=pending``) come oldest first."""
        return AsyncRows(self._sync.list(state=state, kind=kind, run=run), self._threads)


class AsyncAudit:
    """Operations of audit."""

    def __init__(self, sync: operations.Audit, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    def list(
        self,
        *,
        author: str | Sequence[str] = (),
        action: str | Sequence[str] = (),
        subject: str | None = None,
        refused: bool | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
    ) -> AsyncRows[rows.AuditRow]:
        """Who did what to what, newest first. With filters a page may have fewer rows and a next."""
        return AsyncRows(
            self._sync.list(
                author=author, action=action, subject=subject, refused=refused, since=since, until=until
            ),
            self._threads,
        )


class AsyncBacktests:
    """Operations of backtests."""

    def __init__(self, sync: operations.Backtests, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def cancel(self, id: str, /) -> rows.Backtest:
        """Stop a backtest. A partial result stays."""
        return await self._threads.run(lambda: self._sync.cancel(id))

    async def create(
        self,
        *,
        draft: Mapping[str, Any] | UnsetType | None = UNSET,
        since: str | UnsetType = UNSET,
        trigger: str | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> rows.Backtest:
        """Begin a backtest. It decides on the events of all functions, so a caller with labels may not."""
        return await self._threads.run(
            lambda: self._sync.create(
                draft=draft, since=since, trigger=trigger, idempotency_key=idempotency_key
            )
        )

    async def get(self, id: str, /) -> rows.Backtest:
        """A backtest, how far it is, and its result."""
        return await self._threads.run(lambda: self._sync.get(id))

    def list(self) -> AsyncRows[rows.BacktestRow]:
        """Backtests, newest first. Callers that are limited by labels see their own."""
        return AsyncRows(self._sync.list(), self._threads)


class AsyncBatches:
    """Operations of batches."""

    def __init__(self, sync: operations.Batches, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def cancel(self, id: str, /) -> rows.Batch:
        """Stop a batch. What it has done stays."""
        return await self._threads.run(lambda: self._sync.cancel(id))

    async def count(
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
        return await self._threads.run(
            lambda: self._sync.count(
                action=action,
                dry_run=dry_run,
                filter=filter,
                ids=ids,
                latest=latest,
                limit=limit,
                reason=reason,
            )
        )

    async def create(
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
        return await self._threads.run(
            lambda: self._sync.create(
                action=action,
                dry_run=dry_run,
                filter=filter,
                ids=ids,
                latest=latest,
                limit=limit,
                reason=reason,
                idempotency_key=idempotency_key,
            )
        )

    async def get(self, id: str, /) -> rows.Batch:
        """A batch and how far it is."""
        return await self._threads.run(lambda: self._sync.get(id))

    def list(self) -> AsyncRows[rows.Batch]:
        """List batches, newest first. Callers that are limited by labels see their own."""
        return AsyncRows(self._sync.list(), self._threads)


class AsyncBudgets:
    """Operations of budgets."""

    def __init__(self, sync: operations.Budgets, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def get(self, id: str, /) -> rows.Meter:
        """What the tree of an execution has spent, and its limits. 404 for one that has asked no model."""
        return await self._threads.run(lambda: self._sync.get(id))

    async def raise_(
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
        return await self._threads.run(
            lambda: self._sync.raise_(
                id,
                calls=calls,
                children=children,
                proposals=proposals,
                seconds=seconds,
                tokens=tokens,
                tool_calls=tool_calls,
                usd=usd,
            )
        )


class AsyncCalls:
    """Operations of calls."""

    def __init__(self, sync: operations.Calls, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def cost(self, *, by: str | None = None, since: str | datetime | None = None) -> list[rows.Cost]:
        """Calls, tokens and cost in sum: of each model, agent, user, function or day (UTC)."""
        return await self._threads.run(lambda: self._sync.cost(by=by, since=since))

    async def get(self, id: str, /) -> rows.Call:
        """A call with its request, its answer, its tries, and the text so far while the answer streams."""
        return await self._threads.run(lambda: self._sync.get(id))

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
    ) -> AsyncRows[rows.CallRow]:
        """List calls, newest first, without their requests and answers."""
        return AsyncRows(
            self._sync.list(
                model=model,
                state=state,
                root=root,
                execution=execution,
                function=function,
                agent=agent,
                user=user,
                since=since,
                until=until,
            ),
            self._threads,
        )


class AsyncCanaries:
    """Operations of canaries."""

    def __init__(self, sync: operations.Canaries, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def advance(
        self,
        function: str,
        /,
        *,
        hours: float | UnsetType | None = UNSET,
        share: float | UnsetType | None = UNSET,
    ) -> rows.Canary:
        """Raise the share, or let it go on. One that was held goes on."""
        return await self._threads.run(lambda: self._sync.advance(function, hours=hours, share=share))

    async def get(self, function: str, /) -> rows.Canary:
        """The newest canary of a function: what its units have shown, and what is missing for a promotion."""
        return await self._threads.run(lambda: self._sync.get(function))

    async def hold(self, function: str, /, *, reason: str | UnsetType = UNSET) -> rows.Canary:
        """Keep it as it is until a person decides: it is not promoted. It is still rolled back if it is worse."""
        return await self._threads.run(lambda: self._sync.hold(function, reason=reason))

    async def promote(self, function: str, /, *, reason: str | UnsetType = UNSET) -> rows.Canary:
        """Make its version the active one now."""
        return await self._threads.run(lambda: self._sync.promote(function, reason=reason))

    async def rollback(self, function: str, /, *, reason: str | UnsetType = UNSET) -> rows.Canary:
        """Take the executions back and mark its version bad. What has not begun runs with the active version."""
        return await self._threads.run(lambda: self._sync.rollback(function, reason=reason))

    async def start(
        self,
        *,
        function: str,
        version: int,
        hours: float | UnsetType = UNSET,
        share: float | UnsetType = UNSET,
        unit: str | UnsetType = UNSET,
    ) -> rows.Canary:
        """Let a version have a share of the executions of its function. It is rolled back if it is worse, and promoted if it is not."""
        return await self._threads.run(
            lambda: self._sync.start(function=function, version=version, hours=hours, share=share, unit=unit)
        )

    async def stop(self, function: str, /, *, reason: str | UnsetType = UNSET) -> rows.Canary:
        """End it without a verdict: new executions run with the active version."""
        return await self._threads.run(lambda: self._sync.stop(function, reason=reason))

    def list(self, *, function: str | None = None, open: bool | None = None) -> AsyncRows[rows.Canary]:
        """List canaries, newest first."""
        return AsyncRows(self._sync.list(function=function, open=open), self._threads)


class AsyncEvents:
    """Operations of events."""

    def __init__(self, sync: operations.Events, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def decisions(self, id: str, /) -> list[rows.Decision]:
        """What each trigger decided about the event; without a match the clauses, those with the fewest failures first."""
        return await self._threads.run(lambda: self._sync.decisions(id))

    async def emit(
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
        return await self._threads.run(
            lambda: self._sync.emit(
                data=data,
                dedup_key=dedup_key,
                subject=subject,
                type=type,
                events=events,
                idempotency_key=idempotency_key,
            )
        )

    async def get(self, id: str, /) -> rows.Event:
        """One event with its data and the recorded decisions of the triggers."""
        return await self._threads.run(lambda: self._sync.get(id))

    async def release(self, id: str, /) -> rows.EventRow:
        """Send a quarantined event to the router again."""
        return await self._threads.run(lambda: self._sync.release(id))

    async def times(self, id: str, /) -> rows.Times:
        """Where the time went: each step of the event and of its executions."""
        return await self._threads.run(lambda: self._sync.times(id))

    async def types(self) -> list[str]:
        """The types of stored events, for completion: the first 500 in their order."""
        return await self._threads.run(self._sync.types)

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
    ) -> AsyncRows[rows.EventRow]:
        """List events, newest first. A page may have fewer rows than ``limit`` and still have a ``next``: a page looks at a bounded number of rows."""
        return AsyncRows(
            self._sync.list(
                type=type,
                subject=subject,
                state=state,
                source=source,
                root=root,
                since=since,
                until=until,
                q=q,
            ),
            self._threads,
        )


class AsyncExecutions:
    """Operations of executions."""

    def __init__(self, sync: operations.Executions, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def attempts(self, id: str, /) -> list[rows.Attempt]:
        """The attempts of an execution, the first one first."""
        return await self._threads.run(lambda: self._sync.attempts(id))

    async def cancel(self, id: str, /, *, tree: bool | UnsetType = UNSET) -> rows.ExecutionRow:
        """Cancel an execution: a queued one at once, a running one through its worker. Its open children go along, and with ``tree`` everything that it has caused, which a caller with labels may not ask for."""
        return await self._threads.run(lambda: self._sync.cancel(id, tree=tree))

    async def compensate(
        self, id: str, /, *, reason: str | UnsetType = UNSET, skip: bool | UnsetType = UNSET
    ) -> rows.Compensation:
        """Go on with a compensation that has stopped: its failed step is tried again, or skipped."""
        return await self._threads.run(lambda: self._sync.compensate(id, reason=reason, skip=skip))

    async def get(self, id: str, /) -> rows.Execution:
        """Everything about one execution, without its input and its result."""
        return await self._threads.run(lambda: self._sync.get(id))

    async def input(self, id: str, /) -> Any:
        """The input of the execution: its JSON text."""
        return await self._threads.run(lambda: self._sync.input(id))

    async def logs(
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
        return await self._threads.run(
            lambda: self._sync.logs(id, after=after, tail=tail, limit=limit, fence=fence)
        )

    async def replay(
        self, id: str, /, *, latest: bool | UnsetType = UNSET, idempotency_key: str | None = None
    ) -> rows.ExecutionRow:
        """Run a finished execution again: a new execution with the same input."""
        return await self._threads.run(
            lambda: self._sync.replay(id, latest=latest, idempotency_key=idempotency_key)
        )

    async def result(self, id: str, /) -> Any:
        """The result of the execution: its JSON text. 404 while it has none."""
        return await self._threads.run(lambda: self._sync.result(id))

    async def retry(
        self, id: str, /, *, latest: bool | UnsetType = UNSET, idempotency_key: str | None = None
    ) -> rows.ExecutionRow:
        """Run an execution that did not succeed again: a new execution with the same input."""
        return await self._threads.run(
            lambda: self._sync.retry(id, latest=latest, idempotency_key=idempotency_key)
        )

    async def spans(self, id: str, /) -> list[rows.Span]:
        """The functions that the execution called in its process, in their order."""
        return await self._threads.run(lambda: self._sync.spans(id))

    async def start(
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
        return await self._threads.run(
            lambda: self._sync.start(
                function=function,
                delay=delay,
                input=input,
                priority=priority,
                version=version,
                idempotency_key=idempotency_key,
            )
        )

    async def start_many(
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
        return await self._threads.run(
            lambda: self._sync.start_many(
                function=function,
                inputs=inputs,
                delay=delay,
                priority=priority,
                version=version,
                idempotency_key=idempotency_key,
            )
        )

    async def times(self, id: str, /) -> rows.Times:
        """Where the time went: each step of the execution, since the event that started it."""
        return await self._threads.run(lambda: self._sync.times(id))

    async def trace(self, id: str, /, *, budget: int | None = None) -> rows.Trace:
        """What happened in an execution, for a picture over time: the outline of what it caused, its attempts and spans."""
        return await self._threads.run(lambda: self._sync.trace(id, budget=budget))

    async def why(self, id: str, /) -> rows.Why:
        """Why the execution ran, waits or failed, and what to do."""
        return await self._threads.run(lambda: self._sync.why(id))

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
    ) -> AsyncRows[rows.ExecutionRow]:
        """List executions, newest first; those of one trigger in the order of their events. A page may have fewer rows than ``limit`` and still have a ``next``: a page looks at a bounded number of rows."""
        return AsyncRows(
            self._sync.list(
                function=function,
                state=state,
                trigger=trigger,
                cause=cause,
                event=event,
                parent=parent,
                root=root,
                replay_of=replay_of,
                version=version,
                roots=roots,
                unresolved=unresolved,
                since=since,
                until=until,
                q=q,
            ),
            self._threads,
        )


class AsyncFunctions:
    """Operations of functions."""

    def __init__(self, sync: operations.Functions, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def activate(
        self,
        name: str,
        /,
        *,
        version: int,
        force: bool | UnsetType = UNSET,
        expected_version: int | None = None,
    ) -> rows.Function:
        """Make a version the active one."""
        return await self._threads.run(
            lambda: self._sync.activate(name, version=version, force=force, expected_version=expected_version)
        )

    def active(self) -> AsyncRows[rows.Function]:
        """Functions by name, each with its active version, or its newest one while none is active."""
        return AsyncRows(self._sync.active(), self._threads)

    async def check(
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
        return await self._threads.run(
            lambda: self._sync.check(
                name,
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
            )
        )

    async def delete(self, name: str, /, *, force: bool | None = None) -> None:
        """Delete a function. Its executions and versions stay readable. With ``force`` also one that others use."""
        await self._threads.run(lambda: self._sync.delete(name, force=force))

    async def dependents(self, name: str, /) -> list[rows.Dependent]:
        """The functions and triggers that use a function."""
        return await self._threads.run(lambda: self._sync.dependents(name))

    async def describe(self, name: str, /, *, text: str) -> rows.Description:
        """Describe a function for models that choose tools, and for people. It makes no new version."""
        return await self._threads.run(lambda: self._sync.describe(name, text=text))

    async def description(self, name: str, /) -> rows.Description:
        """The description of a function, which belongs to no version."""
        return await self._threads.run(lambda: self._sync.description(name))

    async def diff(self, name: str, /, *, a: int, b: int) -> rows.Difference:
        """Two versions side by side: a unified diff, both sources, and the other fields that differ."""
        return await self._threads.run(lambda: self._sync.diff(name, a=a, b=b))

    async def disable(self, name: str, /) -> rows.Function:
        """Stop new executions. Versions stay."""
        return await self._threads.run(lambda: self._sync.disable(name))

    async def enable(self, name: str, /) -> rows.Function:
        """Let executions start again, with the version that was active."""
        return await self._threads.run(lambda: self._sync.enable(name))

    async def gate(self, name: str, /) -> rows.FunctionGate:
        """The rules for proposals of a function, and the policies that they come from."""
        return await self._threads.run(lambda: self._sync.gate(name))

    async def get(self, name: str, /) -> rows.Function:
        """A function with its active version, or its newest one while none is active."""
        return await self._threads.run(lambda: self._sync.get(name))

    async def history(self, name: str, /) -> list[rows.ActivationRow]:
        """Which version was active when, newest first."""
        return await self._threads.run(lambda: self._sync.history(name))

    async def labels(
        self,
        name: str,
        /,
        *,
        add: Sequence[str] | UnsetType = UNSET,
        remove: Sequence[str] | UnsetType = UNSET,
    ) -> rows.Labels:
        """Add and remove labels of a function."""
        return await self._threads.run(lambda: self._sync.labels(name, add=add, remove=remove))

    async def log_policy(self, name: str, /, *, log_policy: str) -> rows.LogPolicy:
        """Set which log lines of a function's executions are kept, from its next attempts on."""
        return await self._threads.run(lambda: self._sync.log_policy(name, log_policy=log_policy))

    async def mark(self, name: str, /, *, mark: str, reason: str, version: int) -> rows.Function:
        """Mark a version good or bad. A bad one is activated only by force."""
        return await self._threads.run(
            lambda: self._sync.mark(name, mark=mark, reason=reason, version=version)
        )

    async def modules(self, name: str, number: int, /) -> dict[str, str]:
        """The texts of the modules of one's own of a version, by dotted name."""
        return await self._threads.run(lambda: self._sync.modules(name, number))

    async def rename(
        self, name: str, /, *, to: str, alias: bool | UnsetType = UNSET, dry_run: bool | UnsetType = UNSET
    ) -> rows.RenameReport:
        """Give a function a new name. The former one stays with its executions: disabled, or as an alias that calls the new one. Refused while something uses the former name, unless ``alias``."""
        return await self._threads.run(lambda: self._sync.rename(name, to=to, alias=alias, dry_run=dry_run))

    async def rollback(
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
        return await self._threads.run(
            lambda: self._sync.rollback(
                name, force=force, from_version=from_version, keep_mark=keep_mark, to=to
            )
        )

    async def save(
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
        return await self._threads.run(
            lambda: self._sync.save(
                name,
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
                expected_version=expected_version,
            )
        )

    async def search(self, *, q: str, count: int | None = None) -> list[rows.FoundFunction]:
        """Find functions by name, description and parameters, and with the setting embedding_model by their meaning: the best first."""
        return await self._threads.run(lambda: self._sync.search(q=q, count=count))

    async def stats(self, name: str, /, *, since: str | datetime | None = None) -> rows.FunctionStats:
        """Executions, failures and percentiles over time and of each version, calls, and advice."""
        return await self._threads.run(lambda: self._sync.stats(name, since=since))

    async def use(self, name: str, /, *, from_: int, to: int | None = None) -> rows.VersionUse:
        """What executions of these versions have touched: to be looked at after a wrong version."""
        return await self._threads.run(lambda: self._sync.use(name, from_=from_, to=to))

    async def version(self, name: str, number: int, /) -> rows.Function:
        """One version of a function."""
        return await self._threads.run(lambda: self._sync.version(name, number))

    def versions(self, name: str, /) -> AsyncRows[rows.VersionRow]:
        """The versions of a function, newest first."""
        return AsyncRows(self._sync.versions(name), self._threads)

    def list(
        self, *, q: str | None = None, state: str | Sequence[str] = (), label: str | None = None
    ) -> AsyncRows[rows.FunctionRow]:
        """Functions by name."""
        return AsyncRows(self._sync.list(q=q, state=state, label=label), self._threads)


class AsyncGatePolicies:
    """Operations of gate policies."""

    def __init__(self, sync: operations.GatePolicies, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def get(self, name: str, /) -> rows.GatePolicy:
        """One policy."""
        return await self._threads.run(lambda: self._sync.get(name))

    async def remove(self, name: str, /) -> None:
        """Remove a policy."""
        await self._threads.run(lambda: self._sync.remove(name))

    async def set(
        self,
        name: str,
        /,
        *,
        functions: Sequence[str] | UnsetType = UNSET,
        labels: Sequence[str] | UnsetType = UNSET,
        rules: Any | UnsetType = UNSET,
    ) -> rows.GatePolicy:
        """Make or replace a policy. Proposals that are open keep the rules with which they were made."""
        return await self._threads.run(
            lambda: self._sync.set(name, functions=functions, labels=labels, rules=rules)
        )

    async def list(self) -> list[rows.GatePolicy]:
        """The policies by name. Where several apply, the strictest of all rules holds."""
        return await self._threads.run(self._sync.list)


class AsyncGrants:
    """Operations of grants."""

    def __init__(self, sync: operations.Grants, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def allow(
        self,
        *,
        function: str,
        kind: str,
        reason: str,
        value: str | UnsetType = UNSET,
        version: int | UnsetType | None = UNSET,
    ) -> rows.GrantDecision:
        """Allow a grant to exactly this content of a function."""
        return await self._threads.run(
            lambda: self._sync.allow(
                function=function, kind=kind, reason=reason, value=value, version=version
            )
        )

    async def refuse(
        self,
        *,
        function: str,
        kind: str,
        reason: str,
        value: str | UnsetType = UNSET,
        version: int | UnsetType | None = UNSET,
    ) -> rows.GrantDecision:
        """Refuse a grant that waits. It can be allowed later."""
        return await self._threads.run(
            lambda: self._sync.refuse(
                function=function, kind=kind, reason=reason, value=value, version=version
            )
        )

    async def revoke(
        self,
        *,
        function: str,
        kind: str,
        reason: str,
        value: str | UnsetType = UNSET,
        version: int | UnsetType | None = UNSET,
    ) -> rows.GrantDecision:
        """Take back an approval. Running executions keep what they started with."""
        return await self._threads.run(
            lambda: self._sync.revoke(
                function=function, kind=kind, reason=reason, value=value, version=version
            )
        )

    async def waiting(self, *, refused: bool | None = None) -> list[rows.Grant]:
        """The grants that wait for a decision; with ``refused`` those that were refused."""
        return await self._threads.run(lambda: self._sync.waiting(refused=refused))

    async def list(self, *, function: str | None = None, version: int | None = None) -> list[rows.Grant]:
        """The grants of one version, of one function, or of all functions."""
        return await self._threads.run(lambda: self._sync.list(function=function, version=version))


class AsyncHealth:
    """Operations of health."""

    def __init__(self, sync: operations.Health, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def get(self) -> rows.Health:
        """The parts of the installation, its workers and open work, and the last check of each invariant."""
        return await self._threads.run(self._sync.get)

    async def status(self) -> rows.Status:
        """What is there, what is open, and what went wrong within a day."""
        return await self._threads.run(self._sync.status)


class AsyncLogin:
    """Operations of login."""

    def __init__(self, sync: operations.Login, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def begin(
        self,
        *,
        link: str | UnsetType | None = UNSET,
        name: str | UnsetType | None = UNSET,
        password: str | UnsetType | None = UNSET,
    ) -> None:
        """Log in. The answer sets the cookie of the new login; the login of the cookie that was sent ends."""
        await self._threads.run(lambda: self._sync.begin(link=link, name=name, password=password))

    async def end(self) -> None:
        """End the login of the cookie, if there is one."""
        await self._threads.run(self._sync.end)

    async def ways(self) -> rows.LoginWays:
        """Show how one can log in."""
        return await self._threads.run(self._sync.ways)


class AsyncLogins:
    """Operations of logins."""

    def __init__(self, sync: operations.Logins, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def end(self, id: str, /) -> None:
        """End a login. Its open pages are closed within seconds."""
        await self._threads.run(lambda: self._sync.end(id))

    def list(self, *, user: str | None = None) -> AsyncRows[rows.Login]:
        """List the open logins of the caller; for an admin those of all, or of one ``user``."""
        return AsyncRows(self._sync.list(user=user), self._threads)


class AsyncMap:
    """Operations of map."""

    def __init__(self, sync: operations.Map, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def get(self, *, around: str | None = None, depth: int | None = None) -> rows.Map:
        """Functions, triggers, event types and sources, and which of them may start which."""
        return await self._threads.run(lambda: self._sync.get(around=around, depth=depth))


class AsyncMe:
    """Operations of me."""

    def __init__(self, sync: operations.Me, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def confirm(self, *, password: str) -> None:
        """Give the password again, as dangerous actions need it."""
        await self._threads.run(lambda: self._sync.confirm(password=password))

    async def get(self) -> rows.Me:
        """Show the caller: its rights, its labels, and where it is."""
        return await self._threads.run(self._sync.get)

    async def password(self, *, new_password: str, password: str) -> None:
        """Change the password. All other logins of the user end."""
        await self._threads.run(lambda: self._sync.password(new_password=new_password, password=password))

    async def update(self, *, preferences: Mapping[str, Any]) -> rows.Me:
        """Change the preferences."""
        return await self._threads.run(lambda: self._sync.update(preferences=preferences))


class AsyncMemories:
    """Operations of memories."""

    def __init__(self, sync: operations.Memories, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def add(
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
        return await self._threads.run(
            lambda: self._sync.add(
                text=text, agent=agent, days=days, importance=importance, kind=kind, run=run
            )
        )

    async def forget(self, id: str, /) -> None:
        """Delete a memory. Nothing of its text and its vectors is kept."""
        await self._threads.run(lambda: self._sync.forget(id))

    async def forget_source(
        self, *, execution: str | UnsetType | None = UNSET, run: str | UnsetType | None = UNSET
    ) -> rows.Forgotten:
        """Delete all memories from one execution, or from all executions of one run."""
        return await self._threads.run(lambda: self._sync.forget_source(execution=execution, run=run))

    async def get(self, id: str, /) -> rows.Memory:
        """A memory, and where it comes from."""
        return await self._threads.run(lambda: self._sync.get(id))

    async def search(
        self,
        *,
        q: str,
        agent: str | None = None,
        run: str | None = None,
        shared: bool | None = None,
        count: int | None = None,
    ) -> list[rows.FoundMemory]:
        """Find memories by their words, and with the setting embedding_model by their meaning: the best first."""
        return await self._threads.run(
            lambda: self._sync.search(q=q, agent=agent, run=run, shared=shared, count=count)
        )

    def list(
        self,
        *,
        agent: str | None = None,
        run: str | None = None,
        shared: bool | None = None,
        kind: str | None = None,
    ) -> AsyncRows[rows.Memory]:
        """List memories, newest first."""
        return AsyncRows(self._sync.list(agent=agent, run=run, shared=shared, kind=kind), self._threads)


class AsyncModels:
    """Operations of models."""

    def __init__(self, sync: operations.Models, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def add(
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
        return await self._threads.run(
            lambda: self._sync.add(
                name=name,
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
            )
        )

    async def disable(self, name: str, /) -> rows.Model:
        """Let no function ask a model. Calls that wait for it fail or go to its fallback."""
        return await self._threads.run(lambda: self._sync.disable(name))

    async def enable(self, name: str, /) -> rows.Model:
        """Let functions ask a model, and close its circuit breaker."""
        return await self._threads.run(lambda: self._sync.enable(name))

    async def get(self, name: str, /) -> rows.Model:
        """A model with its health and what was asked of it today."""
        return await self._threads.run(lambda: self._sync.get(name))

    async def remove(self, name: str, /) -> None:
        """Delete a model. What was asked of it stays in the list of calls."""
        await self._threads.run(lambda: self._sync.remove(name))

    async def test(self, name: str, /) -> rows.ModelTests:
        """Ask a model a few short questions. This costs money. The answers come later: read the tests of the answered ``root_id``."""
        return await self._threads.run(lambda: self._sync.test(name))

    async def tests(self, name: str, root: str, /) -> rows.ModelTests:
        """The tests of a model that were begun together, as far as they have ended. Their questions are always the same, so that neither they nor the answers are payloads."""
        return await self._threads.run(lambda: self._sync.tests(name, root))

    async def update(
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
        return await self._threads.run(
            lambda: self._sync.update(
                name,
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
            )
        )

    async def list(self) -> list[rows.Model]:
        """The models by name, with their health and what was asked of them today."""
        return await self._threads.run(self._sync.list)


class AsyncOverview:
    """Operations of overview."""

    def __init__(self, sync: operations.Overview, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def get(self) -> rows.Overview:
        """What needs a person, the last hour, what fails, what guards have stopped, and the workers."""
        return await self._threads.run(self._sync.get)


class AsyncPacks:
    """Operations of packs."""

    def __init__(self, sync: operations.Packs, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def list(self) -> list[rows.Pack]:
        """The packs that functions were imported from, with their functions and the triggers of these."""
        return await self._threads.run(self._sync.list)


class AsyncProposals:
    """Operations of proposals."""

    def __init__(self, sync: operations.Proposals, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def approve(self, id: str, /, *, feedback: str | UnsetType = UNSET) -> rows.Proposal:
        """Approve a proposal: it becomes active, begins its canary, or waits for a second person. 409 for one that is decided, with who has decided and when."""
        return await self._threads.run(lambda: self._sync.approve(id, feedback=feedback))

    async def create(
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
        return await self._threads.run(
            lambda: self._sync.create(
                source=source,
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
                subprocess=subprocess,
                tests=tests,
                validate_output=validate_output,
            )
        )

    async def get(self, id: str, /) -> rows.Proposal:
        """A proposal with its checks, what persons decided, its source, and the source that it would replace."""
        return await self._threads.run(lambda: self._sync.get(id))

    async def reject(self, id: str, /, *, feedback: str | UnsetType = UNSET) -> rows.Proposal:
        """Reject a proposal. A run that waits for it gets the feedback. 409 as for ``:approve``."""
        return await self._threads.run(lambda: self._sync.reject(id, feedback=feedback))

    async def withdraw(self, id: str, /) -> rows.Proposal:
        """End a proposal that is not needed any more."""
        return await self._threads.run(lambda: self._sync.withdraw(id))

    def list(
        self, *, state: str | None = None, function: str | None = None, run: str | None = None
    ) -> AsyncRows[rows.ProposalRow]:
        """List proposals, newest first, without tests and rules."""
        return AsyncRows(self._sync.list(state=state, function=function, run=run), self._threads)


class AsyncQuotas:
    """Operations of quotas."""

    def __init__(self, sync: operations.Quotas, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def remove(self, *, scope: str, name: str | UnsetType = UNSET) -> None:
        """Delete a quota. For all together the setting ``day_usd`` holds then."""
        await self._threads.run(lambda: self._sync.remove(scope=scope, name=name))

    async def set(
        self,
        *,
        scope: str,
        calls: int | UnsetType | None = UNSET,
        name: str | UnsetType = UNSET,
        tokens: int | UnsetType | None = UNSET,
        usd: float | str | UnsetType | None = UNSET,
    ) -> list[rows.Quota]:
        """Set what may be spent in a day. A limit that is not sent is none."""
        return await self._threads.run(
            lambda: self._sync.set(scope=scope, calls=calls, name=name, tokens=tokens, usd=usd)
        )

    async def list(self) -> list[rows.Quota]:
        """The quotas with what was used of them today (UTC), and what was used where nothing is limited."""
        return await self._threads.run(self._sync.list)


class AsyncRuns:
    """Operations of runs."""

    def __init__(self, sync: operations.Runs, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def cancel(self, id: str, /) -> rows.Run:
        """End a run, with its open step and all that it waits for."""
        return await self._threads.run(lambda: self._sync.cancel(id))

    async def cost(self, id: str, /) -> rows.RunCost:
        """What the steps of a run have asked of models, and what its tree has spent, with its limits."""
        return await self._threads.run(lambda: self._sync.cost(id))

    async def get(self, id: str, /) -> rows.Run:
        """A run: its state and why, what it waits for, what it has spent."""
        return await self._threads.run(lambda: self._sync.get(id))

    async def pause(self, id: str, /) -> rows.Run:
        """Start no further step of a run. What is under way may end."""
        return await self._threads.run(lambda: self._sync.pause(id))

    async def resume(self, id: str, /) -> rows.Run:
        """Let a paused run go on."""
        return await self._threads.run(lambda: self._sync.resume(id))

    async def start(
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
        return await self._threads.run(
            lambda: self._sync.start(
                name, goal=goal, limits=limits, memo=memo, user=user, idempotency_key=idempotency_key
            )
        )

    def steps(self, id: str, /, *, from_step: int | None = None) -> AsyncRows[rows.Step]:
        """The steps of a run, the first one first: what each was given, what it has asked for, what that cost."""
        return AsyncRows(self._sync.steps(id, from_step=from_step), self._threads)

    def list(
        self,
        *,
        agent: str | None = None,
        state: str | None = None,
        root: str | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
    ) -> AsyncRows[rows.RunRow]:
        """List runs, newest first."""
        return AsyncRows(
            self._sync.list(agent=agent, state=state, root=root, since=since, until=until), self._threads
        )


class AsyncSchedules:
    """Operations of schedules."""

    def __init__(self, sync: operations.Schedules, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def backfill(
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
        return await self._threads.run(
            lambda: self._sync.backfill(name, from_=from_, until=until, dry_run=dry_run, overlap=overlap)
        )

    async def next(self, name: str, /, *, count: int | None = None) -> list[rows.NextTime]:
        """The next times of a schedule, in UTC and in its zone."""
        return await self._threads.run(lambda: self._sync.next(name, count=count))

    async def preview(
        self, *, config: Mapping[str, Any], count: int | UnsetType = UNSET
    ) -> rows.PreviewedTimes:
        """The next times of a schedule that is not saved, in UTC and in its zone, and the first ones after the clocks change. It is asked while a person types, so what is wrong so far is an answer and no error."""
        return await self._threads.run(lambda: self._sync.preview(config=config, count=count))

    async def ticks(self, name: str, /, *, limit: int | None = None) -> rows.Ticks:
        """The newest times that became events, and how many passed without one, with the reason where one is known."""
        return await self._threads.run(lambda: self._sync.ticks(name, limit=limit))

    async def trigger(
        self, name: str, /, *, overlap: str | UnsetType | None = UNSET
    ) -> rows.TriggeredSchedule:
        """Fire a schedule now, beside its times."""
        return await self._threads.run(lambda: self._sync.trigger(name, overlap=overlap))


class AsyncSearch:
    """Operations of search."""

    def __init__(self, sync: operations.Search, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def list(self, *, q: str) -> list[rows.SearchResult]:
        """Functions, triggers and sources by a part of their name; executions, events, triggers and versions by an id."""
        return await self._threads.run(lambda: self._sync.list(q=q))


class AsyncSecrets:
    """Operations of secrets."""

    def __init__(self, sync: operations.Secrets, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def delete(self, name: str, /) -> None:
        """Delete a secret. Executions that need it fail from now on."""
        await self._threads.run(lambda: self._sync.delete(name))

    async def set(self, name: str, /, *, value: str) -> rows.SecretSet:
        """Set or rotate a secret. Running executions keep the value that they started with."""
        return await self._threads.run(lambda: self._sync.set(name, value=value))

    async def list(self) -> list[rows.Secret]:
        """The secrets with their users, also those that are used and not set. Never a value."""
        return await self._threads.run(self._sync.list)


class AsyncSettings:
    """Operations of settings."""

    def __init__(self, sync: operations.Settings, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def list(self) -> list[rows.Setting]:
        """The settings of this server and where each comes from. Passwords and keys are masked."""
        return await self._threads.run(self._sync.list)


class AsyncSources:
    """Operations of sources."""

    def __init__(self, sync: operations.Sources, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def all(self) -> list[rows.SourceRow]:
        """The sources of all kinds."""
        return await self._threads.run(self._sync.all)

    async def configs(self, *, kind: str | None = None) -> list[rows.Source]:
        """Sources by kind and name, with their configurations."""
        return await self._threads.run(lambda: self._sync.configs(kind=kind))

    async def delete(self, kind: str, name: str, /) -> None:
        """Delete a source. Its events stay. A schedule's own trigger is deleted too."""
        await self._threads.run(lambda: self._sync.delete(kind, name))

    async def get(self, kind: str, name: str, /) -> rows.Source:
        """A source with its configuration."""
        return await self._threads.run(lambda: self._sync.get(kind, name))

    async def kinds(self) -> list[rows.Kind]:
        """The kinds of sources that are installed, with the schema of their configuration."""
        return await self._threads.run(self._sync.kinds)

    async def pause(self, kind: str, name: str, /, *, note: str | UnsetType = UNSET) -> rows.Source:
        """Pause a source: it writes no more events."""
        return await self._threads.run(lambda: self._sync.pause(kind, name, note=note))

    async def resume(self, kind: str, name: str, /) -> rows.ResumedSource:
        """Resume a source. Times of a schedule that passed meanwhile are not caught up."""
        return await self._threads.run(lambda: self._sync.resume(kind, name))

    async def save(
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
        return await self._threads.run(
            lambda: self._sync.save(
                kind, name, config=config, function=function, input=input, expected_version=expected_version
            )
        )

    async def list(self, kind: str, /) -> list[rows.SourceRow]:
        """The sources of a kind, by name."""
        return await self._threads.run(lambda: self._sync.list(kind))


class AsyncState:
    """Operations of state."""

    def __init__(self, sync: operations.State, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def delete(self, function: str, key: str, /) -> None:
        """Delete a value."""
        await self._threads.run(lambda: self._sync.delete(function, key))

    async def get(self, function: str, key: str, /) -> rows.StateRow:
        """One value."""
        return await self._threads.run(lambda: self._sync.get(function, key))

    async def set(
        self, function: str, key: str, /, *, value: Any, expected_version: int | None = None
    ) -> rows.StateRow:
        """Set a value. If-Match has its version; 0 for a key that must be new."""
        return await self._threads.run(
            lambda: self._sync.set(function, key, value=value, expected_version=expected_version)
        )

    def list(self, *, function: str) -> AsyncRows[rows.StateRow]:
        """The values that a function keeps, by their keys."""
        return AsyncRows(self._sync.list(function=function), self._threads)


class AsyncSuppressions:
    """Operations of suppressions."""

    def __init__(self, sync: operations.Suppressions, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    def matches(
        self, *, trigger: str | None = None, reason: str | Sequence[str] = ()
    ) -> AsyncRows[rows.SuppressedFiring]:
        """Suppressed matches that were not resumed, one by one, by trigger, then by event. Without a reason, those that tell of a fault. A page may have fewer rows than ``limit`` and still have a ``next``."""
        return AsyncRows(self._sync.matches(trigger=trigger, reason=reason), self._threads)

    async def replay(self, *, event: str, trigger: str) -> rows.Replayed:
        """Fire one suppressed match once. Its execution gets its place in the causal tree."""
        return await self._threads.run(lambda: self._sync.replay(event=event, trigger=trigger))

    async def resume(
        self,
        *,
        dry_run: bool | UnsetType = UNSET,
        everything: bool | UnsetType = UNSET,
        reasons: Sequence[str] | UnsetType = UNSET,
        root: str | UnsetType | None = UNSET,
        trigger: str | UnsetType | None = UNSET,
    ) -> rows.ResumedMatches:
        """Fire all suppressed matches of a trigger, a tree or a reason, once each. With ``dry_run`` they are counted."""
        return await self._threads.run(
            lambda: self._sync.resume(
                dry_run=dry_run, everything=everything, reasons=reasons, root=root, trigger=trigger
            )
        )

    def list(
        self, *, trigger: str | None = None, reason: str | Sequence[str] = (), root: str | None = None
    ) -> AsyncRows[rows.Suppression]:
        """Suppressed matches by trigger, tree and reason, each with a count, the latest first."""
        return AsyncRows(self._sync.list(trigger=trigger, reason=reason, root=root), self._threads)


class AsyncSwitches:
    """Operations of switches."""

    def __init__(self, sync: operations.Switches, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def halt(self, name: str, /, *, note: str | UnsetType = UNSET) -> list[rows.Switch]:
        """Throw a kill switch. ``triggers``: no trigger fires, events wait."""
        return await self._threads.run(lambda: self._sync.halt(name, note=note))

    async def release(self, name: str, /) -> list[rows.Switch]:
        """Release a kill switch. What waited goes on."""
        return await self._threads.run(lambda: self._sync.release(name))

    async def list(self) -> list[rows.Switch]:
        """The kill switches, and which of them are on."""
        return await self._threads.run(self._sync.list)


class AsyncTokens:
    """Operations of tokens."""

    def __init__(self, sync: operations.Tokens, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def create(
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
        return await self._threads.run(
            lambda: self._sync.create(
                name=name, days=days, labels=labels, rights=rights, role=role, user=user
            )
        )

    async def revoke(self, id: str, /) -> None:
        """Revoke a token: the next request with it is refused."""
        await self._threads.run(lambda: self._sync.revoke(id))

    def list(self, *, user: str | None = None) -> AsyncRows[rows.Token]:
        """List the tokens of the caller; for an admin those of all, or of one ``user``."""
        return AsyncRows(self._sync.list(user=user), self._threads)


class AsyncTrees:
    """Operations of trees."""

    def __init__(self, sync: operations.Trees, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def budget(self, id: str, /, *, maximum: int) -> rows.Budget:
        """Change how many executions the tree may cause. What was suppressed stays suppressed."""
        return await self._threads.run(lambda: self._sync.budget(id, maximum=maximum))

    def children(
        self, id: str, /, *, of: str, after: str | None = None, limit: int | None = None
    ) -> AsyncRows[rows.OutlineNode]:
        """The direct children of a node, or the members of a group."""
        return AsyncRows(self._sync.children(id, of=of, after=after, limit=limit), self._threads)

    async def get(self, id: str, /) -> rows.Tree:
        """What the tree of an execution or event has started and touched, in numbers."""
        return await self._threads.run(lambda: self._sync.get(id))

    async def nodes(self, id: str, /, *, below: bool | None = None) -> rows.WholeTree:
        """The whole tree of an execution or event, or with ``below`` only what it caused: at most 5,000 rows of a kind."""
        return await self._threads.run(lambda: self._sync.nodes(id, below=below))

    async def outline(self, id: str, /, *, at: str | None = None, budget: int | None = None) -> rows.Outline:
        """The tree from the top, or from a node, level by level; equal siblings beyond the first ones are one group."""
        return await self._threads.run(lambda: self._sync.outline(id, at=at, budget=budget))


class AsyncTriggers:
    """Operations of triggers."""

    def __init__(self, sync: operations.Triggers, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    def definitions(self) -> AsyncRows[rows.TriggerDefinition]:
        """Triggers by name with their definitions, and the numbers of all of their decisions."""
        return AsyncRows(self._sync.definitions(), self._threads)

    async def delete(self, name: str, /) -> None:
        """Delete a trigger. Its firings and versions stay readable."""
        await self._threads.run(lambda: self._sync.delete(name))

    async def fire(self, name: str, /, *, event: str, dry_run: bool | UnsetType = UNSET) -> rows.Fired:
        """Start the execution of a trigger for a stored event that matches it and that it has not fired for. Guards, flow control, a pause and shadow mode do not stop it. With ``dry_run`` nothing is started."""
        return await self._threads.run(lambda: self._sync.fire(name, event=event, dry_run=dry_run))

    def firings(
        self, name: str, /, *, decision: str | Sequence[str] = (), reason: str | Sequence[str] = ()
    ) -> AsyncRows[rows.FiringRow]:
        """What the trigger decided, newest event first. With filters a page may have fewer rows and a next."""
        return AsyncRows(self._sync.firings(name, decision=decision, reason=reason), self._threads)

    async def flow(self, name: str, /, *, key: str | None = None) -> rows.Flow:
        """What waits in the flow control of a trigger, by key."""
        return await self._threads.run(lambda: self._sync.flow(name, key=key))

    async def get(self, name: str, /, *, totals: bool | None = None) -> rows.Trigger:
        """A trigger with its definition, and the shortest cycle that it is part of."""
        return await self._threads.run(lambda: self._sync.get(name, totals=totals))

    async def graph(self) -> rows.TriggerGraph:
        """Which trigger may start which, and every cycle. What the labels of the caller hide is left out."""
        return await self._threads.run(self._sync.graph)

    async def labels(
        self,
        name: str,
        /,
        *,
        add: Sequence[str] | UnsetType = UNSET,
        remove: Sequence[str] | UnsetType = UNSET,
    ) -> rows.Labels:
        """Add and remove labels of a trigger."""
        return await self._threads.run(lambda: self._sync.labels(name, add=add, remove=remove))

    async def pause(self, name: str, /, *, note: str | UnsetType = UNSET) -> rows.Trigger:
        """Pause a trigger. Its matches are suppressed and recorded until it is resumed."""
        return await self._threads.run(lambda: self._sync.pause(name, note=note))

    async def preview(
        self,
        *,
        draft: Mapping[str, Any],
        event: str | UnsetType | None = UNSET,
        limit: int | UnsetType = UNSET,
        name: str | UnsetType | None = UNSET,
    ) -> rows.Preview:
        """Try a draft on the newest events that it could match. Nothing is saved."""
        return await self._threads.run(
            lambda: self._sync.preview(draft=draft, event=event, limit=limit, name=name)
        )

    async def promote(self, name: str, /) -> rows.Trigger:
        """Enable a trigger that is in shadow mode."""
        return await self._threads.run(lambda: self._sync.promote(name))

    async def resume(self, name: str, /) -> rows.Trigger:
        """Resume a paused trigger, and close its circuit breaker."""
        return await self._threads.run(lambda: self._sync.resume(name))

    async def save(
        self,
        name: str,
        /,
        *,
        definition: Mapping[str, Any],
        shadow: bool | UnsetType = UNSET,
        expected_version: int | None = None,
    ) -> rows.SavedTrigger:
        """Save a trigger. A definition that can never work is refused, and so is a cycle that it does not accept. A new trigger gets the labels that its author is limited to."""
        return await self._threads.run(
            lambda: self._sync.save(
                name, definition=definition, shadow=shadow, expected_version=expected_version
            )
        )

    async def test(self, name: str, /, *, event: str | Mapping[str, Any]) -> rows.DryRun:
        """What the trigger would decide about an event by itself. Nothing is started."""
        return await self._threads.run(lambda: self._sync.test(name, event=event))

    def versions(self, name: str, /) -> AsyncRows[rows.TriggerVersion]:
        """The versions of a trigger, newest first."""
        return AsyncRows(self._sync.versions(name), self._threads)

    def list(
        self,
        *,
        q: str | None = None,
        state: str | Sequence[str] = (),
        function: str | None = None,
        label: str | None = None,
    ) -> AsyncRows[rows.TriggerRow]:
        """Triggers by name."""
        return AsyncRows(self._sync.list(q=q, state=state, function=function, label=label), self._threads)


class AsyncUsers:
    """Operations of users."""

    def __init__(self, sync: operations.Users, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def create(
        self,
        *,
        name: str,
        labels: Sequence[str] | UnsetType | None = UNSET,
        password: str | UnsetType | None = UNSET,
        rights: Sequence[str] | UnsetType = UNSET,
        role: str | UnsetType = UNSET,
    ) -> rows.User:
        """Create a user."""
        return await self._threads.run(
            lambda: self._sync.create(name=name, labels=labels, password=password, rights=rights, role=role)
        )

    async def delete(self, name: str, /) -> None:
        """Delete a user with its tokens and logins."""
        await self._threads.run(lambda: self._sync.delete(name))

    async def get(self, name: str, /) -> rows.User:
        """Show a user."""
        return await self._threads.run(lambda: self._sync.get(name))

    async def password(self, name: str, /, *, password: str) -> None:
        """Give a user another password, and end its logins."""
        await self._threads.run(lambda: self._sync.password(name, password=password))

    async def update(
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
        return await self._threads.run(
            lambda: self._sync.update(name, labels=labels, rights=rights, role=role, state=state)
        )

    def list(self) -> AsyncRows[rows.UserRow]:
        """List all users."""
        return AsyncRows(self._sync.list(), self._threads)


class AsyncWatches:
    """Operations of watches."""

    def __init__(self, sync: operations.Watches, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def files(self, name: str, /, *, limit: int | None = None) -> rows.KnownFiles:
        """The files that a watch knows, in the order of their paths, and the number of all."""
        return await self._threads.run(lambda: self._sync.files(name, limit=limit))

    async def rescan(self, name: str, /, *, content: bool | UnsetType = UNSET) -> None:
        """Compare all files of a watch with the known ones now. No event is written twice."""
        await self._threads.run(lambda: self._sync.rescan(name, content=content))


class AsyncWorkers:
    """Operations of workers."""

    def __init__(self, sync: operations.Workers, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads

    async def list(self) -> list[rows.Worker]:
        """The workers that are alive."""
        return await self._threads.run(self._sync.list)


class AsyncRemoteFunctory(AsyncBase):
    """:class:`functory.remote.client.RemoteFunctory` for ``async def``, for use by one event loop."""

    def __init__(
        self, url: str | None = None, *, token: str | None = None, timeout: float = ANSWER_SECONDS
    ) -> None:
        """As :class:`RemoteFunctory`. Nothing is sent yet."""
        super().__init__(RemoteFunctory(url, token=token, timeout=timeout))

    @cached_property
    def activity(self) -> AsyncActivity:
        """Operations of activity."""
        return AsyncActivity(self._sync.activity, self._threads)

    @cached_property
    def agents(self) -> AsyncAgents:
        """Operations of agents."""
        return AsyncAgents(self._sync.agents, self._threads)

    @cached_property
    def approvals(self) -> AsyncApprovals:
        """Operations of approvals."""
        return AsyncApprovals(self._sync.approvals, self._threads)

    @cached_property
    def audit(self) -> AsyncAudit:
        """Operations of audit."""
        return AsyncAudit(self._sync.audit, self._threads)

    @cached_property
    def backtests(self) -> AsyncBacktests:
        """Operations of backtests."""
        return AsyncBacktests(self._sync.backtests, self._threads)

    @cached_property
    def batches(self) -> AsyncBatches:
        """Operations of batches."""
        return AsyncBatches(self._sync.batches, self._threads)

    @cached_property
    def budgets(self) -> AsyncBudgets:
        """Operations of budgets."""
        return AsyncBudgets(self._sync.budgets, self._threads)

    @cached_property
    def calls(self) -> AsyncCalls:
        """Operations of calls."""
        return AsyncCalls(self._sync.calls, self._threads)

    @cached_property
    def canaries(self) -> AsyncCanaries:
        """Operations of canaries."""
        return AsyncCanaries(self._sync.canaries, self._threads)

    @cached_property
    def events(self) -> AsyncEvents:
        """Operations of events."""
        return AsyncEvents(self._sync.events, self._threads)

    @cached_property
    def executions(self) -> AsyncExecutions:
        """Operations of executions."""
        return AsyncExecutions(self._sync.executions, self._threads)

    @cached_property
    def functions(self) -> AsyncFunctions:
        """Operations of functions."""
        return AsyncFunctions(self._sync.functions, self._threads)

    @cached_property
    def gate_policies(self) -> AsyncGatePolicies:
        """Operations of gate policies."""
        return AsyncGatePolicies(self._sync.gate_policies, self._threads)

    @cached_property
    def grants(self) -> AsyncGrants:
        """Operations of grants."""
        return AsyncGrants(self._sync.grants, self._threads)

    @cached_property
    def health(self) -> AsyncHealth:
        """Operations of health."""
        return AsyncHealth(self._sync.health, self._threads)

    @cached_property
    def login(self) -> AsyncLogin:
        """Operations of login."""
        return AsyncLogin(self._sync.login, self._threads)

    @cached_property
    def logins(self) -> AsyncLogins:
        """Operations of logins."""
        return AsyncLogins(self._sync.logins, self._threads)

    @cached_property
    def map(self) -> AsyncMap:
        """Operations of map."""
        return AsyncMap(self._sync.map, self._threads)

    @cached_property
    def me(self) -> AsyncMe:
        """Operations of me."""
        return AsyncMe(self._sync.me, self._threads)

    @cached_property
    def memories(self) -> AsyncMemories:
        """Operations of memories."""
        return AsyncMemories(self._sync.memories, self._threads)

    @cached_property
    def models(self) -> AsyncModels:
        """Operations of models."""
        return AsyncModels(self._sync.models, self._threads)

    @cached_property
    def overview(self) -> AsyncOverview:
        """Operations of overview."""
        return AsyncOverview(self._sync.overview, self._threads)

    @cached_property
    def packs(self) -> AsyncPacks:
        """Operations of packs."""
        return AsyncPacks(self._sync.packs, self._threads)

    @cached_property
    def proposals(self) -> AsyncProposals:
        """Operations of proposals."""
        return AsyncProposals(self._sync.proposals, self._threads)

    @cached_property
    def quotas(self) -> AsyncQuotas:
        """Operations of quotas."""
        return AsyncQuotas(self._sync.quotas, self._threads)

    @cached_property
    def runs(self) -> AsyncRuns:
        """Operations of runs."""
        return AsyncRuns(self._sync.runs, self._threads)

    @cached_property
    def schedules(self) -> AsyncSchedules:
        """Operations of schedules."""
        return AsyncSchedules(self._sync.schedules, self._threads)

    @cached_property
    def search(self) -> AsyncSearch:
        """Operations of search."""
        return AsyncSearch(self._sync.search, self._threads)

    @cached_property
    def secrets(self) -> AsyncSecrets:
        """Operations of secrets."""
        return AsyncSecrets(self._sync.secrets, self._threads)

    @cached_property
    def settings(self) -> AsyncSettings:
        """Operations of settings."""
        return AsyncSettings(self._sync.settings, self._threads)

    @cached_property
    def sources(self) -> AsyncSources:
        """Operations of sources."""
        return AsyncSources(self._sync.sources, self._threads)

    @cached_property
    def state(self) -> AsyncState:
        """Operations of state."""
        return AsyncState(self._sync.state, self._threads)

    @cached_property
    def suppressions(self) -> AsyncSuppressions:
        """Operations of suppressions."""
        return AsyncSuppressions(self._sync.suppressions, self._threads)

    @cached_property
    def switches(self) -> AsyncSwitches:
        """Operations of switches."""
        return AsyncSwitches(self._sync.switches, self._threads)

    @cached_property
    def tokens(self) -> AsyncTokens:
        """Operations of tokens."""
        return AsyncTokens(self._sync.tokens, self._threads)

    @cached_property
    def trees(self) -> AsyncTrees:
        """Operations of trees."""
        return AsyncTrees(self._sync.trees, self._threads)

    @cached_property
    def triggers(self) -> AsyncTriggers:
        """Operations of triggers."""
        return AsyncTriggers(self._sync.triggers, self._threads)

    @cached_property
    def users(self) -> AsyncUsers:
        """Operations of users."""
        return AsyncUsers(self._sync.users, self._threads)

    @cached_property
    def watches(self) -> AsyncWatches:
        """Operations of watches."""
        return AsyncWatches(self._sync.watches, self._threads)

    @cached_property
    def workers(self) -> AsyncWorkers:
        """Operations of workers."""
        return AsyncWorkers(self._sync.workers, self._threads)

    async def emit(
        self, type_: str, data: Any = None, *, subject: str | None = None, dedup_key: str | None = None
    ) -> str:
        """Write one event. Returns its id."""
        return await self._threads.run(
            lambda: self._sync.emit(type_, data, subject=subject, dedup_key=dedup_key)
        )

    async def emit_many(self, events: Iterable[Mapping[str, Any]]) -> list[str]:
        """Write many events in one transaction, all of them or none: at most 10,000. Returns their ids, in order.

        An event is an object with a ``type``, and optionally ``data``, ``subject`` and ``dedup_key``."""
        return await self._threads.run(lambda: self._sync.emit_many(events))

    async def save_function(
        self, name: str, source: str, *, expected_version: int | None = None, **fields: Any
    ) -> rows.SavedFunction:
        """Save the source of a function as a version. ``fields`` are those of :meth:`functions.save`; limits may be
        written plainly (``timeout=30, retries=3``)."""
        return await self._threads.run(
            lambda: self._sync.save_function(name, source, expected_version=expected_version, **fields)
        )

    async def register_trigger(
        self,
        name: str | None = None,
        *,
        shadow: bool = False,
        expected_version: int | None = None,
        **fields: Any,
    ) -> rows.SavedTrigger:
        """Save a trigger in either spelling. Its row has ``warnings`` about what may be a mistake in it.

        Each is a Python warning too."""
        return await self._threads.run(
            lambda: self._sync.register_trigger(
                name, shadow=shadow, expected_version=expected_version, **fields
            )
        )
