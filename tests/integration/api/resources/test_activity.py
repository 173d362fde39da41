"""What happens now, over HTTP: its numbers are those of the rows, and no caller sees more than its labels."""

from __future__ import annotations

import pytest

from functory.client.functory import Functory
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.claims import Claim
from functory.engine.executions.retry_or_dead import AttemptResult
from tests.support.api_client import ApiClient
from tests.support.waiting import wait_for
from tests.support.world import names

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def api(engine: Functory) -> ApiClient:
    for name in ("work", "other"):
        engine.functions.save(f"def {name}(**named: object) -> None:\n    return None\n")
        engine.labels.function(name, [f"team:{name}"], [], author="ada")
    return ApiClient(engine)


@pytest.fixture
def worker(engine: Functory) -> Attempts:
    return Attempts(engine.database, "worker-1", lease_seconds=30)


def begin(engine: Functory, worker: Attempts, function: str) -> Claim:
    (claim,) = worker.claim([engine.executions.start(function, {})["id"]])
    return claim


def test_what_runs_and_what_ended_is_shown_by_function(
    api: ApiClient, engine: Functory, worker: Attempts
) -> None:
    first, second = begin(engine, worker, "work"), begin(engine, worker, "work")
    for outcome in ("succeeded", "failed"):
        error = None if outcome == "succeeded" else {"type": "ValueError", "message": "no"}
        worker.finish(
            begin(engine, worker, "other"), AttemptResult(outcome, error=error, duration_seconds=0.2)
        )
    engine.executions.start("other", {})
    found = api.get("/activity")
    assert (found["minutes"], found["running"], found["queued"]) == (5, 2, 1)
    assert (found["runs"], found["failures"], found["workers"]) == (2, 1, 0)
    work, other = found["functions"]
    assert work == {
        "name": "work", "running": 2, "runs": 0, "failures": 0, "run_p95_seconds": None,
        "queued_p95_seconds": None,
    }  # fmt: skip
    assert (other["name"], other["running"], other["runs"], other["failures"]) == ("other", 0, 2, 1)
    assert other["run_p95_seconds"] > 0
    assert [row["id"] for row in found["executions"]] == [first.id, second.id], "the longest comes first"
    shown = found["executions"][0]
    assert (shown["function"], shown["version"], shown["attempt"], shown["worker_id"]) == (
        "work", 1, 1, "worker-1",
    )  # fmt: skip
    assert shown["started_at"] <= found["at"]


def test_the_time_of_a_later_attempt_begins_anew(api: ApiClient, engine: Functory, worker: Attempts) -> None:
    engine.functions.save("def flaky():\n    return 1\n", limits={"retries": 1, "retry_delay": 0.01})
    claim = begin(engine, worker, "flaky")
    before = api.get("/activity")["executions"][0]["started_at"]
    worker.finish(claim, AttemptResult("failed", error={"type": "ValueError", "message": "no"}))
    wait_for(lambda: worker.claim([claim.id]))
    (shown,) = api.get("/activity")["executions"]
    assert shown["attempt"] == 2 and shown["started_at"] > before


def test_no_more_rows_are_shown_than_asked_for(api: ApiClient, engine: Functory, worker: Attempts) -> None:
    for name in ("work", "work", "other"):
        begin(engine, worker, name)
    found = api.get("/activity", count=1, minutes=60)
    assert (found["running"], len(found["executions"]), names(found["functions"])) == (3, 1, ["work"])
    for wrong in ({"count": 0}, {"count": 101}, {"minutes": 0}, {"minutes": 61}):
        api.get("/activity", 422, **wrong)


def test_labels_hide_what_others_run(api: ApiClient, engine: Functory, worker: Attempts) -> None:
    begin(engine, worker, "work")
    worker.finish(begin(engine, worker, "other"), AttemptResult("succeeded"))
    begin(engine, worker, "other")
    with api.as_("viewer", labels=["team:work"]):
        found = api.get("/activity")
    assert (found["running"], found["runs"]) == (1, 0)
    assert names(found["functions"]) == ["work"]
    assert {row["function"] for row in found["executions"]} == {"work"}
