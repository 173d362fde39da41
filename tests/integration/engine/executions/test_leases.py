"""Leases: who holds one keeps its attempt, and who has lost it can write nothing; on both databases."""

import pytest

from functory.engine.database import schema
from functory.engine.errors import Stale
from functory.engine.executions.leases import MAX_RELEASES
from functory.engine.maintenance import lost_workers
from tests.support.state_rules import LEASE, check

pytest_plugins = ["tests.support.world"]


@pytest.mark.parametrize("takeover", ["lost", "cancelled", "finished"])
def test_a_zombie_can_write_nothing(ready, takeover):
    row = ready.start()
    zombie = ready.claim(row)
    if takeover == "lost":
        ready.advance(LEASE + 1)
        assert lost_workers.reap(ready.database, cancel_grace=LEASE)["lost"] == 1
        ready.claim(row, ready.attempts("other"))
    elif takeover == "cancelled":
        ready.executions.cancel(row["id"])
        ready.advance(LEASE + 1)
        assert lost_workers.reap(ready.database, cancel_grace=LEASE)["cancelled"] == 1
    else:
        ready.finish(zombie, result="first")
    before = ready.executions.get(row["id"]), ready.types(), ready.rows(schema.state), ready.executions.list()
    assert ready.worker.heartbeat([(zombie.id, zombie.fence)]).lost == {(zombie.id, zombie.fence)}
    assert ready.worker.lease_status([(zombie.id, zombie.fence)]).lost == {(zombie.id, zombie.fence)}
    assert ready.worker.release([(zombie.id, zombie.fence)]) == 0
    writes = [
        lambda: ready.finish(zombie, result="zombie"),
        lambda: ready.events.emit("order.created", cause=zombie.cause),
        lambda: ready.state.set("work", "key", 1, cause=zombie.cause),
        lambda: ready.state.delete("work", "key", cause=zombie.cause),
        lambda: ready.executions.start("work", {}, parent=zombie.cause),
        lambda: ready.functions.update("work", metadata={"by": "zombie"}, cause=zombie.cause),
        lambda: ready.functions.activate("work", 1, cause=zombie.cause),
        lambda: ready.triggers.save("t", {"function": "work"}, cause=zombie.cause),
    ]
    for write in writes:
        with pytest.raises(Stale):
            write()
    assert (
        ready.executions.get(row["id"]),
        ready.types(),
        ready.rows(schema.state),
        ready.executions.list(),
    ) == before
    check(ready)


def test_a_worker_that_claims_its_own_lost_execution_again_keeps_the_new_attempt_alone(ready):
    row = ready.start()
    zombie = ready.claim(row)
    ready.advance(LEASE + 1)
    lost_workers.reap(ready.database, cancel_grace=LEASE)
    again = ready.claim(row)
    old, new = (zombie.id, zombie.fence), (again.id, again.fence)
    # Whichever of the two is named last: one is to be killed, and the other is not.
    for held in ([old, new], [new, old]):
        for pulse in (ready.worker.heartbeat(held), ready.worker.lease_status(held)):
            assert pulse.lost == {old}
    ready.executions.cancel(row["id"])
    assert ready.worker.heartbeat([old, new]).cancel_requested == {new}


def test_a_heartbeat_extends_the_lease(ready):
    claim = ready.claim(ready.start())
    for _ in range(5):
        ready.advance(LEASE - 1)
        pulse = ready.worker.heartbeat([(claim.id, claim.fence)])
        assert (pulse.lost, pulse.cancel_requested) == (set(), set())
        assert lost_workers.reap(ready.database, cancel_grace=LEASE)["lost"] == 0
    ready.finish(claim)
    check(ready)


def test_a_released_attempt_does_not_count_but_only_so_often(ready):
    row = ready.start()
    for _ in range(MAX_RELEASES):
        claim = ready.claim(row)
        assert ready.worker.release([(claim.id, claim.fence)]) == 1
    assert ready.executions.get(row["id"])["attempt"] == 0
    claim = ready.claim(row)
    assert ready.worker.release([(claim.id, claim.fence)]) == 0
    assert ready.executions.get(row["id"])["state"] == "running"
    check(ready)


def test_what_never_began_may_be_released_without_end(ready):
    row = ready.start()
    for _ in range(MAX_RELEASES + 5):
        claim = ready.claim(row)
        assert ready.worker.release([(claim.id, claim.fence)], started=False) == 1
    assert ready.executions.get(row["id"])["released"] == 0
    check(ready)
