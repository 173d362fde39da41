"""What a running function may ask of the engine, answered for one claim.

Every answer is stamped with the claim's own lineage and checked against its fence and its declared
rights: the child can name a key, never an owner. Implements ``functory.workers.sandbox.protocol.host.Host``.

While the database is away an answer waits for it, as long as the function's time lasts: its code is not to blame.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from functory.engine.access import grants
from functory.engine.access.secrets import Secrets
from functory.engine.errors import (
    Conflict,
    ExecutionFailed,
    FunctoryError,
    Invalid,
    Refused,
    Unavailable,
    Uncertain,
    WaitTimeout,
)
from functory.engine.events.store import Events
from functory.engine.executions import store as execution_store
from functory.engine.executions.claim import Claim
from functory.engine.executions.store import Executions
from functory.engine.functions import arguments as argument_binding
from functory.engine.functions.grant_approvals import GrantApprovals
from functory.engine.functions.registry import Functions
from functory.engine.functions.state import State
from functory.engine.serialization import json_codec
from functory.workers.execution.denied_requests import DeniedRequests
from functory.workers.execution.redaction import Redactor

# How often a waiting request looks whether its run is still there.
WAIT_SECONDS = 1.0

# First and longest pause before a database that is away is asked again.
PAUSE_SECONDS = 0.1
LONGEST_PAUSE = 2.0

T = TypeVar("T")

READS = frozenset({"get", "list", "versions"})
WRITES = frozenset({"save", "update", "activate", "rollback"})


@dataclass(frozen=True)
class Services:
    """The engine's services that a host needs."""

    events: Events
    executions: Executions
    functions: Functions
    secrets: Secrets
    state: State
    grant_approvals: GrantApprovals


class EngineHost:
    """The host of one claim. ``lend`` is told of child executions that the claim waits for."""

    def __init__(
        self,
        claim: Claim,
        services: Services,
        run_child_inline: Callable[[Sequence[str]], None],
        ended: threading.Event,
    ) -> None:
        self._claim = claim
        self._cause = claim.cause
        self._services = services
        self._run_child_inline = run_child_inline
        self._ended = ended
        self._lock = threading.Lock()
        self._emitted: dict[str, int] = {}
        self._durable: dict[str, set[int]] = {}
        self._children: set[str] = set()
        self.opened_secrets: set[str] = set()
        self.denied_requests = DeniedRequests(self._without_secrets)
        for told in claim.grant_warnings:
            # Files and programs that are not granted are just not there: the log says why.
            self.denied_requests.record_line(told)

    def call(
        self,
        name: str,
        version: int | None,
        input: dict[str, Any] | None,  # noqa: A002
        args: list[Any],
        kwargs: dict[str, Any],
        durable: bool = False,
    ) -> Any:
        """A child execution, awaited. Raises :class:`ExecutionFailed`."""
        if durable:
            return self._call_durable(name, version, input, args, kwargs)
        id_ = self._start(name, version, input, args, kwargs, dispatched=True)
        self._run_child_inline([id_])
        return execution_store.result_or_raise(self._wait([id_], None)[0])

    def _call_durable(
        self,
        name: str,
        version: int | None,
        input_: dict[str, Any] | None,
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """A child execution that every attempt shares: the nth call with this content that this one makes is the nth
        that another one has made. A number that came to no result is free again, here as there."""
        content = json_codec.digest([name, version, input_, args, kwargs])
        with self._lock:
            taken = self._durable.setdefault(content, set())
            nth = next(n for n in itertools.count(1) if n not in taken)
            taken.add(nth)
        key = json_codec.digest([content, nth])
        try:
            id_ = self._start(name, version, input_, args, kwargs, dispatched=True, step_key=key)
            self._run_child_inline([id_])
            return execution_store.result_or_raise(self._wait([id_], None)[0])
        except FunctoryError:
            with self._lock:
                taken.discard(nth)
            raise

    def submit(self, name: str, version: int | None, args: list[Any], kwargs: dict[str, Any]) -> str:
        """A child execution on any worker; returns its id."""
        return self._start(name, version, None, args, kwargs, dispatched=False)

    def gather(self, ids: list[str], timeout: float | None) -> list[dict[str, Any]]:
        """Wait for own children. Raises :class:`Refused` for a stranger's execution."""
        strangers = [id_ for id_ in ids if id_ not in self._children]
        if strangers:
            raise Refused(
                f"execution {strangers[0]} is not a child of this one", "only own children can be awaited"
            )
        self._run_child_inline(ids)
        results: list[dict[str, Any]] = []
        for row in self._wait(ids, timeout):
            try:
                results.append({"ok": True, "value": execution_store.result_or_raise(row)})
            except ExecutionFailed as error:
                results.append(
                    {
                        "ok": False,
                        "state": error.state,
                        "execution_id": error.execution_id,
                        "error": {"type": "ExecutionFailed", "message": str(error)} | dict(error.error),
                    }
                )
        return results

    def emit(self, type: str, data: Any, subject: str | None) -> str:  # noqa: A002
        """Write an event now. The same emission of a later attempt is the same event: nothing is doubled."""
        content = json_codec.digest([type, subject, data])
        with self._lock:
            nth = self._emitted[content] = self._emitted.get(content, 0) + 1
        key = f"{self._claim.id}:{nth}:{content}"
        return self._retry_while_unavailable(
            lambda: self._services.events.emit(
                type,
                data,
                subject=subject,
                source=f"/functory/functions/{self._claim.row['function']}",
                cause=self._cause,
                dedup_key=key,
            )
        )

    def secret(self, name: str) -> str:
        """A granted secret's value; remembered, so that it can be redacted from what the run leaves."""
        if name not in self._claim.grants.secrets:
            raise self._denied("secret", name, f'secrets=["{name}"]')
        value = self._retry_while_unavailable(lambda: self._services.secrets.open(name)).get_secret_value()
        self.opened_secrets.add(value)
        return value

    def state_get(self, key: str) -> tuple[Any, int] | None:
        return self._retry_while_unavailable(
            lambda: self._services.state.get(self._claim.row["function"], key)
        )

    def state_set(self, key: str, value: Any, expected_version: int | None) -> int:
        return self._retry_while_unavailable(
            lambda: self._services.state.set(
                self._claim.row["function"], key, value, expected_version=expected_version, cause=self._cause
            ),
            repeatable=expected_version is None,
        )

    def state_delete(self, key: str) -> None:
        self._retry_while_unavailable(
            lambda: self._services.state.delete(self._claim.row["function"], key, cause=self._cause)
        )

    def _without_secrets(self, text: str) -> str:
        return Redactor(tuple(self.opened_secrets))(text)

    def functions(self, op: str, arguments: dict[str, Any]) -> Any:
        """Read or change stored functions, as far as the version's permissions go."""
        permission = "functions:read" if op in READS else "functions:write" if op in WRITES else None
        if permission is None:
            raise Invalid(f"unknown operation {op!r}", "known are " + ", ".join(sorted(READS | WRITES)))
        if permission not in self._claim.grants.permissions:
            raise self._denied("permission", permission, f'permissions=["{permission}"]')
        try:
            return self._change_functions(op, arguments)
        except Refused as error:
            self.denied_requests.record(error)
            raise

    def _denied(self, kind: str, value: str, declaration: str) -> Refused:
        """Why the claim lacks a grant: nobody declares it, or what is declared waits for an operator."""
        entry = self._claim.version
        asking = [
            code
            for code in self._claim.codes.values()
            if (kind, value) in grants.Grants.declared(code).items()
        ]
        if asking:
            (name, number) = asking[0]["name"], asking[0]["number"]
            error = Refused(
                f"the {kind} {value} is not granted",
                f"{name} v{number} declares it, and it waits for an operator",
                grants.allow_command(name, number, kind, value),
            )
        else:
            error = Refused(
                f"the {kind} {value} is not declared",
                f"{entry['name']} v{entry['number']} has " + (", ".join(self._claim.grants) or "no grants"),
                f"declare {declaration} and save it",
            )
        self.denied_requests.record(error)
        return error

    def _change_functions(self, op: str, arguments: dict[str, Any]) -> Any:
        registry = self._services.functions
        name = arguments.pop("name", None)
        author = f"function {self._claim.row['function']} v{self._claim.row['version']}"
        if op == "list":
            return [_public(row) for row in registry.list()]
        if op == "get":
            return _public(registry.get(_text(name), arguments.get("version")), source=True)
        if op == "versions":
            return [_public(row) for row in registry.versions(_text(name))]
        if op == "activate":
            return _public(
                registry.activate(_text(name), arguments["version"], author=author, cause=self._cause)
            )
        if op == "rollback":
            return _public(registry.rollback(_text(name), author=author, cause=self._cause))
        try:
            if op == "update":
                changes = arguments.get("changes") or {}
                row = registry.update(_text(name), author=author, cause=self._cause, **changes)
                return self._with_grant_warnings(row)
            source = arguments.pop("source")
            row = registry.save(source, name=name, author=author, cause=self._cause, **arguments)
            return self._with_grant_warnings(row)
        except (TypeError, KeyError) as error:
            raise Invalid(f"wrong arguments of functions.{op}", str(error)) from None

    def _with_grant_warnings(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A saved version, with a warning for each grant that it waits for."""
        _, waiting = self._services.grant_approvals.effective_and_pending(row)
        told = grants.warnings(row["name"], row["number"], waiting)
        return _public({**row, "warnings": [*row["warnings"], *told]})

    def llm(self, arguments: dict[str, Any]) -> Any:
        """There is no gateway yet."""
        raise Conflict(
            "no language model is configured",
            "the gateway is not installed",
            "see docs/reference/settings.md",
        )

    def _wait(self, ids: Sequence[str], timeout: float | None) -> list[dict[str, Any]]:
        """Finished rows; gives up when the run itself has ended: nobody can kill a thread in here."""
        left = timeout
        while True:
            slice_ = WAIT_SECONDS if left is None else min(WAIT_SECONDS, left)
            try:
                return self._retry_while_unavailable(partial(self._services.executions.wait, ids, slice_))
            except WaitTimeout:
                left = None if left is None else left - slice_
                if self._ended.is_set() or (left is not None and left <= 0):
                    raise

    def _start(
        self,
        name: str,
        version: int | None,
        input_: dict[str, Any] | None,
        args: list[Any],
        kwargs: dict[str, Any],
        *,
        dispatched: bool,
        step_key: str | None = None,
    ) -> str:
        def make(row: Mapping[str, Any]) -> Mapping[str, Any]:
            return (
                input_ if input_ is not None else argument_binding.bind(name, row["parameters"], args, kwargs)
            )

        id_: str | None = None

        def start() -> dict[str, Any]:
            nonlocal id_
            # Asked once more with the same id, it is started once, also when nobody knows whether it was.
            again, id_ = id_ is not None, id_ or self._services.executions.new_id()
            return self._services.executions.start(
                name,
                make,
                version=version,
                parent=self._cause,
                dispatched=dispatched,
                step_key=step_key,
                id_=id_,
                maybe_committed=again,
            )

        row = self._retry_while_unavailable(start)
        self._children.add(row["id"])
        return row["id"]

    def _retry_while_unavailable(self, operation: Callable[[], T], *, repeatable: bool = True) -> T:
        """What ``ask`` returns, once the database answers; gives up when the run itself has ended.

        One that is not ``repeatable`` is not asked again when nobody knows whether it was carried out.
        """
        pause = PAUSE_SECONDS
        while True:
            try:
                return operation()
            except Unavailable as error:
                if (isinstance(error, Uncertain) and not repeatable) or self._ended.wait(pause):
                    raise
                pause = min(pause * 2, LONGEST_PAUSE)


def error_record(error: FunctoryError) -> dict[str, Any]:
    """An error of the engine as an execution records it."""
    return {"type": type(error).__name__, "message": str(error)}


def _public(row: Mapping[str, Any], *, source: bool = False) -> dict[str, Any]:
    """What code may see of a version."""
    keys = [
        "name",
        "number",
        "active",
        "latest",
        "state",
        "sha256",
        "parameters",
        "input_schema",
        "output_schema",
        "imports",
        "dependencies",
        "secrets",
        "permissions",
        "grants",
        "requirements",
        "environment",
        "environment_error",
        "reuse",
        "compensate",
        "metadata",
        "output_patterns",
        "limits",
        "warnings",
        "findings",
        "author",
    ]
    shown = {key: row[key] for key in keys} | {
        "created_at": row["created_at"].isoformat(),
        "version": row["number"],
    }
    if source:
        shown["source"] = row["source"]
    return shown


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise Invalid("the operation needs a function's name", f"got {name!r}")
    return name
