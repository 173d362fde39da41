"""What metrics show of proposals that wait for a person."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from functory.engine.database.schema import proposal
from functory.engine.maintenance import run_gauges
from functory.engine.releases.checks import Checks
from functory.engine.releases.proposals import Proposals
from functory.engine.telemetry.registry import registry
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


def count(name: str, **labels: str) -> float:
    return registry.get_sample_value(f"functory_{name}", {"kind": "proposal", **labels}) or 0.0


@pytest.mark.parametrize("outcome", ["approved", "rejected", "expired"])
def test_a_proposal_is_a_question_that_is_counted_with_its_outcome(
    make_world: Callable[..., World], outcome: str
) -> None:
    world = make_world()
    before = count("approvals_requested_total"), count("approvals_decided_total", outcome=outcome)
    timed = count("approval_decision_seconds_count")
    proposals = Proposals(world.database, world.functions)
    source = "def double(n: int) -> int:\n    return n * 2\n"
    id_ = proposals.create(source, tests=[{"input": {"n": 2}, "equals": 4}], author="ada")["id"]
    checks = Checks(world.database, "worker-1", 30)
    while (work := checks.claim()) is not None:
        checks.finish(work, "passed", {}, 0.1)
        proposals.settle(id_)
    with world.database.read() as tx:
        assert run_gauges.values(tx)["approvals_pending"]["proposal"] == 1
    if outcome == "expired":
        with world.database.write() as tx:
            tx.execute(sa.update(proposal).values(expires_at=tx.now))
        assert proposals.expire() == 1
    elif outcome == "approved":
        proposals.approve(id_, author="bob")
    else:
        proposals.reject(id_, feedback="no", author="bob")
    assert count("approvals_requested_total") == before[0] + 1
    assert count("approvals_decided_total", outcome=outcome) == before[1] + 1
    assert count("approval_decision_seconds_count") == timed + (outcome != "expired")
