"""Backtests as jobs over HTTP: progress, result, cancellation, and what a process that died leaves."""

from __future__ import annotations

import pytest

from functory.client.functory import Functory
from functory.roles import backtest_runner
from functory.roles.backtest_runner import BacktestRunner
from tests.support.api_client import ApiClient
from tests.support.waiting import wait_for
from tests.support.world import World, names

pytest_plugins = ["tests.support.world"]

PLACED = {"type": ["order.placed"]}
BIG = {"on": PLACED | {"data": {"amount": [{"numeric": [">", 10]}]}}, "function": "ship"}


@pytest.fixture
def api(engine: Functory) -> ApiClient:
    engine.functions.save("def ship(event):\n    return None\n")
    engine.save_trigger("all", on=PLACED, function="ship")
    engine.emit_many([{"type": "order.placed", "data": {"amount": amount}} for amount in (5, 15, 25)])
    engine.settle()
    return ApiClient(engine)


def test_a_backtest_of_a_draft_tells_what_would_differ(api: ApiClient) -> None:
    made = api.post("/backtests", {"trigger": "all", "draft": BIG, "since": "1h"}, status=201)
    done = wait_for(lambda: (found := api.get(f"/backtests/{made['id']}"))["state"] == "done" and found)
    assert (done["result"]["would_fire"], done["result"]["stored"]["would_fire"]) == (2, 3)
    assert done["result"]["difference"]["events"] == 1
    assert (done["total"], done["draft"], done["partial"]) == (3, BIG, None)
    (row,) = api.get("/backtests")["items"]
    assert (row["id"], row["author"], row["state"]) == (made["id"], "ada", "done")
    assert api.send("DELETE", f"/backtests/{made['id']}", status=409)


def test_the_same_request_makes_one_backtest(api: ApiClient) -> None:
    twice = [
        api.post("/backtests", {"trigger": "all"}, status=201, headers={"idempotency-key": "k"})["id"]
        for _ in range(2)
    ]
    assert twice[0] == twice[1]
    assert names(api.get("/backtests")["items"], "id") == twice[:1]


def test_what_cannot_be_tried_is_refused_at_once(api: ApiClient) -> None:
    api.post("/backtests", {"trigger": "nothing"}, status=404)
    api.post("/backtests", {"draft": {"on": {"type": 5}, "function": "ship"}}, status=400)
    api.post("/backtests", {"trigger": "all", "since": "yesterday"}, status=400)
    with api.as_("operator"):
        api.post("/backtests", {"trigger": "all"}, status=403)
    with api.as_("author", labels=["team:a"]):
        api.post("/backtests", {"trigger": "all"}, status=403)
    assert api.get("/backtests")["items"] == []


def prepared(world: World) -> tuple[dict, BacktestRunner]:
    world.function("ship")
    world.trigger("all", "ship", PLACED)
    for amount in range(3):
        world.events.emit("order.placed", {"amount": amount})
    world.route()
    runner = BacktestRunner(world.database, world.settings)
    since = world.clock.now().replace(year=2000)
    return runner._jobs.create("all", None, since, author="ada"), runner


def test_a_backtest_of_a_process_that_died_begins_again_when_its_lease_is_over(world: World) -> None:
    row, runner = prepared(world)
    jobs = runner._jobs
    claimed = jobs.claim()
    assert claimed is not None and claimed["id"] == row["id"]
    assert not runner.run_once()
    world.advance(61)
    other = jobs.claim()
    assert other is not None and other["id"] == row["id"]
    # The process that was thought dead has lost it.
    assert not jobs.advance(claimed, done=1)
    world.advance(61)
    assert runner.run_once()
    done = jobs.get(row["id"])
    assert (done["state"], done["result"]["would_fire"]) == ("done", 3)
    jobs.finish(claimed, problem="late")
    assert jobs.get(row["id"])["problem"] is None


def test_a_cancelled_backtest_stops_and_keeps_its_partial_result(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, runner = prepared(world)
    backtest, jobs = runner._history.backtest, runner._jobs
    calls: list[object] = []

    def cancel_at_the_second(*given: object, **named: object) -> object:
        calls.append(named["since"])
        if len(calls) == 2:
            jobs.cancel(row["id"], author="bob")
            named["progress"](2000)  # type: ignore[operator]
        return backtest(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(backtest_runner, "PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(runner._history, "backtest", cancel_at_the_second)
    assert runner.run_once()
    ended = jobs.get(row["id"])
    assert (ended["state"], ended["result"], ended["partial"]["result"]["would_fire"]) == (
        "cancelled",
        None,
        3,
    )
    # The newest part of the time came first.
    assert calls[0] > calls[1]
    assert not runner.run_once()


def test_a_backtest_that_cannot_be_done_says_why(world: World) -> None:
    row, runner = prepared(world)
    world.triggers.delete("all")
    assert runner.run_once()
    ended = runner._jobs.get(row["id"])
    assert (ended["state"], "not found" in ended["problem"]) == ("failed", True)
