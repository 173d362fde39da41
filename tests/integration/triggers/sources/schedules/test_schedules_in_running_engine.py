"""Schedules in a running engine: what is due starts by itself, and a failure pauses what asks for it."""

from functory.client.functory import Functory
from tests.support.waiting import wait_for

pytest_plugins = ["tests.support.world"]


def test_what_is_due_runs_by_itself_and_a_failure_pauses_the_schedule(engine: Functory) -> None:
    engine.functions.save(
        "def work(event: dict) -> str:\n"
        "    if event['data']['data'] == 'fail':\n"
        "        raise ValueError('no')\n"
        "    return event['data']['fire_time']\n"
    )
    engine.start()
    engine.schedules.save("often", every="1s", function="work", pause_on_failure=True)
    wait_for(lambda: len(engine.executions.list(function="work", state="succeeded")) >= 2)
    done = {
        row["result"] for row in engine.executions.list(function="work", state="succeeded", payloads=True)
    }
    ticks = {tick["fire_time"].strftime("%Y-%m-%dT%H:%M:%SZ") for tick in engine.schedules.ticks("often")}
    assert done <= ticks and all(row["manual"] is False for row in _data(engine))
    engine.schedules.save("often", every="1s", data="fail", pause_on_failure=True)
    wait_for(lambda: engine.schedules.get("often")["state"] == "paused")
    failed = engine.executions.list(function="work", state="failed")
    assert engine.schedules.get("often")["note"] in {
        f"execution {row['id']} of work failed" for row in failed
    }


def _data(engine: Functory) -> list[dict]:
    return [row["data"] for row in engine.events.list(type_="schedule.due", payloads=True)]
