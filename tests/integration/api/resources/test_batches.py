"""Batches over HTTP: what a dry run promises, who may make one, and how it ends."""

from __future__ import annotations

import pytest

from functory.client.functory import Functory
from functory.engine.executions.batches import BatchRunner
from tests.support.api_client import ApiClient
from tests.support.waiting import wait_for

pytest_plugins = ["tests.support.world"]

# Takes any input, so that no worker is needed to save it.
SOURCE = "def work(**named: object) -> None:\n    return None\n"


@pytest.fixture
def api(engine: Functory) -> ApiClient:
    for name in ("work", "other"):
        engine.functions.save(SOURCE.replace("work", name))
    return ApiClient(engine)


def queued(engine: Functory, number: int, function: str = "work") -> list[str]:
    return [engine.executions.start(function, {"n": n})["id"] for n in range(number)]


def carry_out(engine: Functory) -> None:
    runner = BatchRunner(engine.database, engine.settings)
    while runner.run_once():
        pass


def states(api: ApiClient, ids: list[str]) -> set[str]:
    return {api.get(f"/executions/{id_}")["state"] for id_ in ids}


def test_a_dry_run_answers_what_the_batch_then_handles(api: ApiClient, engine: Functory) -> None:
    mine, others = queued(engine, 3), queued(engine, 1, "other")
    body = {"action": "cancel", "filter": {"function": ["work"]}, "reason": "wrong deploy"}
    dry = api.post("/batches", body | {"dry_run": True})
    assert (dry["dry_run"], dry["count"], dry["complete"]) == (True, 3, True)
    assert {row["id"] for row in dry["examples"]} == set(mine)
    assert api.post("/batches:count", body) == dry
    assert api.get("/batches")["items"] == []
    answer = api.answer("POST", "/batches", body)
    made = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/v1/batches/{made['id']}"
    assert (made["state"], made["total"], made["author"], made["limit"]) == ("waiting", 3, "ada", 1000)
    carry_out(engine)
    done = api.get(f"/batches/{made['id']}")
    assert (done["state"], done["done"], done["failed"]) == ("done", 3, 0)
    assert states(api, mine) == {"cancelled"} and states(api, others) == {"queued"}
    # What was cancelled can be retried by its ids, with the same input.
    again = api.post("/batches", {"action": "retry", "ids": mine}, 201)
    carry_out(engine)
    assert api.get(f"/batches/{again['id']}")["done"] == 3
    assert len(api.get("/executions", replay_of=mine[0])["items"]) == 1


def test_a_batch_that_was_stopped_stays_so_and_cannot_be_stopped_again(
    api: ApiClient, engine: Functory
) -> None:
    ids = queued(engine, 1)
    made = api.post("/batches", {"action": "cancel", "ids": ids}, 201)
    assert api.send("DELETE", f"/batches/{made['id']}")["state"] == "cancelled"
    api.send("DELETE", f"/batches/{made['id']}", status=409)
    carry_out(engine)
    assert states(api, ids) == {"queued"}


def test_the_same_key_makes_one_batch(api: ApiClient, engine: Functory) -> None:
    body = {"action": "cancel", "ids": queued(engine, 1)}
    first = api.post("/batches", body, 201, headers={"idempotency-key": "k1"})
    second = api.post("/batches", body, 201, headers={"idempotency-key": "k1"})
    assert first["id"] == second["id"]
    with api.as_(name="bob"):
        # Keys are of their caller.
        assert api.post("/batches", body, 201, headers={"idempotency-key": "k1"})["id"] != first["id"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"action": "delete", "filter": {}}, 422),
        ({"action": "retry"}, 400),
        ({"action": "retry", "filter": {}, "ids": ["x"]}, 400),
        ({"action": "retry", "filter": {"colour": "red"}}, 422),
        ({"action": "retry", "filter": {"state": ["broken"]}}, 400),
        ({"action": "retry", "filter": {"state": ["succeeded"]}}, 400),
        ({"action": "retry", "filter": {"since": "yesterday"}}, 400),
        ({"action": "retry", "filter": {}, "limit": 0}, 422),
        ({"action": "cancel", "ids": ["01998c5e-0000-7000-8000-000000000000"]}, 404),
        ({"action": "cancel", "filter": {}, "latest": True}, 400),
    ],
)
def test_a_wrong_batch_is_refused_with_what_is_wrong(api: ApiClient, body: dict, status: int) -> None:
    assert api.post("/batches", body, status)["title"]
    assert api.get("/batches")["items"] == []


def test_a_viewer_may_neither_make_nor_see_batches(api: ApiClient) -> None:
    with api.as_("viewer"):
        assert api.post("/batches", {"action": "cancel", "filter": {}}, 403)["needs"] == "operate"
        api.post("/batches:count", {"action": "cancel", "filter": {}}, 403)
        api.get("/batches", 403)


def test_a_caller_with_labels_handles_and_sees_only_its_own(api: ApiClient, engine: Functory) -> None:
    mine, others = queued(engine, 1), queued(engine, 1, "other")
    engine.labels.function("work", add=["team:a"], author="ada")
    foreign = api.post("/batches", {"action": "cancel", "ids": others}, 201)
    with api.as_("operator", labels=["team:a"], name="bob"):
        api.post("/batches", {"action": "cancel", "ids": others}, 404)
        made = api.post("/batches", {"action": "cancel", "filter": {}}, 201)
        assert [row["id"] for row in api.get("/batches")["items"]] == [made["id"]]
        api.get(f"/batches/{foreign['id']}", 404)
        api.send("DELETE", f"/batches/{foreign['id']}", status=404)
    api.send("DELETE", f"/batches/{foreign['id']}")
    carry_out(engine)
    assert states(api, mine) == {"cancelled"} and states(api, others) == {"queued"}


def test_a_search_in_payloads_needs_the_right_to_read_them(api: ApiClient) -> None:
    body = {"action": "cancel", "filter": {"q": "secret"}, "dry_run": True}
    api.post("/batches", body)
    with api.as_("operator"):
        assert api.post("/batches", body, 403)["needs"] == "payload:read"


def test_pages_of_batches_hold_each_batch_once(api: ApiClient, engine: Functory) -> None:
    ids = queued(engine, 1)
    made = [api.post("/batches", {"action": "cancel", "ids": ids}, 201)["id"] for _ in range(3)]
    first = api.get("/batches", limit=2)
    second = api.get("/batches", limit=2, before=first["next"])
    assert [row["id"] for row in first["items"] + second["items"]] == made[::-1]
    assert second["next"] is None


def test_a_running_engine_carries_batches_out_by_itself(api: ApiClient, engine: Functory) -> None:
    ids = queued(engine, 2)
    made = api.post("/batches", {"action": "cancel", "ids": ids}, 201)
    engine.start()
    # The scheduler's services.
    assert engine.health.keys() >= {"batches", "tallier"}
    wait_for(lambda: api.get(f"/batches/{made['id']}")["state"] == "done")
