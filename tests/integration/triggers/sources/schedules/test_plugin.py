"""Schedules that are changed, paused, deleted and made again, and the triggers that come with them."""

from typing import Any

import pytest

from functory.engine.database import schema
from functory.engine.errors import Conflict, Invalid, NotFound
from tests.support.schedule_world import at, due_events, service, tick
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


def test_a_change_of_anything_but_the_times_keeps_what_is_due(world: World) -> None:
    mine = service(world)
    mine.save("s", every="10m", catch_up="all")
    world.advance(1250)
    assert mine.save("s", every="600s", catch_up="all", data=1)["created"] is True
    assert mine.save("s", every="600s", catch_up="all", data=1)["created"] is False
    assert tick(world) == [at("00:10"), at("00:20")]
    assert {event["data"]["data"] for event in due_events(world)} == {1}


def test_a_change_of_the_times_begins_with_the_present(world: World) -> None:
    mine = service(world)
    mine.save("s", every="10m", catch_up="all")
    world.advance(1250)
    mine.save("s", every="1m", catch_up="all")
    assert tick(world) == []
    world.advance(60)
    assert tick(world) == [at("00:21")]


def test_moments_fire_once_each_and_then_the_schedule_is_over(world: World) -> None:
    mine = service(world)
    mine.save("s", at=["2026-01-01T01:00", "2025-12-31T00:00", "2026-01-01T02:00"])
    world.advance(3600)
    assert tick(world) == [at("01:00")]
    world.advance(3600)
    assert tick(world) == [at("02:00")]
    row = mine.get("s")
    assert (row["state"], row["next_at"]) == ("enabled", None)
    assert world.ticker.run_once() is False and world.ticker.next_due() is None
    with pytest.raises(Invalid, match="is past"):
        mine.save("s", at="2026-01-01T01:00")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"at": "2025-12-31T23:59"}, "2025-12-31T23:59:00\\+00:00 is past"),
        ({"cron": "@daily", "end": "2025-12-01"}, "no time from now to its end"),
    ],
)
def test_a_schedule_that_would_never_fire_is_not_saved(
    world: World, config: dict[str, Any], said: str
) -> None:
    world.function("report")
    with pytest.raises(Invalid, match=said):
        service(world).save("s", function="report", **config)
    with pytest.raises(Invalid, match=said):
        world.sources.save("schedule", "s", config)
    assert world.sources.list() == [] and world.triggers.list() == []


@pytest.mark.parametrize("name", ["", "9am", "a b", "x" * 191, "é", "a\x00", None, 5])
def test_a_wrong_name_is_refused_before_anything_is_saved(world: World, name: Any) -> None:
    with pytest.raises(Invalid, match="is not a schedule name"):
        service(world).save(name, every="1h", function="report")
    assert world.triggers.list() == []


def test_a_changed_schedule_that_is_paused_stays_paused(world: World) -> None:
    mine = service(world)
    mine.save("s", every="10m")
    mine.pause("s")
    mine.save("s", every="5m")
    with pytest.raises(Invalid, match="is past"):
        mine.save("s", at="2025-01-01")
    world.advance(600)
    assert tick(world) == []
    mine.resume("s")
    world.advance(300)
    assert tick(world) == [at("00:15")]


def test_a_deleted_schedule_can_be_made_again_and_begins_anew(world: World) -> None:
    mine = service(world)
    mine.save("s", every="10m", catch_up="all")
    world.advance(600)
    tick(world)
    mine.delete("s")
    world.advance(600)
    assert tick(world) == []
    with pytest.raises(NotFound):
        mine.get("s")
    mine.save("s", every="10m", catch_up="all")
    world.advance(600)
    assert tick(world) == [at("00:30")]


def test_a_function_gets_a_trigger_that_comes_and_goes_with_the_schedule(world: World) -> None:
    world.function("report", "day")
    mine = service(world)
    saved = mine.save(
        "nightly", every="10m", function="report", input={"day": "{{ event.data.local_time }}"}, data={"n": 1}
    )
    assert saved["function"] == "report" and saved["trigger"]["name"] == "schedule-nightly"
    assert saved["trigger"]["definition"]["flow"] == {"overlap": "schedule"}
    assert "function" not in saved["config"] and mine.list()[0]["function"] == "report"
    world.advance(600)
    tick(world)
    assert ("schedule-nightly", None) in world.route()
    (execution,) = world.rows(schema.execution)
    assert execution["input"] == {"day": "2026-01-01T00:10:00+00:00"}
    assert mine.ticks("nightly")[0]["execution_id"] == execution["id"]
    # The same once more is nothing new; another input is, though the times are the same.
    same = {"every": "10m", "function": "report", "data": {"n": 1}}
    again = [mine.save("nightly", input={"day": day}, **same)["created"] for day in ("today", "today")]
    assert again == [True, False]
    # Saved without a function the trigger stays: only the times were changed.
    assert mine.save("nightly", every="20m")["function"] == "report"
    mine.delete("nightly")
    assert world.triggers.list() == []


def test_a_trigger_of_the_same_name_that_is_somebody_elses_is_left_alone(world: World) -> None:
    world.function("report")
    world.trigger("schedule-nightly", "report", {"type": ["order.created"]})
    mine = service(world)
    with pytest.raises(Conflict, match="another trigger is called"):
        mine.save("nightly", every="1h", function="report")
    assert mine.list() == []
    assert mine.save("nightly", every="1h")["function"] is None
    mine.delete("nightly")
    assert len(world.triggers.list()) == 1


def test_who_expects_another_version_changes_nothing(world: World) -> None:
    world.function("report")
    mine = service(world)
    mine.save("s", every="1h", expected_version=0)
    with pytest.raises(Conflict, match="you expected version 0, it is 1"):
        mine.save("s", every="2h", function="report", expected_version=0)
    assert world.triggers.list() == [] and mine.get("s")["version"] == 1
    with pytest.raises(Invalid, match="an input and no function"):
        mine.save("s", every="2h", input={})
