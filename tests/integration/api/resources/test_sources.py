"""Sources over HTTP: every kind by the same routes, and the times of schedules."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from functory.client.functory import Functory
from functory.engine.database import schema
from tests.support.api_client import ApiClient
from tests.support.world import names

pytest_plugins = ["tests.support.world"]

HOOK = {"auth": {"type": "github", "secret": "HOOK"}}


@pytest.fixture
def api(engine: Functory) -> ApiClient:
    engine.functions.save("def report(event):\n    return event['data']['local_time']\n")
    return ApiClient(engine)


def nightly(api: ApiClient, **config: object) -> dict:
    body = {"config": {"cron": "30 2 * * *", "timezone": "Europe/Berlin"} | config, "function": "report"}
    return api.put("/sources/schedule/nightly", body, status=201)


def test_a_schedule_is_saved_with_its_trigger_by_its_author(api: ApiClient, engine: Functory) -> None:
    made = nightly(api)
    assert (made["author"], made["function"], made["trigger"]) == ("ada", "report", "schedule-nightly")
    assert engine.triggers.get("schedule-nightly")["author"] == "ada"
    assert (made["timezone"], made["missed"], made["version"]) == ("Europe/Berlin", 0, 1)
    (row,) = api.get("/sources/schedule")
    assert (row["name"], row["function"], row["next_at"] is not None) == ("nightly", "report", True)
    times = api.get("/sources/schedule/nightly/next")
    assert len(times) == 3
    assert times[0]["local_time"][11:16] == "02:30"
    body = {"config": {"cron": "0 3 * * *"}}
    stale = api.put("/sources/schedule/nightly", body, headers={"if-match": '"7"'}, status=412)
    assert stale["current"] == 1
    wrong = api.put("/sources/schedule/nightly", {"config": {"cron": "often"}}, status=400)
    assert "cron" in wrong["title"] + wrong["detail"]
    api.send("DELETE", "/sources/schedule/nightly", status=204)
    api.get("/sources/schedule/nightly", status=404)
    api.get("/triggers/schedule-nightly", status=404)


def test_times_of_a_schedule_are_shown_before_it_is_saved_also_where_clocks_change(
    api: ApiClient, engine: Functory
) -> None:
    config = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}
    found = api.post("/sources/schedule:preview", {"config": config, "count": 400})
    times = found["times"]
    assert [time["local_time"][11:16] for time in times[:3]] == ["02:30"] * 3
    # On the day without 02:30 it fires when the clocks have moved on; on the other one once.
    assert {time["local_time"][19:] for time in times} == {"+01:00", "+02:00"}
    assert len({time["local_time"][:10] for time in times}) == 400
    # Two a year, among the next 1,000 days, also when fewer times are shown.
    few = api.post("/sources/schedule:preview", {"config": config, "count": 3})
    assert (few["times"], few["after_changes"]) == (times[:3], found["after_changes"])
    assert len(few["after_changes"]) == 4 and few["after_changes"][0] in times
    for change in few["after_changes"]:
        before = datetime.fromisoformat(change["fire_time"]) - timedelta(days=2)
        assert before.astimezone(ZoneInfo("Europe/Berlin")).isoformat()[19:] != change["local_time"][19:]
    assert engine.schedules.list() == []
    # A person who still types gets no error.
    wrong = api.post("/sources/schedule:preview", {"config": {"cron": "often"}})
    assert wrong["times"] == wrong["after_changes"] == [] and "cron" in wrong["problem"]


def test_a_list_says_what_each_source_is_about(api: ApiClient, tmp_path: Path) -> None:
    api.put("/sources/file/inbox", {"config": {"path": str(tmp_path)}}, status=201)
    api.put(
        "/sources/webhook/shop",
        {"config": {"auth": {"type": "none", "allow_unauthenticated": True}}},
        status=201,
    )
    assert [row["about"] for row in api.get("/sources/file")] == [str(tmp_path)]
    assert [row["about"] for row in api.get("/sources/webhook")] == ["none"]


def test_the_lag_of_a_schedule_grows_while_no_scheduler_runs(api: ApiClient, engine: Functory) -> None:
    nightly(api)
    assert [row["lag_seconds"] for row in api.get("/sources/schedule")] == [0.0]
    now = engine.database.clock.now()
    with engine.database.write() as tx:
        tx.execute(sa.update(schema.schedule).values(next_at=now - timedelta(hours=2)))
    assert api.get("/sources/schedule/nightly")["lag_seconds"] >= 7200
    assert api.get("/sources/schedule")[0]["lag_seconds"] >= 7200
    api.post("/sources/schedule/nightly:pause", {"note": "away"})
    assert api.get("/sources/schedule/nightly")["lag_seconds"] is None


def test_the_lag_of_a_watch_begins_with_the_last_look_of_the_process_that_ran_it(
    api: ApiClient, engine: Functory, tmp_path: Path
) -> None:
    api.put("/sources/file/inbox", {"config": {"path": str(tmp_path)}}, status=201)
    assert api.get("/sources/file/inbox")["lag_seconds"] is None
    now = engine.database.clock.now()
    for lease, least in ((timedelta(minutes=1), 0.0), (-timedelta(minutes=1), 300.0)):
        values = {"looked_at": now - timedelta(minutes=5), "lease_until": now + lease}
        with engine.database.write() as tx:
            tx.execute(sa.update(schema.source).values(**values))
        assert least <= api.get("/sources/file/inbox")["lag_seconds"] < least + 60
        assert api.get("/sources/file")[0]["lag_seconds"] >= least


def test_a_backfill_lists_its_times_first_and_writes_each_once(api: ApiClient, engine: Functory) -> None:
    nightly(api)
    engine.sources.pause("schedule", "nightly")
    window = {"from": "2026-01-01T00:00", "until": "2026-01-03T00:00"}
    listed = api.post("/sources/schedule/nightly:backfill", window)
    assert (listed["dry_run"], names(listed["items"], "status")) == (True, ["to be fired"] * 2)
    assert api.get("/sources/schedule/nightly/ticks")["items"] == []
    done = api.post("/sources/schedule/nightly:backfill", window | {"dry_run": False})
    assert names(done["items"], "status") == ["fired"] * 2
    again = api.post("/sources/schedule/nightly:backfill", window | {"dry_run": False})
    assert names(again["items"], "status") == ["fired before"] * 2
    engine.settle()
    ticks = api.get("/sources/schedule/nightly/ticks")["items"]
    assert names(ticks, "origin") == ["backfill"] * 2
    assert [engine.executions.get(tick["execution_id"])["result"][11:16] for tick in ticks] == ["02:30"] * 2
    api.post("/sources/schedule/nightly:backfill", window | {"until": "never"}, status=400)


def test_a_schedule_is_fired_by_hand(api: ApiClient, engine: Functory) -> None:
    nightly(api)
    fired = api.post("/sources/schedule/nightly:trigger", {}, status=201)
    engine.settle()
    (tick,) = api.get("/sources/schedule/nightly/ticks")["items"]
    assert (tick["event_id"], tick["origin"], tick["reason"]) == (fired["event_id"], "manual", None)
    engine.triggers.pause("schedule-nightly")
    api.post("/sources/schedule/nightly:trigger", {}, status=201)
    engine.settle()
    skipped, _ = api.get("/sources/schedule/nightly/ticks")["items"]
    assert (skipped["reason"], skipped["execution_id"]) == ("trigger_paused", None)
    api.post("/sources/schedule/nightly:trigger", {"overlap": "whatever"}, status=400)


@pytest.mark.parametrize(
    ("path", "config"), [("webhook/github", HOOK), ("schedule/nightly", {"cron": "30 2 * * *"})]
)
def test_a_stored_rate_stays_until_another_one_or_none_is_saved(
    api: ApiClient, path: str, config: dict[str, object]
) -> None:
    def save(**more: object) -> object:
        made = api.answer("PUT", f"/sources/{path}", {"config": config | more}).json()
        return made["config"].get("max_per_minute")

    assert [save(max_per_minute=5), save(), save(max_per_minute=0), save()] == [5, 5, 0, 0]
    assert [save(max_per_minute=None), save()] == [None, None]
    save(max_per_minute=5)
    api.send("DELETE", f"/sources/{path}", status=204)
    assert save() is None, "a source of its own"


def test_other_kinds_are_saved_paused_and_resumed_by_the_same_routes(api: ApiClient) -> None:
    made = api.put("/sources/webhook/github", {"config": HOOK}, status=201)
    assert made["url"].endswith("/webhooks/github")
    assert api.put("/sources/webhook/github", {"config": HOOK})["created"] is False
    paused = api.post("/sources/webhook/github:pause", {"note": "moving"})
    assert (paused["state"], paused["note"]) == ("paused", "moving")
    assert api.post("/sources/webhook/github:resume")["state"] == "enabled"
    api.put("/sources/webhook/github", {"config": HOOK, "function": "report"}, status=400)
    api.put("/sources/webhook/gitlab", {"config": {"colour": "red"}}, status=400)
    assert names(api.get("/sources"), "kind") == ["webhook"]
    api.get("/sources/pigeon", status=404)
    kinds = {one["kind"]: one for one in api.get("/sources/kinds")}
    assert {"schedule", "webhook", "file"} <= set(kinds)
    assert "cron" in kinds["schedule"]["config_schema"]["properties"]


def test_sources_belong_to_the_whole_installation(api: ApiClient) -> None:
    nightly(api)
    with api.as_("author", labels=["team:a"]):
        api.get("/sources", status=403)
        api.put("/sources/webhook/github", {"config": HOOK}, status=403)
    with api.as_("viewer"):
        assert names(api.get("/sources")) == ["nightly"]
        api.put("/sources/webhook/github", {"config": HOOK}, status=403)
        api.post("/sources/schedule/nightly:trigger", {}, status=403)
    with api.as_("operator"):
        api.post("/sources/schedule/nightly:pause", {})
        api.send("DELETE", "/sources/schedule/nightly", status=403)
