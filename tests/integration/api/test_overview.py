"""The overview over HTTP: its numbers are those of the rows, and no caller sees more than its labels."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from functory import step
from functory.api import overview
from functory.client.functory import Functory
from functory.engine.database.clock import ManualClock, SystemClock
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.engine.maintenance import tree_deletion
from functory.triggers.routing.router import Router
from tests.support.api_client import ApiClient
from tests.support.runs import RunsWorld
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

SOURCE = "def work(**named: object) -> None:\n    return None\n"


@pytest.fixture
def api(engine: Functory, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiClient]:
    # Each request is made anew.
    monkeypatch.setattr(overview, "AGE_SECONDS", 0.0)
    for name in ("work", "other"):
        engine.functions.save(SOURCE.replace("work", name))
    yield ApiClient(engine)


def run(engine: Functory, function: str = "work", outcome: str = "succeeded") -> None:
    worker = Attempts(engine.database, "worker", lease_seconds=30)
    (claim,) = worker.claim([engine.executions.start(function, {})["id"]])
    error = None if outcome == "succeeded" else {"type": "ValueError", "message": "no"}
    worker.finish(claim, AttemptResult(outcome, result=None, error=error))


def needs(api: ApiClient) -> dict[str, int]:
    return {row["kind"]: row["count"] for row in api.get("/overview")["needs_you"]}


def test_an_idle_engine_needs_nobody(api: ApiClient) -> None:
    found = api.get("/overview")
    assert (found["needs_you"], found["failing"], found["stopped"]) == ([], [], [])
    assert found["verification"] == {"checked_at": None, "ok": 0, "of": 0}
    assert found["workers"] == {"alive": 0, "slots": 0, "busy": 0, "tiers": {}}
    for name in ("succeeded", "failed", "queue_p95", "router_lag", "events"):
        assert len(found["series"][name]) == 60


def test_an_engine_is_new_until_something_has_happened(engine: Functory, monkeypatch) -> None:
    monkeypatch.setattr(overview, "AGE_SECONDS", 0.0)
    api = ApiClient(engine)
    assert api.get("/overview")["is_new"] is True
    engine.events.emit("order", {})
    assert api.get("/overview")["is_new"] is False


def test_an_engine_that_was_quiet_for_hours_or_whose_rows_were_pruned_is_not_new(
    api: ApiClient, engine: Functory, monkeypatch
) -> None:
    engine.events.emit("order", {})
    while Router(engine.database, engine.settings).route_batch().events:
        pass
    clock = ManualClock(SystemClock().now() + timedelta(hours=2))
    monkeypatch.setattr(engine.database, "clock", clock)
    found = api.get("/overview")
    assert (sum(found["series"]["events"]), found["is_new"]) == (0, False)
    with api.as_("viewer", labels=["team:none"]):
        assert api.get("/overview")["is_new"] is False
    month = timedelta(days=30)
    clock.advance(2 * month.total_seconds())
    assert list(tree_deletion.prune(engine.database, tree_deletion.RetentionLimits(trees=month)))
    assert api.get("/events")["items"] == []
    assert api.get("/overview")["is_new"] is False


def test_what_has_just_ended_is_in_the_numbers(api: ApiClient, engine: Functory, monkeypatch) -> None:
    from functory.engine.tallies import reader

    monkeypatch.setattr(reader, "LEAST_AGE_SECONDS", 0.0)
    monkeypatch.setattr(reader, "AGE_FOR_COST", 0.0)
    for outcome in ("succeeded", "succeeded", "failed"):
        run(engine, outcome=outcome)
    found = api.get("/overview")
    assert sum(found["series"]["succeeded"]) == 2
    assert sum(found["series"]["failed"]) == 1
    assert sum(found["series"]["events"]) > 3
    assert found["failing"] == [
        {"function": "work", "version": 1, "failures": 1, "runs": 3, "spark": [0] * 23 + [1]}
    ]
    (row,) = [row for row in found["needs_you"] if row["kind"] == "failed"]
    assert (row["count"], row["what"]) == (1, "execution has failed in 24 hours")
    assert row["link_path"].startswith("/executions?state=failed")
    assert found["bar"]["failed_1h"] == 1


def test_guards_that_stopped_something_are_shown_with_their_tree(api: ApiClient, engine: Functory) -> None:
    from functory.triggers import definition

    engine.triggers.save(
        "loop", definition.define(on={"type": ["order"]}, function="work", guards={"rate": 1})
    )
    roots = [engine.events.emit("order", {"n": n}) for n in range(3)]
    router = Router(engine.database, engine.settings)
    while router.route_batch().events:
        pass
    (row,) = api.get("/overview")["stopped"]
    assert (row["trigger"], row["reason"], row["count"]) == ("loop", "rate", 2)
    assert row["root_id"] in roots


def test_a_caller_with_labels_sees_the_numbers_of_its_functions_only(
    api: ApiClient, engine: Functory, monkeypatch
) -> None:
    from functory.engine.tallies import reader

    monkeypatch.setattr(reader, "LEAST_AGE_SECONDS", 0.0)
    engine.labels.function("other", add=["team:a"], author="ada")
    run(engine, "work", "failed")
    run(engine, "other")
    with api.as_("viewer", labels=["team:a"]):
        found = api.get("/overview")
        assert (sum(found["series"]["succeeded"]), sum(found["series"]["failed"])) == (1, 0)
        assert found["series"]["events"] is None and found["verification"] is None
        assert found["failing"] == [] and found["needs_you"] == []
    with api.as_("viewer", labels=["team:none"]):
        assert sum(api.get("/overview")["series"]["succeeded"]) == 0
    assert needs(api) == {"failed": 1}


def test_readers_of_one_second_share_one_overview(api: ApiClient, engine: Functory, monkeypatch) -> None:
    monkeypatch.setattr(overview, "AGE_SECONDS", 1000.0)
    made = []
    make = overview.Overviews._make
    monkeypatch.setattr(
        overview.Overviews, "_make", lambda self, *given: made.append(given) or make(self, *given)
    )
    assert api.get("/overview") == api.get("/overview")
    assert len(made) == 1
    with api.as_("viewer", labels=["team:a"]):
        api.get("/overview")
    assert len(made) == 2


def test_an_unknown_parameter_is_refused(api: ApiClient) -> None:
    assert "unknown parameter" in api.get("/overview", 400, since="1h")["title"]


def test_questions_of_runs_need_a_person_who_may_see_their_function(api: ApiClient, engine: Functory) -> None:
    plain = World(str(engine.settings.database), engine.settings.home, clock=SystemClock())
    runs = RunsWorld(plain)
    runs.start()
    runs.work(lambda memo, given: step.ask("which one?"))
    (row,) = api.get("/overview")["needs_you"]
    assert (row["kind"], row["count"], row["link_path"]) == ("questions", 1, "/approvals")
    with api.as_("viewer", labels=["team:other"]):
        assert needs(api) == {}
    (question,) = runs.runs.questions()
    runs.runs.answer(question["id"], "this one", author="ada")
    assert needs(api) == {}
    plain.close()
