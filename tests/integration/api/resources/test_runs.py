"""Over HTTP: runs of agents are started, read, paused, resumed and cancelled; goals and results only some may read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from functory.client.functory import Functory
from functory.engine.agents.directives import KEY
from functory.engine.executions.runs import rows
from tests.support.api_client import ApiClient
from tests.support.runs import RunsWorld
from tests.support.world import names, world_beside

pytest_plugins = ["tests.support.world"]

HIDDEN = {"redacted": "payload:read"}
UNKNOWN = "01998c5e-0000-7000-8000-000000000000"
ASK = {KEY: {"do": "ask", "question": "which mango?", "choices": ["mango", "no mango"]}}


@pytest.fixture
def api(engine: Functory) -> ApiClient:
    return ApiClient(engine)


@pytest.fixture
def runs(engine: Functory) -> Iterator[RunsWorld]:
    """Runs in the engine's database, whose steps the test plays."""
    with world_beside(engine) as world:
        made = RunsWorld(world, limits={"usd": 1, "steps": 9})
        engine.labels.function("solve", ["team:a"], [], author="ada")
        world.function("theirs", "memo, given=None")
        engine.labels.function("theirs", ["team:b"], [], author="ada")
        made.agents.add("theirs", {"function": "theirs"}, author="ada")
        yield made


def solve(memo: Mapping[str, Any], given: Mapping[str, Any] | None) -> Any:
    """Asks a model, then a person."""
    if given is None:
        return {KEY: {"do": "model", "request": {"messages": "a mango"}, "memo": {**memo, "seen": "mango"}}}
    return ASK if given["kind"] == "model" else {"mango": given["answer"]}


def test_an_operator_starts_a_run_once_for_a_key(api: ApiClient, runs: RunsWorld) -> None:
    body = {"goal": "find it", "memo": {"n": 1}, "user": "eve", "limits": {"usd": "0.25", "steps": 3}}
    key = {"headers": {"idempotency-key": "only once"}}
    with api.as_("operator", name="olga", rights=["payload:read"]):
        answer = api.answer("POST", "/agents/solve/runs", body, **key)
        made = answer.json()
        assert (answer.status_code, answer.headers["location"]) == (201, f"/api/v1/runs/{made['id']}")
        assert (made["state"], made["author"], made["user_name"]) == ("running", "olga", "eve")
        assert (made["memo"], made["max_steps"]) == ({"n": 1, "goal": "find it"}, 3)
        assert (made["usd_limit"], made["spent"]["usd_limit"], made["usd_spent"]) == (0.25, 0.25, 0)
        assert api.post("/agents/solve/runs", body, 201, **key)["id"] == made["id"]
        assert "take another key" in api.post("/agents/theirs/runs", body, 409, **key)["try"]
        for wrong, status in (
            ({}, 422),
            ({"goal": ""}, 400),
            ({"goal": "x" * 40_000}, 400),
            ({"goal": "x", "limits": {"usd": "$1.50"}}, 400),
            ({"goal": "x", "limits": {"tokens": 10**9}}, 400),
            ({"goal": "x", "limits": {"colour": 1}}, 400),
            ({"goal": "x", "memo": {"text": "x" * 70_000}}, 400),
            ({"goal": "x", "colour": 1}, 422),
        ):
            api.post("/agents/solve/runs", wrong, status)
        api.post("/agents/missing/runs", body, 404)
        api.post("/agents/solve:disable", None, 403)
    api.post("/agents/solve:disable")
    assert "disabled" in api.post("/agents/solve/runs", body, 409)["title"]
    with api.as_("viewer", rights=["payload:read", "approve"]):
        assert api.post("/agents/solve/runs", body, 403)["needs"] == "operate"
    assert len(api.get("/runs")["items"]) == 1


def test_runs_are_filtered_paged_and_seen_by_label(api: ApiClient, runs: RunsWorld) -> None:
    mine = [runs.start(f"goal {number}") for number in range(3)]
    other = runs.runs.start("theirs", "a goal", author="ada")["id"]
    runs.runs.cancel(mine[0], author="ada")
    first = api.get("/runs", limit=3)
    rest = api.get("/runs", limit=3, before=first["next"])
    assert names(first["items"] + rest["items"], "id") == [other, *mine[::-1]]
    assert rest["next"] is None
    chosen: list[tuple[dict[str, Any], list[str]]] = [
        ({"agent": "theirs"}, [other]),
        ({"agent": "solve", "state": "open"}, mine[:0:-1]),
        ({"state": "cancelled"}, [mine[0]]),
        ({"root": mine[1]}, [mine[1]]),
        ({"since": "1h", "state": "cancelled"}, [mine[0]]),
        ({"until": "1h"}, []),
        ({"state": "succeeded"}, []),
    ]
    for filters, expected in chosen:
        assert names(api.get("/runs", **filters)["items"], "id") == expected, filters
    api.get("/runs", status=400, state="lost")
    api.get("/runs", status=400, colour="red")
    api.get("/runs", status=400, before=first["next"], agent="solve")
    with api.as_("operator", labels=["team:a"]):
        assert names(api.get("/runs")["items"], "id") == mine[::-1]
        assert api.get("/runs", agent="theirs")["items"] == []
        for path in ("", "/steps", "/cost"):
            api.get(f"/runs/{mine[1]}{path}")
            api.get(f"/runs/{other}{path}", status=404)
        for verb in ("pause", "resume", "cancel"):
            api.post(f"/runs/{other}:{verb}", status=404)
    for path in ("", "/steps", "/cost"):
        api.get(f"/runs/{UNKNOWN}{path}", status=404)
    assert runs.get(other)["state"] == "running"


def test_a_run_shows_its_texts_to_those_who_may_read_payloads(api: ApiClient, runs: RunsWorld) -> None:
    run = runs.start("a mango", memo={"fruit": "mango"})
    runs.work(solve)
    runs.answer("it is a mango")
    runs.work(solve)
    waits = api.get(f"/runs/{run}")
    assert (waits["state"], waits["goal"]) == ("waiting_person", "a mango")
    (question,) = waits["questions"]
    assert waits["waits"] == [{"kind": "approval", "target_id": question["id"]}]
    assert question["payload"] == {"question": "which mango?", "choices": ["mango", "no mango"]}
    runs.runs.answer(question["id"], "mango", author="ada")
    runs.work(solve)
    found = api.get(f"/runs/{run}")
    assert (found["state"], found["result"], found["memo"]["seen"]) == (
        "succeeded",
        {"mango": "mango"},
        "mango",
    )
    steps = api.get(f"/runs/{run}/steps")["items"]
    assert [one["kind"] for one in steps] == ["start", "model", "answer"]
    assert steps[0]["input"]["memo"]["fruit"] == "mango"
    assert steps[0]["result"][KEY]["do"] == "model"
    paths = (
        "/runs",
        f"/runs/{run}",
        f"/runs/{run}/steps",
        f"/runs/{run}/cost",
        "/approvals",
        f"/calls?root={run}",
    )
    with api.as_("operator"):
        for path in paths:
            assert "mango" not in api.answer("GET", path).text, path
        shown = api.get(f"/runs/{run}")
        assert {shown[name]["redacted"] for name in ("goal", "memo", "result")} == {"payload:read"}
        assert (shown["state"], shown["spent"]) == (found["state"], found["spent"])
    with api.as_("viewer", rights=["payload:read"]):
        assert api.get(f"/runs/{run}") == found


def test_the_reason_of_a_failure_is_a_payload(api: ApiClient, runs: RunsWorld) -> None:
    run = runs.start()
    runs.work(lambda memo, given: {KEY: {"do": "fail", "reason": "no mango"}})
    assert "no mango" in api.get(f"/runs/{run}")["detail"]["message"]
    with api.as_("viewer"):
        assert (api.get(f"/runs/{run}")["state"], api.get(f"/runs/{run}")["detail"]) == ("failed", HIDDEN)


def test_steps_are_paged_in_their_order_and_cost_what_their_calls_cost(
    api: ApiClient, runs: RunsWorld
) -> None:
    run = runs.start()
    runs.work(solve)
    runs.answer("an answer")
    runs.work(solve)
    usual = 0.00002
    first = api.get(f"/runs/{run}/steps", limit=1)
    rest = api.get(f"/runs/{run}/steps", limit=1, before=first["next"])
    assert names(first["items"] + rest["items"], "number") == [1, 2]
    assert [one["cost"] for one in first["items"] + rest["items"]] == [usual, 0]
    assert names(api.get(f"/runs/{run}/steps", from_step=2)["items"], "number") == [2]
    api.get(f"/runs/{run}/steps", status=422, from_step=0)
    cost = api.get(f"/runs/{run}/cost")
    assert cost["models"] == [{"model": "small", "calls": 1, "cost": usual, "tokens_in": 10, "tokens_out": 5}]
    assert (cost["tree"]["usd_spent"], cost["tree"]["usd_limit"], cost["tree"]["calls"]) == (usual, 1, 1)
    assert api.get("/runs")["items"][0]["usd_spent"] == usual


def test_an_operator_pauses_resumes_and_cancels_a_run(api: ApiClient, runs: RunsWorld) -> None:
    run = runs.start()
    with api.as_("viewer", rights=["payload:read", "approve"]):
        for verb in ("pause", "resume", "cancel"):
            assert api.post(f"/runs/{run}:{verb}", status=403)["needs"] == "operate"
    with api.as_("operator", name="olga"):
        api.post(f"/runs/{run}:resume", status=409)
        assert api.post(f"/runs/{run}:pause")["pause_requested_at"] is not None
        runs.work(lambda memo, given: {KEY: {"do": "again"}})
        assert api.get(f"/runs/{run}")["state"] == "paused"
        assert api.post(f"/runs/{run}:resume")["state"] == "running"
        done = api.post(f"/runs/{run}:cancel")
        assert (done["state"], done["waits"]) == ("cancelled", [])
        for verb in ("pause", "resume", "cancel"):
            assert api.post(f"/runs/{run}:{verb}", status=409)["detail"] == "it has ended"
            api.post(f"/runs/{UNKNOWN}:{verb}", status=404)
    entries = api.get("/audit", action="run.*")["items"]
    assert [(one["action"], one["author"], one["subject"]) for one in entries[::-1]] == [
        (f"run.{verb}", "olga", run) for verb in ("pause", "resume", "cancel")
    ]
    runs.check()


def test_state_reason_and_waits_of_a_run_are_of_one_moment(
    api: ApiClient, runs: RunsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs.start()
    runs.work(lambda memo, given: ASK)
    read = rows.waits_of
    ended: list[str] = []

    def end_then_read(tx: Any, id_: str) -> Any:
        # The run ends between two statements of the request.
        if not ended:
            ended.append(run)
            runs.runs.cancel(run, author="ada")
        return read(tx, id_)

    monkeypatch.setattr(rows, "waits_of", end_then_read)
    found = api.get(f"/runs/{run}")
    assert ended and runs.get(run)["state"] == "cancelled"
    assert (found["state"], len(found["waits"]), len(found["questions"])) == ("waiting_person", 1, 1)
