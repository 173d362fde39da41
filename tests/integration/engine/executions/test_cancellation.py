"""Cancellation of one execution: at once, by its worker, before a retry, and too late; on both databases."""

import pytest

from functory.engine.errors import Conflict
from tests.support.state_rules import check

pytest_plugins = ["tests.support.world"]


def test_a_queued_execution_is_cancelled_at_once(ready):
    row = ready.start()
    assert ready.executions.cancel(row["id"], author="ada")["state"] == "cancelled"
    assert ready.worker.claim([row["id"]]) == []
    with pytest.raises(Conflict, match="is cancelled"):
        ready.executions.cancel(row["id"])
    check(ready)


def test_a_running_execution_is_cancelled_by_its_worker(ready):
    row = ready.start()
    claim = ready.claim(row)
    assert ready.executions.cancel(row["id"])["state"] == "running"
    assert ready.worker.lease_status([(claim.id, claim.fence)]).cancel_requested == {(claim.id, claim.fence)}
    assert ready.worker.heartbeat([(claim.id, claim.fence)]).cancel_requested == {(claim.id, claim.fence)}
    assert ready.finish(claim, "cancelled").state == "cancelled"
    check(ready)


def test_a_cancel_that_comes_before_a_retry_ends_the_execution(ready):
    row = ready.start()
    claim = ready.claim(row)
    ready.executions.cancel(row["id"])
    assert ready.finish(claim, "failed").state == "cancelled"
    check(ready)


def test_a_cancel_that_comes_too_late_leaves_the_result(ready):
    row = ready.start()
    claim = ready.claim(row)
    ready.executions.cancel(row["id"])
    assert ready.finish(claim, result=1).state == "succeeded"
    check(ready)
