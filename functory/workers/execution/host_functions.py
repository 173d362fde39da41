"""Host functions: the requests of a running function to the engine, answered for one claim.

Every answer carries the claim's own lineage and is checked against its fence and its grants: the child can name a
key, never an owner. Implements ``functory.workers.sandbox.protocol.host.Host``.

While the database is unavailable a request waits, as long as the function's time lasts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, TypeVar

from functory.engine.access import grants
from functory.engine.errors import Invalid, Refused
from functory.engine.executions.claims import Claim
from functory.engine.executions.runs.transitions import CAUSES
from functory.engine.serialization import json_codec
from functory.engine.telemetry import metrics, sandbox_metrics
from functory.workers.execution import memory_calls
from functory.workers.execution.child_calls import ChildCalls
from functory.workers.execution.denied_requests import DeniedRequests
from functory.workers.execution.engine_services import Services
from functory.workers.execution.memory_calls import MemoryCalls
from functory.workers.execution.model_calls import ModelCalls
from functory.workers.execution.unavailable_retry import retry_while_unavailable
from functory.workers.redaction.redactor import MARK, Redactor, StreamRedactor

T = TypeVar("T")

# What a refusal says of a secret in the input of a child: what it is, why, and what to do.
_CHILD_INPUT = (
    "the input of another execution",
    "inputs are stored as readable text",
    'read it in that function with secret("{0}"), which declares secrets=["{0}"]',
)

WRITES = frozenset(name for name, needed in grants.PERMISSION_OF.items() if needed == "functions:write")
PROPOSALS = frozenset({"propose", "proposal"})


class EngineHost:
    """The host functions of one claim. ``run_child_inline`` gets the ids of children that the claim waits for.

    ``redact`` learns each secret before the code gets it. ``lend_slot`` frees the claim's slot while it waits for a
    model.
    """

    def __init__(
        self,
        claim: Claim,
        services: Services,
        run_child_inline: Callable[[Sequence[str]], None],
        ended: threading.Event,
        redact: Redactor | None = None,
        lend_slot: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._claim = claim
        self._cause = claim.cause
        self._services = services
        self._child_calls = ChildCalls(claim, services.executions, run_child_inline, ended)
        self._model_calls = ModelCalls(claim, services.calls, services.models, ended, lend_slot)
        self._memory_calls = MemoryCalls(
            claim,
            services.executions,
            services.memory,
            services.tools,
            services.embeddings,
            self._model_calls,
            self._retry_while_unavailable,
        )
        self._ended = ended
        self._lock = threading.Lock()
        self._emitted: dict[str, int] = {}
        self.redact = redact or Redactor()
        self.denied_requests = DeniedRequests(self.redact)
        for warning in claim.grant_warnings:
            # Files and programs that are not granted are missing in the sandbox: the log says why.
            self.denied_requests.record_line(warning)

    def call(
        self,
        name: str,
        version: int | None,
        input: dict[str, Any] | None,  # noqa: A002
        args: list[Any],
        kwargs: dict[str, Any],
        durable: bool = False,
        abandon: bool = False,
    ) -> Any:
        """The result of a child execution; all attempts share a ``durable`` one. Raises :class:`ExecutionFailed`."""
        self._check_call(name)
        self._refuse_secrets([name, input, args, kwargs], *_CHILD_INPUT)
        run = self._child_calls.call_durable if durable else self._child_calls.call
        return run(name, version, input, args, kwargs, abandon=abandon)

    def submit(
        self,
        name: str,
        version: int | None,
        args: list[Any],
        kwargs: dict[str, Any],
        abandon: bool = False,
    ) -> str:
        """Start a child execution on any worker. Returns its id."""
        self._check_call(name)
        self._refuse_secrets([name, args, kwargs], *_CHILD_INPUT)
        return self._child_calls.submit(name, version, args, kwargs, abandon)

    def _check_call(self, name: str) -> None:
        """Raise :class:`Refused` for a function that neither the run's agent names as a tool nor the code declares, if
        this is a step or a tool of a run.
        """
        if self._claim.row.cause not in CAUSES or name in self._dependencies or name in self._tools:
            return
        error = Refused(
            f"code of a run may not call {name[:80]}",
            "it is no tool of its agent that needs no consent, and the function does not declare it as a dependency",
            "let a step return step.tools([...]) for a tool that needs consent",
        )
        self.denied_requests.record(error)
        raise error

    @cached_property
    def _dependencies(self) -> frozenset[str]:
        return frozenset(reference.partition("@")[0] for reference in self._claim.codes)

    @cached_property
    def _tools(self) -> frozenset[str]:
        found = self._retry_while_unavailable(lambda: self._services.executions.run_of(self._claim.id))
        return frozenset(() if found is None else found["callable"])

    def gather(self, ids: list[str], timeout: float | None) -> Iterable[dict[str, Any]]:
        """Wait up to ``timeout`` seconds for children; results are read as they are taken.

        Raises :class:`Refused` for an execution that is no child.
        """
        return self._child_calls.gather(ids, timeout)

    def emit(self, type: str, data: Any, subject: str | None) -> str:  # noqa: A002
        """Store an event now. A later attempt that emits it again gets the same event.

        Secrets in its data and subject are replaced by a mark.
        """
        data, subject, key = self._prepare_event(type, data, subject)
        return self._retry_while_unavailable(
            lambda: self._services.events.emit(
                type, data, subject=subject, source=self._event_source, cause=self._cause, dedup_key=key
            )
        )

    def emit_many(self, events: Sequence[tuple[str, Any, str | None]]) -> list[str]:
        """Store events now, each as :meth:`emit` does, in one transaction: all of them or none."""
        given: list[dict[str, Any]] = []
        for type_, *sent in events:
            data, subject, key = self._prepare_event(type_, *sent)
            given.append({"type": type_, "data": data, "subject": subject, "dedup_key": key})
        return self._retry_while_unavailable(
            lambda: self._services.events.emit_many(given, source=self._event_source, cause=self._cause)
        )

    @property
    def _event_source(self) -> str:
        return f"/functory/functions/{self._claim.row.function}"

    def _prepare_event(self, type: str, data: Any, subject: str | None) -> tuple[Any, str | None, str]:  # noqa: A002
        """Return data and subject without secrets, and the key that makes it the same event in a later attempt."""
        self._refuse_secrets(
            type, "the type of an event", "other functions read it", "name the event without it"
        )
        if names := self.redact.names_in([data, subject]):
            self.denied_requests.record_line(
                f"the data of the event {type} held the secret {', '.join(names)}, which was replaced by {MARK}"
            )
            data, subject = self.redact(data), self.redact(subject)
        content = json_codec.digest([type, subject, data])
        with self._lock:
            nth = self._emitted[content] = self._emitted.get(content, 0) + 1
        return data, subject, f"{self._claim.id}:{nth}:{content}"

    def secret(self, name: str) -> str:
        """A granted secret's value. It is redacted from the results and logs of the run."""
        if name not in self._claim.grants.secrets:
            raise self._denied("secret", name, f'secrets=["{name}"]')
        value = self._retry_while_unavailable(lambda: self._services.secrets.open(name)).get_secret_value()
        # Before the code has it, so that no output with it can come first.
        self.redact.add(name, value)
        return value

    def output_filter(self) -> StreamRedactor:
        """What removes the secrets from one stream of output."""
        return StreamRedactor(self.redact)

    def state_get(self, key: str) -> tuple[Any, int] | None:
        """The value of a key of the function's state, and its version; None without one."""
        return self._retry_while_unavailable(lambda: self._services.state.get(self._claim.row.function, key))

    def state_set(self, key: str, value: Any, expected_version: int | None) -> int:
        """Store a value in the function's state. Returns its version. Raises :class:`Refused` for a secret."""
        self._refuse_secrets(
            [key, value],
            "the state of a function",
            "state is stored as readable text",
            'read it with secret("{}") where it is needed',
        )
        return self._retry_while_unavailable(
            lambda: self._services.state.set(
                self._claim.row.function, key, value, expected_version=expected_version, cause=self._cause
            ),
            repeatable=expected_version is None,
        )

    def state_delete(self, key: str) -> None:
        """Delete a key of the function's state."""
        self._retry_while_unavailable(
            lambda: self._services.state.delete(self._claim.row.function, key, cause=self._cause)
        )

    def _refuse_secrets(self, value: Any, where: str, why: str, try_: str) -> None:
        """Raise :class:`Refused` if a value that code must get back unchanged holds a secret of this run."""
        if names := self.redact.names_in(value):
            error = Refused(f"{where} cannot hold the secret {', '.join(names)}", why, try_.format(names[0]))
            self.denied_requests.record(error)
            raise error

    def functions(self, op: str, arguments: dict[str, Any]) -> Any:
        """Read or change stored functions. Raises :class:`Refused` without the permission."""
        permission = grants.PERMISSION_OF.get(op)
        if permission is None:
            raise Invalid(
                f"unknown operation {op!r}", "the operations are " + ", ".join(sorted(grants.PERMISSION_OF))
            )
        if permission not in self._claim.grants.permissions:
            raise self._denied("permission", permission, f'permissions=["{permission}"]')
        if op in WRITES and self._retry_while_unavailable(
            lambda: self._services.executions.run_of(self._claim.id)
        ):
            error = Refused(
                f"functions.{op} is not for code that works for a run of an agent",
                "an agent changes no function by itself, whatever permission its code has",
                "propose a version: functions.propose(source, tests=[...])",
            )
            self.denied_requests.record(error)
            raise error
        try:
            if op in ("save", "update", "propose", "describe"):
                self._refuse_secrets(
                    arguments,
                    "a stored function",
                    "sources and their metadata are stored as readable text",
                    'declare secrets=["{0}"] and read it with secret("{0}")',
                )
            if op == "describe":
                return self._describe(arguments.get("name"), arguments.get("text"))
            if op in PROPOSALS:
                return self._propose(op, arguments)
            return self._change_functions(op, arguments)
        except Refused as error:
            self.denied_requests.record(error)
            raise

    def _denied(self, kind: str, value: str, declaration: str) -> Refused:
        """The refusal of a missing grant: it is not declared, or its declaration waits for an operator."""
        entry = self._claim.version
        declaring = [
            code for code in self._claim.codes.values() if (kind, value) in code.declared_grants.items()
        ]
        if declaring:
            name, number = declaring[0].name, declaring[0].number
            error = Refused(
                f"the {kind} {value} is not granted",
                f"{name} v{number} declares it, and it waits for an operator",
                grants.allow_command(name, number, kind, value),
            )
        else:
            error = Refused(
                f"the {kind} {value} is not declared",
                f"{entry.name} v{entry.number} has " + (", ".join(self._claim.grants) or "no grants"),
                f"declare {declaration} and save it",
            )
        self.denied_requests.record(error)
        sandbox_metrics.sandbox_violations.labels(kind).inc()
        if kind == "secret":
            metrics.secret_reads.labels("denied").inc()
        return error

    def _change_functions(self, op: str, arguments: dict[str, Any]) -> Any:
        registry = self._services.functions
        name = arguments.pop("name", None)
        author = f"function {self._claim.row.function} v{self._claim.row.version}"
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
            chosen = {key: arguments[key] for key in ("to", "from_version", "keep_mark") if key in arguments}
            return _public(registry.rollback(_text(name), author=author, cause=self._cause, **chosen))
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

    def _propose(self, op: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Propose a version, or return what became of one."""
        proposals = self._services.proposals
        if op == "proposal":
            return _public_proposal(proposals.get(_text(arguments.get("id"))))
        source = arguments.pop("source", None)
        if not isinstance(source, str):
            raise Invalid("the proposal has no source", "it is the text of one function")
        author = f"function {self._claim.row.function} v{self._claim.row.version}"
        try:
            return _public_proposal(proposals.create(source, author=author, cause=self._cause, **arguments))
        except TypeError as error:
            raise Invalid("wrong arguments of functions.propose", str(error)) from None

    def _describe(self, name: Any, text: Any) -> dict[str, Any]:
        """Describe a function; code of a run those that it uses itself, because others believe the text."""
        own = self._memory_calls.tool_names | self._dependencies | {self._claim.row.function}
        if self._memory_calls.works_for_a_run and name not in own:
            raise Refused(
                f"code of this run may not describe {str(name)[:80]!r}",
                "it describes its own functions and the tools of its run",
            )
        author = f"function {self._claim.row.function} v{self._claim.row.version}"
        row = self._retry_while_unavailable(
            lambda: self._services.annotations.describe(_text(name), text, author=author, cause=self._cause)
        )
        return {"function": name, "description": None if row is None else row["value"]}

    def _with_grant_warnings(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A saved version, with a warning for each grant that it waits for."""
        _, waiting = self._services.grant_approvals.effective_and_pending(row)
        warnings = grants.warnings(row["name"], row["number"], waiting)
        reason = row["inactive_reason"]
        if reason is not None:
            warnings = [*warnings, f"{row['name']} v{row['number']} is not active: {reason}"]
        shown = _public({**row, "warnings": [*row["warnings"], *warnings]})
        return shown | {"inactive_reason": reason}

    def llm(self, op: str, arguments: dict[str, Any]) -> Any:
        """Ask a language model, or list those that the function may ask. Raises :class:`Refused` without a grant."""
        if op == "models":
            return self._model_calls.models()
        named = arguments.get("model")
        if isinstance(named, str) and not self._claim.grants.allows_model(named):
            raise self._denied("model", named, f'models=["{named}"]')
        self._refuse_secrets(
            arguments,
            "a request to a language model",
            "a provider and the archive of calls would have it",
            'leave it out; the function itself has it by secret("{0}")',
        )
        return self._model_calls.chat(arguments) if op == "chat" else self._model_calls.embed(arguments)

    def memory(self, op: str, arguments: dict[str, Any]) -> Any:
        """Add, search or forget memories. Raises :class:`Refused` without the permission, and for a secret."""
        permission = memory_calls.PERMISSION_OF[op]
        if permission not in self._claim.grants.permissions:
            raise self._denied("permission", permission, f'permissions=["{permission}"]')
        self._refuse_secrets(
            arguments,
            "a memory, or a search for one,",
            "memories are stored as readable text, and models get them",
            'leave it out; the function itself has it by secret("{0}")',
        )
        return self._recorded(lambda: self._memory_calls.memory(op, arguments))

    def tools(self, op: str, arguments: dict[str, Any]) -> Any:
        """Find the functions that the run may use as tools. Code without a run needs the permission to read all."""
        permission = "functions:read"
        if not self._memory_calls.works_for_a_run and permission not in self._claim.grants.permissions:
            raise self._denied("permission", permission, f'permissions=["{permission}"]')
        if op == "schema":
            return self._memory_calls.schema(arguments.get("name"))
        self._refuse_secrets(
            arguments, "a search for tools", "a model may get it", "search without it: the goal is enough"
        )
        return self._memory_calls.search_tools(arguments.get("query"), arguments.get("k"))

    def _recorded(self, operation: Callable[[], T]) -> T:
        try:
            return operation()
        except Refused as error:
            self.denied_requests.record(error)
            raise

    def _retry_while_unavailable(self, operation: Callable[[], T], *, repeatable: bool = True) -> T:
        return retry_while_unavailable(operation, self._ended, repeatable=repeatable)


# The fields of a version that code may see.
_PUBLIC = (
    "name", "number", "active", "latest", "state", "sha256", "parameters", "input_schema", "output_schema", "imports",
    "dependencies", "secrets", "permissions", "grants", "requirements", "environment", "environment_error", "reuse",
    "compensate", "metadata", "output_patterns", "limits", "warnings", "findings", "author",
)  # fmt: skip


def _public(row: Mapping[str, Any], *, source: bool = False) -> dict[str, Any]:
    """A version as code sees it."""
    shown = {key: row[key] for key in _PUBLIC} | {
        "created_at": row["created_at"].isoformat(),
        "version": row["number"],
    }
    if row.get("mark"):
        shown["mark"] = row["mark"]["mark"]
    if source:
        shown["source"] = row["source"]
    return shown


def _public_proposal(row: Mapping[str, Any]) -> dict[str, Any]:
    """A proposal as code sees it."""
    shown = {
        key: row[key] for key in ("id", "function", "version", "base_version", "state", "reason", "rights")
    }
    checks = [{key: one[key] for key in ("name", "state", "report")} for one in row["checks"]]
    return shown | {"checks": checks}


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise Invalid("the operation needs a function's name", f"got {name!r}")
    return name
