"""``/proposals``: versions that must pass the gate before they become active. Their tests are payloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from functory.api import hidden_names
from functory.api.access.rights import Author, Caller, Decider, Viewer
from functory.api.engine import Engine
from functory.api.paging import Before, Limit, Page, StrictRoute, id_of, page
from functory.api.path_ids import ProposalId, whole
from functory.api.redaction import hide
from functory.client.functory import Functory
from functory.engine.releases.checks import RUN
from functory.rows.proposals import Feedback, NewProposal, Proposal, ProposalRow

router = APIRouter(prefix="/proposals", tags=["proposals"], route_class=StrictRoute)

Name = Annotated[str | None, Query(max_length=200)]


@router.get("", operation_id="proposals.list", response_model=Page[ProposalRow])
def list_(
    request: Request,
    engine: Engine,
    caller: Viewer,
    state: Annotated[str | None, Query(max_length=200, description="One of its states, or open.")] = None,
    function: Name = None,
    run: str | None = None,
    limit: Limit = 50,
    before: Before = None,
) -> dict[str, Any]:
    """List proposals, newest first, without tests and rules."""
    found = engine.proposals.list(
        state=state,
        function=function,
        run_id=whole(engine, caller, run, "execution"),
        before=id_of(before, request),
        limit=limit + 1,
        scope=caller.labels,
    )
    answer = page(found, limit, request)
    answer["items"] = _visible(engine, caller, answer["items"])
    return answer


@router.post("", operation_id="proposals.create", response_model=Proposal, status_code=201)
def create(
    body: NewProposal, request: Request, response: Response, engine: Engine, caller: Author
) -> dict[str, Any]:
    """Propose a version of a function. Its checks run on a worker: read it again until it is not ``checking``."""
    made = engine.proposals.create(
        body.source,
        name=body.name,
        tests=body.tests,
        description=body.description,
        replaces=body.replaces,
        author=caller.name,
        scope=caller.labels,
        **{name: value for name, value in body.declared().items() if name != "source"},
    )
    response.headers["location"] = f"{request.scope.get('root_path', '')}/api/v1/proposals/{made['id']}"
    return _shown(engine, caller, made)


@router.get("/{id_}", operation_id="proposals.get", response_model=Proposal)
def get(id_: ProposalId, engine: Engine, caller: Viewer) -> dict[str, Any]:
    """A proposal with its checks, what persons decided, its source, and the source that it would replace."""
    return _shown(engine, caller, engine.proposals.get(id_))


@router.post("/{id_}:approve", operation_id="proposals.approve", response_model=Proposal)
def approve(id_: ProposalId, engine: Engine, caller: Decider, body: Feedback | None = None) -> dict[str, Any]:
    """Approve a proposal: it becomes active, begins its canary, or waits for a second person. 409 for one that is
    decided, with who has decided and when.
    """
    return _shown(engine, caller, engine.proposals.approve(id_, feedback=_words(body), author=caller.name))


@router.post("/{id_}:reject", operation_id="proposals.reject", response_model=Proposal)
def reject(id_: ProposalId, engine: Engine, caller: Decider, body: Feedback | None = None) -> dict[str, Any]:
    """Reject a proposal. A run that waits for it gets the feedback. 409 as for ``:approve``."""
    return _shown(engine, caller, engine.proposals.reject(id_, feedback=_words(body), author=caller.name))


@router.post("/{id_}:withdraw", operation_id="proposals.withdraw", response_model=Proposal)
def withdraw(id_: ProposalId, engine: Engine, caller: Author) -> dict[str, Any]:
    """End a proposal that is not needed any more."""
    return _shown(engine, caller, engine.proposals.withdraw(id_, author=caller.name))


def _words(body: Feedback | None) -> str:
    return "" if body is None else body.feedback


def _shown(engine: Functory, caller: Caller, row: Mapping[str, Any]) -> dict[str, Any]:
    (found,) = _visible(engine, caller, [row])
    return hide(caller, found, "tests") | {
        "checks": [one | {"report": _report(caller, one)} for one in row["checks"]],
        "decisions": [hide(caller, one, "feedback") for one in row["decisions"]],
    }


def _report(caller: Caller, check: Mapping[str, Any]) -> dict[str, Any]:
    """The report of a check. What a test was given and has answered is a payload, and is quoted in problems."""
    report = check["report"]
    return hide(caller, report, "tests", "problem") if check["name"] in RUN else dict(report)


def _visible(engine: Functory, caller: Caller, rows: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows without the names of functions that the caller's labels hide."""
    seen = hidden_names.rights(engine, caller, [row["rights"] for row in rows])
    return [
        hide(caller, {**row, "rights": rights}, "reason", "description")
        for row, rights in zip(rows, seen, strict=True)
    ]
