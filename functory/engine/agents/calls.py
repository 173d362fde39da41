"""Calls of language models as their callers see them: ask, wait, read the ledger.

A call is a row. It is queued here, in a short transaction; a gateway sends it
(:mod:`functory.engine.agents.call_queue`), and nothing waits for it but a row. The same request of the same execution
is asked once: another attempt of the execution gets the recorded answer, or waits for the one that is on its way.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from functory.engine.access import scopes
from functory.engine.access.scopes import Scope
from functory.engine.agents import call_listing, meters, models, money, redaction, requests
from functory.engine.agents.call_listing import ENDED, OPEN, CallFilter
from functory.engine.agents.requests import Request
from functory.engine.database.connection import Database
from functory.engine.database.schema import Id, llm_call, llm_content, llm_partial, llm_try, run, run_step
from functory.engine.database.transaction import Tx
from functory.engine.errors import BudgetExceeded, Invalid, ModelFailed, NotFound, WaitTimeout
from functory.engine.events import causation
from functory.engine.events.causation import Cause
from functory.engine.events.store import as_id
from functory.engine.settings import Settings

_OF_REQUEST = sa.select(llm_call).where(
    llm_call.c.execution_id == sa.bindparam("execution", type_=Id),
    llm_call.c.request_sha256 == sa.bindparam("sha256"),
    llm_call.c.nth == sa.bindparam("nth"),
    llm_call.c.state.in_((*OPEN, "succeeded")),
)
_OWNERS = sa.select(run.c.id, run.c.agent, run.c.user_name).where(
    sa.or_(
        run.c.id == sa.bindparam("root", type_=Id),
        run.c.id.in_(
            sa.select(run_step.c.run_id).where(run_step.c.execution_id == sa.bindparam("execution", type_=Id))
        ),
    )
)
_BY_ID = sa.select(llm_call).where(llm_call.c.id == sa.bindparam("id", type_=Id))


@dataclass(frozen=True)
class Caller:
    """Who asks: the tree that pays, the execution whose answer it is, and the agent and the user that it is for."""

    root_id: str
    function: str
    execution_id: str | None = None
    agent: str | None = None
    user: str | None = None
    # The running attempt that asks; None for a step whose answer the next one gets.
    cause: Cause | None = None

    @classmethod
    def of(cls, cause: Cause) -> Caller:
        """Return the caller that a running attempt is."""
        return cls(cause.root_id, cause.function, cause.execution_id, cause=cause)


class Calls:
    """The calls of a database."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._redact = redaction.redaction(settings.llm_redact)

    def new_root(self) -> str:
        """Return the id of a tree without executions: of what a person asks a model."""
        return self._database.new_id()

    def ask(self, request: Request, caller: Caller, *, number: int, nth: int) -> dict[str, Any]:
        """Queue a request, or find the one that is asked already. Returns the row of its call.

        ``number`` is that of the request in its attempt, ``nth`` that among those with the same content. Raises
        :class:`Invalid` for a request that its model cannot take, and
        :class:`~functory.engine.errors.Stale` for an attempt that no longer owns its execution.
        """
        with self._database.write() as tx:
            causation.check_fence(tx, caller.cause)
            return queue(tx, request, caller, self._settings, self._redact, number=number, nth=nth)

    def wait(self, id_: str, timeout: float | None = None) -> dict[str, Any]:
        """Wait until a call has ended. Returns its row. Raises :class:`WaitTimeout` after ``timeout`` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        wakeup = self._database.wakeup
        while True:
            seen = wakeup.generation("answers")
            with self._database.read() as tx:
                row = tx.first(_BY_ID, {"id": id_})
            if row is None:
                raise NotFound(f"call {id_} not found", try_="functory llm calls")
            if row["state"] in ENDED:
                return row
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise WaitTimeout(f"call {id_} is still {row['state']}", f"waited {timeout:g} s; it goes on")
            poll = self._settings.poll_seconds
            wakeup.wait("answers", seen, poll if left is None else min(poll, left))

    def cancel_queued(self, execution_id: str) -> int:
        """Cancel the calls of an execution that are not sent yet. Returns their number."""
        with self._database.write() as tx:
            return cancel_queued(tx, llm_call.c.execution_id == execution_id)

    def get(self, id_: str, scope: Scope = None) -> dict[str, Any]:
        """Return a call with its request, its answer, its tries, and the text so far while it streams.

        ``request`` is None after the archive's time. Raises :class:`NotFound`, also for one outside of ``scope``.
        """
        visible = scopes.function_names(llm_call.c.function, scope)
        with self._database.read() as tx:
            row = tx.first(_BY_ID.where(*visible), {"id": as_id(id_, "call")})
            if row is None:
                raise NotFound(f"call {id_} not found", try_="functory llm calls")
            row["tried"] = tx.rows(
                sa.select(llm_try).where(llm_try.c.call_id == row["id"]).order_by(llm_try.c.number)
            )
            text = tx.first(sa.select(llm_partial).where(llm_partial.c.call_id == row["id"]))
            row["partial"] = None if text is None else text["text"]
            if row["request"] is not None:
                row["request"] = load_request(tx, row).content()
        return row

    def list(
        self,
        *,
        before: str | None = None,
        limit: int = 50,
        scope: Scope = None,
        **wanted: Any,
    ) -> list[dict[str, Any]]:
        """Return calls without requests and answers, newest first. ``wanted`` is as in
        :class:`~functory.engine.agents.call_listing.CallFilter`.
        """
        return call_listing.page(
            self._database, CallFilter(**wanted), before=before, limit=limit, scope=scope
        )

    def cost(self, by: str, *, since: datetime | None = None, scope: Scope = None) -> list[dict[str, Any]]:
        """Return calls, tokens and cost in sum, by ``model``, ``agent``, ``user``, ``function`` or ``day``."""
        return call_listing.cost(self._database, by, since=since, scope=scope)

    def test(self, model: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Ask a model a few questions that it should answer (:mod:`functory.engine.agents.model_tests`)."""
        from functory.engine.agents import model_tests

        return model_tests.run(self, model)

    def sha256(self, request: Request) -> str:
        """Return the hash that the call of a request has: that of what is stored of it."""
        return hash_of(request, self._redact)


def hash_of(request: Request, redact: redaction.Redact) -> str:
    """Return the hash that the call of a request has: that of what is stored of it."""
    return _redacted(request, redact).sha256


def queue(
    tx: Tx,
    request: Request,
    caller: Caller,
    settings: Settings,
    redact: redaction.Redact,
    *,
    number: int,
    nth: int = 1,
) -> dict[str, Any]:
    """Queue a request in this transaction, or find the call that asks it already. Returns the row of the call."""
    fields = _redacted(request, redact)
    if caller.cause is not None and caller.agent is None:
        caller = _with_owner(tx, caller)
    if caller.execution_id is not None:
        known = tx.first(_OF_REQUEST, {"execution": caller.execution_id, "sha256": fields.sha256, "nth": nth})
        if known is not None:
            return known
    chosen = _fitting_model(tx, fields)
    max_tokens = fields.max_tokens or min(requests.USUAL_MAX_TOKENS, chosen["max_output"])
    if fields.kind == "embed":
        max_tokens = 0
    stored, parts = requests.split(fields)
    tx.insert_missing(
        llm_content,
        [
            {"root_id": caller.root_id, "sha256": key, "content": part, "created_at": tx.now}
            for key, part in sorted(parts.items())
        ],
    )
    meters.ensure(tx, caller.root_id, settings)
    row = new_row(tx, fields, caller, stored, max_tokens=max_tokens, number=number, nth=nth)
    row["stream"] = chosen["capabilities"]["stream"] and fields.kind == "chat"
    if not tx.insert_missing(llm_call, [row]):
        # Another attempt has asked meanwhile.
        known = tx.first(_OF_REQUEST, {"execution": caller.execution_id, "sha256": fields.sha256, "nth": nth})
        if known is not None:
            return known
        tx.insert(llm_call, [row])
    tx.wake("llm")
    return row


def new_row(
    tx: Tx,
    request: Request,
    caller: Caller,
    stored: Mapping[str, Any],
    *,
    max_tokens: int,
    number: int,
    nth: int,
) -> dict[str, Any]:
    """Return the row of a queued call."""
    return {
        "id": tx.new_id(),
        "root_id": caller.root_id,
        "execution_id": caller.execution_id,
        "function": caller.function,
        "fence": None if caller.cause is None else caller.cause.fence,
        "agent": caller.agent,
        "user_name": caller.user,
        "number": number,
        "request_sha256": request.sha256,
        "nth": nth,
        "kind": request.kind,
        "state": "queued",
        "model": request.model,
        "asked": request.model,
        "stream": False,
        "request": stored,
        "request_bytes": request.most_tokens(),
        "max_tokens": max_tokens,
        "response": None,
        "error": None,
        "finish_reason": None,
        "tries": 0,
        "model_tries": 0,
        "repair": None,
        "due_at": tx.now,
        "reserved": 0,
        "reserved_tokens": 0,
        "quotas": [],
        "cost": 0,
        "tokens_in": 0,
        "tokens_out": 0,
        "tokens_cached": 0,
        "estimated": False,
        "gateway": None,
        "lease_until": None,
        "created_at": tx.now,
        "sent_at": None,
        "ended_at": None,
    }


def cancel_queued(tx: Tx, which: sa.ColumnElement[bool]) -> int:
    """Cancel those calls of ``which`` that are not sent yet: they cost nothing. Returns their number."""
    found = tx.execute(
        sa.update(llm_call)
        .where(which, llm_call.c.state == "queued")
        .values(state="cancelled", ended_at=tx.now)
    )
    if found.rowcount:
        tx.wake("answers")
    return found.rowcount


def load_request(tx: Tx, row: Mapping[str, Any]) -> Request:
    """Return the request of a call whose archive's time is not over."""
    return load_requests(tx, [row])[0]


def load_requests(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> list[Request]:
    """Return the requests of calls, in order."""
    wanted = {(row["root_id"], key) for row in rows for key in _keys(row["request"])}
    roots, keys = {root for root, _ in wanted}, {key for _, key in wanted}
    statement = sa.select(llm_content).where(
        llm_content.c.root_id.in_(sorted(roots)), llm_content.c.sha256.in_(sorted(keys))
    )
    found = {(row["root_id"], row["sha256"]): row["content"] for row in tx.rows(statement)}
    return [
        requests.joined(row["request"], lambda key, root=row["root_id"]: found[root, key]) for row in rows
    ]


def _keys(stored: Mapping[str, Any]) -> list[str]:
    if stored["kind"] == "embed":
        return [stored["texts"]]
    return [*stored["messages"], *([stored["tools"]] if stored["tools"] else [])]


def answer(row: Mapping[str, Any], *, replayed: bool) -> dict[str, Any]:
    """Return what code gets of an ended call. Raises :class:`BudgetExceeded` for a refused one, and
    :class:`ModelFailed` for every other one without an answer.
    """
    if row["state"] == "succeeded":
        return {
            **(row["response"] or {}),
            "usage": {name: row[name] for name in ("tokens_in", "tokens_out", "tokens_cached")},
            "cost_usd": row["cost"] / money.NANO,
            "finish_reason": row["finish_reason"],
            "model": row["asked"],
            "call_id": row["id"],
            "replayed": replayed,
        }
    error = row["error"] or {}
    show = f"functory llm show {row['id']}"
    if row["state"] == "refused" and "limit" in error:
        raise BudgetExceeded(
            f"the call of model {row['model']} was refused: {error['limit']['limit']}",
            error["message"],
            f"functory budget show {row['root_id']}",
            limit=error["limit"],
        )
    if row["state"] == "unknown":
        raise ModelFailed(
            f"the answer of model {row['asked']} was lost",
            f"{error.get('message', '')}; it may have cost money and is not asked again by itself",
            show,
            state="unknown",
        )
    raise ModelFailed(
        f"model {row['asked']} gave no answer", error.get("message", row["state"]), show, state=row["state"]
    )


def _with_owner(tx: Tx, caller: Caller) -> Caller:
    """Return the caller with the agent and the user of the run that its execution is a step of, else of the run that
    its tree began with: their quotas count what code of the tree asks by itself.
    """
    rows = tx.rows(_OWNERS, {"root": caller.root_id, "execution": caller.execution_id})
    if not rows:
        return caller
    # The run of the step comes before that of the tree.
    row = next((one for one in rows if one["id"] != caller.root_id), rows[0])
    return replace(caller, agent=row["agent"], user=row["user_name"])


def _fitting_model(tx: Tx, request: Request) -> Mapping[str, Any]:
    """Return the model of a request. Raises :class:`Invalid` for one that is missing, disabled or cannot do it."""
    known = models.load_all(tx)
    name = request.model
    if name is None or name not in known:
        raise Invalid(
            f"there is no model {str(name)[:80]!r}",
            f"known are: {', '.join(sorted(known))}" if known else "no model is configured",
            "functory model list" if known else "functory model add NAME",
        )
    found, can = known[name], known[name]["capabilities"]
    if found["state"] != "enabled":
        raise Invalid(f"the model {name} is disabled", try_=f"functory model enable {name}")
    if request.kind == "embed" and can["dimensions"] is None:
        raise Invalid(
            f"the model {name} makes no embeddings",
            "its capability dimensions is not set",
            "functory model list",
        )
    if request.kind == "chat" and can["dimensions"] is not None:
        raise Invalid(f"the model {name} makes embeddings only", try_="functory model list")
    if request.tools and can["tools"] == "none":
        raise Invalid(f"the model {name} takes no tools", try_="functory model list")
    if request.schema is not None and can["schema"] == "none":
        raise Invalid(f"the model {name} takes no schema", try_="functory model list")
    sees = any(isinstance(message["content"], list) for message in request.messages)
    if sees and not can["vision"]:
        raise Invalid(f"the model {name} takes no pictures", try_="functory model list")
    if request.max_tokens is not None and request.max_tokens > found["max_output"]:
        raise Invalid(
            f"wrong max_tokens={request.max_tokens:,}",
            f"the model {name} answers with at most {found['max_output']:,}",
        )
    return found


def _redacted(request: Request, redact: redaction.Redact) -> Request:
    if request.kind == "embed":
        return replace(request, texts=redact(list(request.texts)))
    return replace(request, messages=redact(list(request.messages)))
