"""Triggers over HTTP: lists, saves under a precondition, previews of drafts, firings and manual firings."""

from __future__ import annotations

from typing import Any

import pytest

from functory.client.functory import Functory
from functory.explanations import trigger_flow
from tests.support.api_client import ApiClient
from tests.support.waiting import wait_for
from tests.support.world import names

pytest_plugins = ["tests.support.world"]

ORDERS = {"type": ["order.placed"], "data": {"amount": [{"numeric": [">", 10]}]}}


@pytest.fixture
def api(engine: Functory) -> ApiClient:
    engine.functions.save("def ship(event):\n    return event['data']['amount']\n")
    return ApiClient(engine)


def saved(api: ApiClient, name: str = "big", **fields: Any) -> dict[str, Any]:
    definition = {"on": ORDERS, "function": "ship"} | fields
    return api.put(f"/triggers/{name}", {"definition": definition}, status=201)


def orders(engine: Functory, *amounts: int) -> list[str]:
    found = [engine.emit("order.placed", {"amount": amount}, subject=f"o{amount}") for amount in amounts]
    engine.settle()
    return found


def test_a_save_makes_a_version_and_is_refused_on_an_old_one(api: ApiClient) -> None:
    made = saved(api)
    assert (made["version"], made["created"], made["author"], made["cycle"]) == (1, True, "ada", None)
    again = api.put("/triggers/big", {"definition": {"on": ORDERS, "function": "ship"}})
    assert again["created"] is False
    body = {"definition": {"on": {"type": ["order.placed"]}, "function": "ship"}}
    api.put("/triggers/big", body, headers={"if-match": '"1"'}, status=201)
    assert api.put("/triggers/big", body, headers={"if-match": '"1"'}, status=412)["current"] == 2
    page = api.get("/triggers/big/versions", limit=1)
    older = api.get("/triggers/big/versions", before=page["next"])
    assert [row["number"] for row in page["items"] + older["items"]] == [2, 1]


def test_a_list_shows_the_last_firing_and_filters_by_function_and_state(
    api: ApiClient, engine: Functory
) -> None:
    saved(api)
    saved(api, "small", on={"type": ["order.gone"]})
    orders(engine, 50)
    big, small = api.get("/triggers")["items"]
    assert (big["name"], big["function"], small["last_at"]) == ("big", "ship", None)
    assert big["last_at"].endswith("Z")
    # Recent rows are counted at most once a second.
    big = wait_for(lambda: (row := api.get("/triggers")["items"][0])["fired_24h"] and row)
    assert (big["fired_24h"], big["suppressed_24h"], sum(big["spark"])) == (1, 0, 1)
    assert "order.placed" in big["on"]
    api.post("/triggers/small:pause", {"note": "stocktaking"})
    assert names(api.get("/triggers", state="paused")["items"]) == ["small"]
    assert names(api.get("/triggers", function="ship")["items"]) == ["big", "small"]
    assert api.get("/triggers", function="nothing")["items"] == []
    first = api.get("/triggers", limit=1)
    assert names(api.get("/triggers", limit=1, before=first["next"])["items"]) == ["small"]


def test_firings_come_newest_first_with_their_execution_and_filter_by_reason(
    api: ApiClient, engine: Functory
) -> None:
    saved(api)
    first, second = orders(engine, 11, 12)
    api.post("/triggers/big:pause", {"note": "stop"})
    (third,) = orders(engine, 13)
    page = api.get("/triggers/big/firings", limit=2)
    assert [row["event_id"] for row in page["items"]] == [third, second]
    assert [row["event_id"] for row in api.get("/triggers/big/firings", before=page["next"])["items"]] == [
        first
    ]
    (stopped,) = api.get("/triggers/big/firings", decision="suppressed")["items"]
    assert (stopped["reason"], stopped["subject"], stopped["execution_id"]) == ("trigger_paused", "o13", None)
    fired = api.get("/triggers/big/firings", decision="fired")["items"]
    assert [row["execution_state"] for row in fired] == ["succeeded", "succeeded"]
    assert api.get("/triggers/big/firings", reason="budget") == {"items": [], "next": None}


def test_a_filter_of_firings_goes_on_where_a_page_ended(
    api: ApiClient, engine: Functory, monkeypatch: pytest.MonkeyPatch
) -> None:

    from functory.engine.firings import trigger_listing

    saved(api)
    api.post("/triggers/big:pause", {})
    (old,) = orders(engine, 11)
    api.post("/triggers/big:resume")
    orders(engine, 12, 13, 14)
    monkeypatch.setattr(trigger_listing, "LOOKED_AT", 2)
    found, before, pages = [], {}, 0
    while True:
        page = api.get("/triggers/big/firings", decision="suppressed", **before)
        found += [row["event_id"] for row in page["items"]]
        pages += 1
        if page["next"] is None:
            break
        before = {"before": page["next"]}
    assert found == [old]
    assert pages > 1


def test_a_preview_judges_the_newest_events_by_draft_and_stored_version(
    api: ApiClient, engine: Functory
) -> None:
    saved(api)
    orders(engine, 5, 20)
    engine.emit("other.kind", {"amount": 99})
    draft = {"on": {"type": ["order.placed"], "data": {"amount": [5]}}, "function": "ship"}
    found = api.post("/triggers:preview", {"draft": draft, "name": "big"})
    assert [
        (one["event"]["subject"], one["matched"], one["stored"]["matched"]) for one in found["events"]
    ] == [
        ("o20", False, True),
        ("o5", True, False),
    ]
    assert found["counts"] == {"matched": 1, "of": 2}
    assert found["stored"] == {"version": 1, "matched": 1, "of": 2, "added": 1, "removed": 1}
    wrong = found["events"][0]
    assert wrong["failed_clauses"] == 1
    assert [one["path"] for one in wrong["clauses"] if not one["matched"]] == ["data.amount"]
    assert wrong["recorded"]["decision"] == "fired"
    assert found["input"]["event_id"] == found["events"][1]["event"]["id"]
    assert found["input"]["input"]["event"]["data"] == {"amount": 5}
    assert found["problems"] == []
    assert api.get("/triggers/big")["version"] == 1


def test_a_preview_points_at_the_wrong_place_of_a_draft(api: ApiClient, engine: Functory) -> None:
    orders(engine, 5)
    draft = {"on": {"type": ["order.placed"], "data": {"amount": 5}}, "function": "ship", "when": "data.x <"}
    found = api.post("/triggers:preview", {"draft": draft})
    assert [(one["pointer"], one["certain"]) for one in found["problems"]] == [
        ("/on/data/amount", True),
        ("/when", True),
    ]
    assert found["events"] == []
    known = api.post("/triggers:preview", {"draft": {"on": {"type": ["order.placed"]}, "function": "shop"}})
    assert [one["pointer"] for one in known["problems"]] == ["/function"]
    assert "does not exist" in known["problems"][0]["what"]
    assert known["counts"] == {"matched": 1, "of": 1}
    assert "shop" in known["input"]["problem"]


def test_a_preview_shows_the_false_condition_and_the_cycle_that_a_draft_would_close(
    api: ApiClient, engine: Functory
) -> None:
    orders(engine, 5)
    engine.functions.save(
        "from functory import emit\ndef again(event):\n    emit('order.placed', {'amount': 1})\n"
    )
    engine.functions.save("from functory import emit\ndef back(event):\n    emit('order.again', {})\n")
    saved(api, "other", on={"type": ["order.again"]}, function="again")
    draft = {"on": {"type": ["order.placed"]}, "function": "back", "when": "data.amount > 7"}
    found = api.post("/triggers:preview", {"draft": draft, "name": "closes"})
    (one,) = found["events"]
    assert (one["matched"], one["failed_clauses"]) == (False, 1)
    assert one["clauses"][-1]["path"] == "when"
    assert [step["trigger"] for step in found["cycle"]["steps"]] == ["closes", "other"]
    assert [guard["trigger"] for guard in found["cycle"]["guards"]] == ["closes", "other"]
    assert [one["pointer"] for one in found["problems"] if "cycle" in one["what"]] == ["/guards"]
    # The save refuses what the preview has shown.
    assert "cycle" in api.put("/triggers/closes", {"definition": draft}, status=409)["title"]


def test_a_test_says_what_an_event_would_decide_and_starts_nothing(api: ApiClient, engine: Functory) -> None:
    saved(api)
    (id_,) = orders(engine, 5)
    found = api.post("/triggers/big:test", {"event": id_})
    assert (found["fires"], found["input"]) == (False, None)
    made = api.post("/triggers/big:test", {"event": {"type": "order.placed", "data": {"amount": 11}}})
    assert (made["fires"], made["input"]["event"]["data"]["amount"]) == (True, 11)
    assert engine.executions.list() == []
    api.post("/triggers/big:test", {"event": "nothing"}, status=404)


def test_a_manual_firing_starts_one_execution_for_an_event_that_was_not_fired_for(
    api: ApiClient, engine: Functory
) -> None:
    (early, small) = orders(engine, 30, 3)
    saved(api)
    (fired,) = orders(engine, 40)
    dry = api.post("/triggers/big:fire", {"event": early, "dry_run": True})
    assert (dry["decision"]["fires"], dry["execution_id"]) == (True, None)
    made = api.post("/triggers/big:fire", {"event": early}, status=201)
    engine.settle()
    row = engine.executions.get(made["execution_id"])
    assert (row["state"], row["result"], row["root_id"], row["depth"]) == ("succeeded", 30, early, 1)
    assert "already" in api.post("/triggers/big:fire", {"event": early}, status=409)["title"]
    assert "has fired" in api.post("/triggers/big:fire", {"event": fired}, status=409)["title"]
    assert "does not fire" in api.post("/triggers/big:fire", {"event": small}, status=409)["title"]
    api.post("/triggers/big:pause", {})
    (stopped,) = orders(engine, 50)
    api.post("/triggers/big:fire", {"event": stopped}, status=201)
    (counted,) = [row for row in engine.suppressions.list() if row["reason"] == "trigger_paused"]
    assert (counted["count"], counted["resumed"]) == (1, 1)


def test_states_change_with_their_note(api: ApiClient) -> None:
    api.put("/triggers/big", {"definition": {"on": ORDERS, "function": "ship"}, "shadow": True}, status=201)
    assert api.post("/triggers/big:resume", status=409)["status"] == 409
    assert api.post("/triggers/big:promote")["state"] == "enabled"
    paused = api.post("/triggers/big:pause", {"note": "stocktaking"})
    assert (paused["state"], paused["note"]) == ("paused", "stocktaking")
    assert api.post("/triggers/big:resume")["state"] == "enabled"
    api.send("DELETE", "/triggers/big", status=204)
    api.get("/triggers/big", status=404)


def test_what_waits_in_the_flow_control_is_shown_by_key(api: ApiClient, engine: Functory) -> None:
    saved(api, flow={"debounce": {"period": "1h", "key": "data.amount"}})
    engine.emit("order.placed", {"amount": 77})
    engine.emit("order.placed", {"amount": 78})
    wait_for(lambda: api.get("/triggers/big/flow")["matches"] == 2)
    found = api.get("/triggers/big/flow")
    assert sorted(row["key"] for row in found["buffers"]["rows"]) == ["77", "78"]
    assert (found["matches"], found["flow"]["debounce"]["period"]) == (2, "1h")
    assert api.get("/triggers/big/flow", key="77")["buffers"]["count"] == 1
    assert found["advice"].startswith("nothing is stuck; the next decision is in")
    with api.as_("viewer"):
        hidden = api.get("/triggers/big/flow")
        assert [row["key"] for row in hidden["buffers"]["rows"]] == [{"redacted": "payload:read"}] * 2


def test_the_advice_about_the_flow_control_names_no_key_to_a_caller_without_payloads(
    api: ApiClient, engine: Functory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trigger_flow, "OVERDUE_SECONDS", -3600.0)
    saved(api, flow={"debounce": {"period": "30m", "key": "data.amount"}})
    engine.emit("order.placed", {"amount": 77})
    wait_for(lambda: api.get("/triggers/big/flow")["matches"] == 1)
    assert "key 77 was due" in api.get("/triggers/big/flow")["advice"]
    with api.as_("viewer"):
        assert "key (hidden) was due" in api.get("/triggers/big/flow")["advice"]
    api.post("/triggers/big:pause", {})
    said = "it is paused, with 1 match waiting: functory trigger resume big"
    assert api.get("/triggers/big/flow")["advice"] == said


def test_a_caller_without_payloads_sees_no_values_of_events(api: ApiClient, engine: Functory) -> None:
    saved(api)
    (id_,) = orders(engine, 5)
    hidden = {"redacted": "payload:read"}
    with api.as_("operator"):
        found = api.post("/triggers/big:test", {"event": id_})
        assert all(one["found"] == hidden for one in found["clauses"])
        with api.as_("viewer"):
            api.post("/triggers/big:test", {"event": id_}, status=403)
            api.post("/triggers/big:fire", {"event": id_}, status=403)
            api.post("/triggers:preview", {"draft": {}}, status=403)
    orders(engine, 20)
    with api.as_("viewer"):
        (row,) = api.get("/triggers/big/firings")["items"]
        assert row["subject"] == hidden


def test_a_caller_with_labels_neither_sees_nor_changes_other_triggers(
    api: ApiClient, engine: Functory
) -> None:
    saved(api, "mine")
    saved(api, "theirs")
    api.post("/triggers/mine:labels", {"add": ["team:a"]})
    (id_,) = orders(engine, 20)
    with api.as_("author", labels=["team:a"]):
        assert names(api.get("/triggers")["items"]) == ["mine"]
        for path in ("", "/versions", "/firings", "/flow"):
            api.get(f"/triggers/theirs{path}", status=404)
        for action, body in (
            ("pause", {}),
            ("resume", None),
            ("test", {"event": id_}),
            ("fire", {"event": id_}),
        ):
            api.post(f"/triggers/theirs:{action}", body, status=404)
        api.put("/triggers/theirs", {"definition": {"on": ORDERS, "function": "ship"}}, status=403)
        api.send("DELETE", "/triggers/theirs", status=404)
        # A trigger would start a function that its author does not see.
        api.put("/triggers/new", {"definition": {"on": ORDERS, "function": "ship"}}, status=404)
        # Its events are those of its own functions.
        assert api.post("/triggers:preview", {"draft": {"on": ORDERS, "function": "ship"}})["events"] == []
    api.post("/functions/ship:labels", {"add": ["team:a"]})
    with api.as_("author", labels=["team:a"]):
        assert saved(api, "new")["labels"] == ["team:a"]
        assert (
            len(api.post("/triggers:preview", {"draft": {"on": ORDERS, "function": "ship"}})["events"]) == 1
        )
