"""Ids in paths and parameters: whole ones or short ones, of what exists and the caller may see."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from functory.api.access.rights import Caller, caller_of
from functory.api.engine import Engine
from functory.client.functory import Functory
from functory.engine.executions import event_listing, id_lookup, listing
from functory.engine.executions.id_lookup import Kind


def execution_id(id_: str, request: Request, engine: Engine) -> str:
    """The execution of the path. Raises :class:`functory.engine.errors.NotFound` for one that the caller's labels
    hide.
    """
    scope = caller_of(request).labels
    found = id_lookup.resolve(engine.database, id_, ["execution"], scope)
    listing.check_visible(engine.database, found, scope)
    return found


def event_id(id_: str, request: Request, engine: Engine) -> str:
    """The event of the path, like :func:`execution_id`."""
    scope = caller_of(request).labels
    found = id_lookup.resolve(engine.database, id_, ["event"], scope)
    event_listing.check_visible(engine.database, found, scope)
    return found


def tree_id(id_: str, request: Request, engine: Engine) -> str:
    """The execution or event of the path whose tree is asked for."""
    return id_lookup.resolve(engine.database, id_, ["execution", "event"], caller_of(request).labels)


def proposal_id(id_: str, request: Request, engine: Engine) -> str:
    """The proposal of the path, like :func:`execution_id`."""
    scope = caller_of(request).labels
    found = id_lookup.resolve(engine.database, id_, ["proposal"], scope)
    engine.proposals.check_visible(found, scope)
    return found


def whole(engine: Functory, caller: Caller, id_: str | None, *kinds: Kind) -> str | None:
    """The whole id of a parameter, which may be short; None without one."""
    return None if id_ is None else id_lookup.resolve(engine.database, id_, kinds, caller.labels)


ExecutionId = Annotated[str, Depends(execution_id)]
EventId = Annotated[str, Depends(event_id)]
TreeId = Annotated[str, Depends(tree_id)]
ProposalId = Annotated[str, Depends(proposal_id)]
