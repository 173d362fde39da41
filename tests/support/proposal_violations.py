"""Ways to break the invariants of proposals, I28 and I29, by hand."""

from __future__ import annotations

from collections.abc import Mapping

from functory.engine.database import schema as t
from functory.engine.releases.checks import Checks
from functory.engine.releases.proposals import Proposals
from tests.support.invariant_violations import breaks, change
from tests.support.world import World


def _proposal(world: World, *, checked: bool = True, approved: bool = False) -> str:
    """A proposal whose checks have passed, and perhaps that a person has approved."""
    proposals = Proposals(world.database, world.functions)
    source = "def proposed(n: int) -> int:\n    return n\n"
    id_ = proposals.create(source, tests=[{"input": {"n": 1}, "equals": 1}], author="ada")["id"]
    checks = Checks(world.database, "worker", 30)
    while checked and (work := checks.claim()) is not None:
        checks.finish(work, "passed", {}, 0.1)
    if checked:
        proposals.settle(id_)
    if approved:
        proposals.approve(id_, author="bob")
    return id_


@breaks("I28")
def _a_version_that_is_active_and_was_rejected(world: World, ids: Mapping[str, str]) -> None:
    _proposal(world, approved=True)
    change(world, t.proposal, t.proposal.c.state == "active", state="rejected")


@breaks("I29")
def _a_proposal_that_waits_for_no_person(world: World, ids: Mapping[str, str]) -> None:
    _proposal(world)
    change(world, t.approval, t.approval.c.kind == "proposal", state="withdrawn")


@breaks("I29")
def _a_proposal_that_has_ended_with_an_open_check(world: World, ids: Mapping[str, str]) -> None:
    _proposal(world, approved=True)
    change(world, t.gate_check, t.gate_check.c.name == "tests", state="pending")


@breaks("I29")
def _a_proposal_that_has_ended_at_no_time(world: World, ids: Mapping[str, str]) -> None:
    _proposal(world, approved=True)
    change(world, t.proposal, t.proposal.c.state == "active", ended_at=None)
