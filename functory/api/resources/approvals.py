"""``/approvals``: what runs of agents ask people, and what waits at the gate. A question is decided once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from functory.api import hidden_names
from functory.api.access.rights import Caller, Decider, Viewer, caller_of
from functory.api.engine import Engine
from functory.api.paging import Before, Limit, Page, StrictRoute, id_of, page
from functory.api.path_ids import whole
from functory.api.redaction import hide
from functory.client.functory import Functory
from functory.engine.errors import Invalid
from functory.engine.executions import id_lookup
from functory.engine.releases.decisions import KIND
from functory.rows.agents import Answer, Approve, Question, Reject

router = APIRouter(prefix="/approvals", tags=["approvals"], route_class=StrictRoute)

# Of the payload; the name of a tool, its version and its effect are none.
_HIDDEN = ("question", "choices", "arguments", "description")


def _question(id_: str, request: Request, engine: Engine) -> str:
    """The question of the path."""
    scope = caller_of(request).labels
    found = id_lookup.resolve(engine.database, id_, ["approval"], scope)
    if scope is not None:
        engine.runs.question(found, scope)
    return found


QuestionId = Annotated[str, Depends(_question)]
Word = Annotated[str | None, Query(max_length=40)]


@router.get("", operation_id="approvals.list", response_model=Page[Question])
def list_(
    request: Request,
    engine: Engine,
    caller: Viewer,
    state: Word = None,
    kind: Annotated[str | None, Query(max_length=40, description="ask, tool or proposal.")] = None,
    run: str | None = None,
    limit: Limit = 50,
    before: Before = None,
) -> dict[str, Any]:
    """List questions, newest first. Those that wait (``state=pending``) come oldest first."""
    rows = engine.runs.questions(
        state=state,
        kind=kind,
        run_id=whole(engine, caller, run, "execution"),
        behind=id_of(before, request),
        limit=limit + 1,
        scope=caller.labels,
    )
    answer = page(rows, limit, request)
    answer["items"] = _shown(engine, caller, answer["items"])
    return answer


@router.get("/{id_}", operation_id="approvals.get", response_model=Question)
def get(id_: QuestionId, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """A question, and how it was decided."""
    return _shown(engine, caller, [engine.runs.question(id_, caller.labels)])[0]


@router.post("/{id_}:approve", operation_id="approvals.approve", response_model=Question)
def approve(id_: QuestionId, engine: Engine, caller: Decider, body: Approve | None = None) -> dict[str, Any]:
    """Let a run use a tool, once, perhaps with other arguments; or approve a proposal. 409 with ``decided_by`` and
    ``decided_at`` when it is decided already.
    """
    wanted, asked = body or Approve(), engine.runs.question(id_, caller.labels)
    if asked["kind"] != KIND:
        engine.runs.approve(id_, arguments=wanted.arguments, always=wanted.always, author=caller.name)
    elif wanted.arguments is None and wanted.always is None:
        engine.proposals.approve(asked["proposal_id"], question_id=id_, author=caller.name)
    else:
        raise Invalid("a proposal has no arguments", "only calls of tools have some", "send neither of both")
    return get(id_, engine, caller)


@router.post("/{id_}:reject", operation_id="approvals.reject", response_model=Question)
def reject(id_: QuestionId, engine: Engine, caller: Decider, body: Reject | None = None) -> dict[str, Any]:
    """Refuse: the run goes on, and gets the feedback. A proposal ends."""
    words, asked = (body or Reject()).feedback, engine.runs.question(id_, caller.labels)
    if asked["kind"] == KIND:
        engine.proposals.reject(asked["proposal_id"], question_id=id_, feedback=words, author=caller.name)
    else:
        engine.runs.reject(id_, feedback=words, author=caller.name)
    return get(id_, engine, caller)


@router.post("/{id_}:answer", operation_id="approvals.answer", response_model=Question)
def answer(id_: QuestionId, body: Answer, engine: Engine, caller: Decider) -> dict[str, Any]:
    """Answer a question: its run goes on."""
    engine.runs.answer(id_, body.answer, feedback=body.feedback, author=caller.name)
    return get(id_, engine, caller)


def _shown(engine: Functory, caller: Caller, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Questions as a caller sees them, those about proposals without the names of functions that labels hide."""
    found = [shown_question(caller, row) for row in rows]
    proposed = [row["payload"] for row in found if row["kind"] == KIND]
    seen = hidden_names.rights(engine, caller, [one["rights"] for one in proposed])
    for payload, rights in zip(proposed, seen, strict=True):
        payload["rights"] = rights
    return found


def shown_question(caller: Caller, row: Mapping[str, Any]) -> dict[str, Any]:
    """A question as a caller sees it. The name of a tool and what it may do are no payloads."""
    shown = hide(caller, row, "goal", "answer", "feedback")
    return shown | {"payload": hide(caller, row["payload"], *_HIDDEN)}
