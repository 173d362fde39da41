"""The map over HTTP: what starts what, around one thing, with its cycles."""

from __future__ import annotations

import pytest

from functory.client.functory import Functory
from tests.support.api_client import ApiClient
from tests.support.world import names

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def api(engine: Functory) -> ApiClient:
    emit = "from functory import emit\n"
    engine.functions.save(f"{emit}def ship(event):\n    emit('order.shipped', {{}})\n")
    engine.functions.save(f"{emit}def bill(event):\n    emit(event['data']['type'], {{}})\n")
    engine.functions.save("def tell(event):\n    return None\n")
    engine.save_trigger("placed", on={"type": ["order.placed"]}, function="ship")
    engine.save_trigger("shipped", on={"type": ["order.shipped"]}, function="bill")
    engine.save_trigger("failed", on={"type": ["execution.failed"], "subject": ["bill"]}, function="tell")
    return ApiClient(engine)


def edges(found: dict) -> set[tuple[str, str, bool]]:
    return {(one["from"], one["to"], one["certain"]) for one in found["edges"]}


def test_the_map_shows_what_starts_what_and_what_only_may(api: ApiClient) -> None:
    found = api.get("/map")
    assert edges(found) >= {
        ("event:order.placed", "trigger:placed", True),
        ("trigger:placed", "function:ship", True),
        ("function:ship", "event:order.shipped", True),
        ("event:order.shipped", "trigger:shipped", True),
        ("function:bill", "event:*", False),
        ("event:execution.failed@bill", "trigger:failed", True),
    }
    states = {one["id"]: one["state"] for one in found["nodes"]}
    assert (states["trigger:placed"], states["function:ship"]) == ("enabled", "enabled")
    assert (found["cycles"], found["truncated"]) == ([], False)


def test_the_neighbourhood_of_a_node_has_what_is_within_its_depth(api: ApiClient) -> None:
    near = api.get("/map", around="function:ship", depth=1)
    assert set(names(near["nodes"], "id")) == {"function:ship", "trigger:placed", "event:order.shipped"}
    wider = api.get("/map", around="function:ship", depth=3)
    assert "function:bill" in names(wider["nodes"], "id")
    assert "function:tell" not in names(wider["nodes"], "id")
    api.get("/map", around="function:nothing", status=404)
    api.get("/map", around="function:ship", depth=99, status=422)


def test_a_cycle_is_a_ring_of_nodes_and_sources_lead_to_their_triggers(
    api: ApiClient, engine: Functory
) -> None:
    source = "from functory import emit\ndef again(event):\n    emit('order.placed', {})\n"
    engine.functions.save(source)
    engine.save_trigger(
        "again", on={"type": ["order.shipped"]}, function="again", guards={"acknowledge_cycle": 1}
    )
    engine.schedules.save("nightly", cron="0 3 * * *", function="tell")
    found = api.get("/map")
    (cycle,) = found["cycles"]
    assert set(cycle["nodes"]) == {
        "trigger:placed", "function:ship", "event:order.shipped",
        "trigger:again", "function:again", "event:order.placed",
    }  # fmt: skip
    # Each trigger runs once; with another subject in each event only the length of the chain ends it.
    assert (cycle["same_subject"]["guard"], cycle["same_subject"]["executions"]) == ("cycle", 2)
    depth = engine.settings.max_depth
    stopped = cycle["other_subjects"]
    assert (stopped["guard"], stopped["limit"], stopped["executions"]) == ("depth", depth, depth)
    assert ("source:schedule/nightly", "event:schedule.due@nightly", True) in edges(found)
    assert ("event:schedule.due@nightly", "trigger:schedule-nightly", True) in edges(found)


def test_a_caller_with_labels_sees_only_its_part(api: ApiClient) -> None:
    api.post("/functions/ship:labels", {"add": ["team:a"]})
    api.post("/triggers/placed:labels", {"add": ["team:a"]})
    with api.as_("viewer", labels=["team:a"]):
        found = api.get("/map")
        assert {one["id"] for one in found["nodes"]} >= {"function:ship", "trigger:placed"}
        assert not {"function:bill", "trigger:shipped", "function:tell", "event:*"} & set(
            names(found["nodes"], "id")
        )
        api.get("/map", around="function:bill", status=404)


def test_a_map_that_is_too_large_is_cut_and_says_so(api: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from functory.triggers.analysis import trigger_map

    monkeypatch.setattr(trigger_map, "MAX_NODES", 3)
    found = api.get("/map", around="function:ship", depth=5)
    assert (len(found["nodes"]), found["truncated"]) == (3, True)
    assert "function:ship" in names(found["nodes"], "id")
