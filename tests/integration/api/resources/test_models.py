"""Over HTTP: language models, their calls with the texts that only some may read, budgets of trees, and quotas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from functory.client.functory import Functory
from tests.support.api_client import ApiClient
from tests.support.model_calls import add_model, answered, ask, gateway_of
from tests.support.model_server import ModelServer, answer, error, model_server, stream
from tests.support.waiting import wait_for
from tests.support.world import names

pytest_plugins = ["tests.support.world"]

HIDDEN = {"redacted": "payload:read"}
KEY = "sk-test-0123456789abcdef"
# Of an answer with the usual usage of 10 and 5 tokens, at a dollar and two for a million.
USUAL_COST = 0.00002
FIELDS: dict[str, Any] = {
    "name": "small",
    "adapter": "openai",
    "provider_model": "gpt-small",
    "api_base": "https://models.example.com/v1/",
    "secret": "MODEL_KEY",
    "price_in": "0.15",
    "price_out": 0.6,
}


@pytest.fixture
def api(engine: Functory) -> ApiClient:
    return ApiClient(engine)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


def test_an_admin_adds_changes_disables_and_removes_a_model(api: ApiClient) -> None:
    made = api.send("POST", "/models", FIELDS, 201)
    assert (made["price_in"], made["price_out"], made["price_cached"]) == (0.15, 0.6, 0.15)
    assert (made["api_base"], made["author"], made["state"]) == (
        "https://models.example.com/v1",
        "ada",
        "enabled",
    )
    assert made["health"] == {"failures": 0, "open_until": None, "problem": None}
    assert (made["open_calls"], made["calls_today"], made["cost_today"]) == (0, 0, 0)
    api.send("POST", "/models", FIELDS, 409)
    changed = api.send("PATCH", "/models/small", {"price_in": 0.2, "capabilities": {"vision": True}})
    assert (changed["price_in"], changed["price_out"], changed["secret"]) == (0.2, 0.6, "MODEL_KEY")
    assert changed["capabilities"] == made["capabilities"] | {"vision": True}
    assert api.send("PATCH", "/models/small", {"secret": None})["secret"] is None
    assert api.post("/models/small:disable")["state"] == "disabled"
    assert api.post("/models/small:enable")["state"] == "enabled"
    assert names(api.get("/models")) == ["small"]
    api.send("DELETE", "/models/small", status=204)
    api.get("/models/small", status=404)
    entries = api.get("/audit", action="model.*")["items"]
    assert [(one["action"], one["author"]) for one in entries[::-1]] == [
        (f"model.{verb}", "ada") for verb in ("add", "set", "set", "disable", "enable", "remove")
    ]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"price_in": -1}, 400),
        ({"price_in": "1e999999999"}, 400),
        ({"price_in": "cheap"}, 400),
        ({"slots": 0}, 400),
        ({"fallbacks": ["missing"]}, 400),
        ({"api_base": "http://models.example.com/v1"}, 400),
        ({"capabilities": {"tools": "some"}}, 422),
        ({"key": KEY}, 422),
        ({}, 400),
    ],
)
def test_a_wrong_field_is_refused_and_changes_nothing(
    api: ApiClient, change: dict[str, Any], status: int
) -> None:
    before = api.send("POST", "/models", FIELDS, 201)
    api.send("PATCH", "/models/small", change, status)
    assert api.get("/models/small") == before


def test_only_admins_change_models_and_no_answer_has_a_key(api: ApiClient, engine: Functory) -> None:
    engine.secrets.set("MODEL_KEY", KEY, author="ada")
    api.send("POST", "/models", FIELDS, 201)
    changes = [
        ("POST", "/models", FIELDS | {"name": "other"}),
        ("PATCH", "/models/small", {"slots": 2}),
        ("POST", "/models/small:disable", None),
        ("POST", "/models/small:enable", None),
        ("DELETE", "/models/small", None),
        ("POST", "/quotas:set", {"scope": "all", "usd": 1}),
        ("POST", "/quotas:remove", {"scope": "all"}),
    ]
    with api.as_("author", rights=["approve"]):
        for method, path, body in changes:
            assert api.send(method, path, body, 403)["needs"] == "admin"
    with api.as_("viewer"):
        assert api.get("/models/small")["secret_set"] is True
        assert api.post("/models/small:test", status=403)["needs"] == "operate"
    # All pay for a model: none of it is of one team.
    with api.as_("admin", labels=["team:a"]):
        for path in ("/models", "/models/small", "/quotas"):
            assert api.get(path, status=403)["needs"] == "no labels"
        for method, path, body in changes:
            api.send(method, path, body, 403)
    for path in ("/models", "/models/small", "/quotas", "/audit", "/secrets", "/calls"):
        assert KEY not in api.answer("GET", path).text


def test_a_call_shows_its_texts_to_those_who_may_read_payloads(
    api: ApiClient, engine: Functory, server: ModelServer
) -> None:
    add_model(engine, "small", server.url)
    server.script("small", "a mango", error(400, "bad", "mango is wrong"))
    with gateway_of(engine):
        good = answered(engine, "which mango?")
        bad = answered(engine, "mango", number=2)
    found = api.get(f"/calls/{good['id']}")
    assert found["request"]["messages"] == [{"role": "user", "content": "which mango?"}]
    assert (found["response"]["text"], found["cost"], found["state"]) == ("a mango", USUAL_COST, "succeeded")
    assert [(one["model"], one["status"], one["cost"]) for one in found["tried"]] == [
        ("small", 200, USUAL_COST)
    ]
    failed = api.get(f"/calls/{bad['id']}")
    assert "mango is wrong" in failed["error"]["message"]
    with api.as_("operator"):
        shown = api.get(f"/calls/{good['id']}")
        assert (shown["request"], shown["response"], shown["cost"]) == (HIDDEN, HIDDEN, USUAL_COST)
        assert api.get(f"/calls/{bad['id']}")["error"]["message"] == HIDDEN
        for path in ("/calls", f"/calls/{good['id']}", f"/calls/{bad['id']}", "/models", "/models/small"):
            assert "mango" not in api.answer("GET", path).text
    with api.as_("viewer", rights=["payload:read"]):
        assert api.get(f"/calls/{good['id']}") == found
    assert api.get("/models/small")["calls_today"] == 2
    assert api.get("/models/small")["cost_today"] == USUAL_COST


def test_the_text_of_a_streaming_answer_is_there_before_its_end(
    api: ApiClient, engine: Functory, server: ModelServer
) -> None:
    add_model(engine, "small", server.url, capabilities={"stream": True})
    server.script("small", stream("one ", "two ", "three ", *["." for _ in range(40)], delay=0.1))
    with gateway_of(engine):
        row = ask(engine)
        path = f"/calls/{row['id']}"
        wait_for(lambda: (api.get(path)["partial"] or "").startswith("one two"))
        with api.as_("viewer"):
            assert api.get(path)["partial"] == HIDDEN
        assert engine.calls.wait(row["id"], 30)["state"] == "succeeded"
    assert api.get(path)["partial"] is None
    assert api.get(path)["response"]["text"].startswith("one two three ")


def test_calls_are_filtered_paged_and_seen_by_label(api: ApiClient, engine: Functory) -> None:
    engine.functions.save("def ours(x):\n    return x\n")
    engine.functions.save("def theirs(x):\n    return x\n")
    engine.labels.function("ours", ["team:a"], [], author="ada")
    add_model(engine, "small", "http://127.0.0.1:9/v1")
    add_model(engine, "large", "http://127.0.0.1:9/v1")
    execution = engine.executions.start("ours", {"x": 1})
    mine = ask(
        engine,
        function="ours",
        root=execution["root_id"],
        execution=execution["id"],
        agent="writer",
        user="eve",
    )
    others = [ask(engine, function="theirs", number=number, model="large") for number in (1, 2, 3)]
    newest_first = [row["id"] for row in [*others[::-1], mine]]
    first = api.get("/calls", limit=3)
    rest = api.get("/calls", limit=3, before=first["next"])
    assert names(first["items"] + rest["items"], "id") == newest_first
    assert rest["next"] is None
    chosen: list[dict[str, Any]] = [
        {"model": "small"},
        {"function": "ours"},
        {"agent": "writer"},
        {"user": "eve"},
        {"root": execution["id"]},
        {"execution": execution["id"]},
        {"model": "small", "state": "queued", "since": "1h"},
    ]
    for filters in chosen:
        assert names(api.get("/calls", **filters)["items"], "id") == [mine["id"]], filters
    empty: list[dict[str, Any]] = [
        {"state": "failed"},
        {"until": "1h"},
        {"model": "small", "function": "theirs"},
    ]
    for filters in empty:
        assert api.get("/calls", **filters)["items"] == []
    api.get("/calls", status=400, state="lost")
    api.get("/calls", status=400, colour="red")
    api.get("/calls", status=400, before=first["next"], model="large")
    with api.as_("author", labels=["team:a"]):
        assert names(api.get("/calls")["items"], "id") == [mine["id"]]
        assert api.get(f"/calls/{mine['id']}")["function"] == "ours"
        api.get(f"/calls/{others[0]['id']}", status=404)
        assert [row["of"] for row in api.get("/calls:cost", by="function")] == ["ours"]
        assert api.get(f"/budgets/{execution['id']}")["root_id"] == execution["root_id"]
        api.get(f"/budgets/{others[0]['root_id']}", status=404)


def test_costs_are_summed_by_model_agent_user_function_and_day(
    api: ApiClient, engine: Functory, server: ModelServer
) -> None:
    add_model(engine, "small", server.url)
    add_model(engine, "large", server.url, price_in=100)
    with gateway_of(engine):
        answered(engine, function="one", agent="writer", user="eve")
        answered(engine, function="two", model="large")
    large = 0.00101
    assert api.get("/calls:cost") == [
        {"of": "large", "calls": 1, "cost": large, "tokens_in": 10, "tokens_out": 5},
        {"of": "small", "calls": 1, "cost": USUAL_COST, "tokens_in": 10, "tokens_out": 5},
    ]
    for by, expected in (
        ("agent", [(None, large), ("writer", USUAL_COST)]),
        ("user", [(None, large), ("eve", USUAL_COST)]),
        ("function", [("two", large), ("one", USUAL_COST)]),
    ):
        assert [(row["of"], row["cost"]) for row in api.get("/calls:cost", by=by)] == expected
    (day,) = api.get("/calls:cost", by="day", since="1d")
    assert (day["of"], day["cost"]) == (f"{engine.database.clock.now():%Y-%m-%d}", large + USUAL_COST)
    api.get("/calls:cost", status=400, by="colour")


def test_the_budget_of_a_tree_is_raised_by_approvers(
    api: ApiClient, engine: Functory, server: ModelServer
) -> None:
    add_model(engine, "small", server.url)
    with gateway_of(engine):
        root = answered(engine)["root_id"]
    meter = api.get(f"/budgets/{root}")
    assert (meter["usd_spent"], meter["usd_reserved"], meter["calls"]) == (USUAL_COST, 0, 1)
    with api.as_("author"):
        assert api.get(f"/budgets/{root}") == meter
        assert api.post(f"/budgets/{root}:raise", {"usd": 9}, 403)["needs"] == "approve"
    with api.as_("operator", rights=["approve"], name="eve"):
        raised = api.post(f"/budgets/{root}:raise", {"usd": "9.50", "calls": 7, "tokens": None})
    assert (raised["usd_limit"], raised["calls_limit"]) == (9.5, 7)
    assert raised["tokens_limit"] == meter["tokens_limit"]
    assert raised["usd_spent"] == USUAL_COST
    for wrong in ({}, {"usd": -1}, {"usd": "1e99999999999"}, {"calls": 10**16}, {"seconds": -1}):
        api.post(f"/budgets/{root}:raise", wrong, 400)
    api.post(f"/budgets/{root}:raise", {"colour": 1}, 422)
    api.get(f"/budgets/{engine.calls.new_root()}", status=404)
    (entry,) = api.get("/audit", action="budget.change")["items"]
    assert (entry["author"], entry["subject"]) == ("eve", root)


def test_quotas_are_set_shown_with_their_use_and_removed(
    api: ApiClient, engine: Functory, server: ModelServer
) -> None:
    add_model(engine, "small", server.url)
    with gateway_of(engine):
        answered(engine, agent="writer")
    api.post("/quotas:set", {"scope": "agent", "name": "writer", "usd": 2, "calls": 10})
    found = {(row["scope"], row["name"]): row for row in api.get("/quotas")}
    writer = found["agent", "writer"]
    assert (writer["usd"], writer["usd_spent"], writer["tokens"]) == (2, USUAL_COST, None)
    assert (writer["calls"], writer["calls_limit"]) == (1, 10)
    assert found["all", ""]["usd_spent"] == USUAL_COST
    for wrong, status in (
        ({"scope": "all", "name": "x", "usd": 1}, 400),
        ({"scope": "agent", "usd": 1}, 400),
        ({"scope": "agent", "name": "x"}, 400),
        ({"scope": "agent", "name": "x", "usd": -1}, 400),
        ({"scope": "team", "name": "x", "usd": 1}, 422),
    ):
        api.post("/quotas:set", wrong, status)
    api.post("/quotas:remove", {"scope": "agent", "name": "writer"}, 204)
    api.post("/quotas:remove", {"scope": "agent", "name": "writer"}, 404)
    assert [one["action"] for one in api.get("/audit", action="quota.*")["items"]] == [
        "quota.remove",
        "quota.set",
    ]


def test_an_operator_tests_a_model(api: ApiClient, engine: Functory, server: ModelServer) -> None:
    add_model(engine, "small", server.url, slots=1)
    server.script(
        "small", "ready", answer(None, calls=[("add", {"a": 2, "b": 3})]), error(400, "bad", "no schema")
    )
    with api.as_("operator"):
        begun = api.post("/models/small:test", status=202)
        assert [one["test"] for one in begun["tests"]] == ["answer", "tool", "schema"]
        path = f"/models/small/tests/{begun['root_id']}"
        with gateway_of(engine):
            wait_for(lambda: api.get(path)["ended"])
        tests = api.get(path)["tests"]
    assert [(one["test"], one["answer"]) for one in tests] == [
        ("answer", "ready"),
        ("tool", "add(a=2, b=3)"),
        ("schema", None),
    ]
    assert [one["problem"] is None for one in tests] == [True, True, False]
    assert "no schema" in tests[2]["problem"]
    assert tests[0]["cost"] == USUAL_COST
    assert names(api.get("/calls")["items"], "id") == [one["call_id"] for one in tests[::-1]]


def test_the_tests_of_a_model_show_no_other_calls(api: ApiClient, engine: Functory) -> None:
    add_model(engine, "small", "http://127.0.0.1:9/v1")
    asked = ask(engine, "a payload")
    assert api.get(f"/models/small/tests/{asked['root_id']}")["tests"] == []
    api.post("/models/small:disable")
    api.post("/models/small:test", status=400)
    api.post("/models/missing:test", status=404)
