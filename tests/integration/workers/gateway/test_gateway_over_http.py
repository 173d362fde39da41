"""A gateway and a provider that answers as a scenario says, over real HTTP; on SQLite and on PostgreSQL.

Each scenario says how often the provider is asked, and what the ledger and the meter have at the end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functory.engine.agents import calls
from functory.engine.errors import BudgetExceeded, Invalid, ModelFailed
from tests.support.model_server import ModelServer, Reply, answer, error, model_server, stream
from tests.support.models import KEY, ModelsWorld
from tests.support.waiting import wait_for

pytest_plugins = ["tests.support.world"]

ADD = {
    "name": "add",
    "description": "Add.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
# Of an answer with the usual usage of 10 and 5 tokens, at a dollar and two for a million: nano-dollars.
USUAL_COST = 20_000


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


@pytest.fixture
def world(database_url: str, tmp_path: Path, server: ModelServer) -> Iterator[ModelsWorld]:
    world = ModelsWorld(database_url, tmp_path / "home", server)
    yield world
    world.close()


def meter_agrees(world: ModelsWorld) -> None:
    """The meter is the sum of the ledger, and nothing is reserved (I18)."""
    rows = world.calls.list(root_id=world.root, limit=1000)
    tree = world.budgets.tree(world.root)
    assert tree["usd_spent"] == sum(row["cost"] for row in rows)
    assert tree["usd_reserved"] == tree["tokens_reserved"] == 0
    assert tree["calls"] == sum(row["tries"] for row in rows)
    (day,) = [row for row in world.budgets.quotas() if row["scope"] == "all"]
    assert (day["usd_spent"], day["usd_reserved"]) == (tree["usd_spent"], 0)


def outcome(row: dict[str, Any]) -> Any:
    return row["state"], (row["error"] or {}).get("message")


def test_an_answer_is_stored_with_its_cost(world: ModelsWorld, server: ModelServer) -> None:
    world.add_model()
    with world.gateway():
        row = world.answered("hello", temperature=0.5)
    assert (row["state"], row["cost"], row["tokens_in"], row["tokens_out"]) == (
        "succeeded",
        USUAL_COST,
        10,
        5,
    )
    got = calls.answer(row, replayed=False)
    assert (got["text"], got["tool_calls"], got["cost_usd"]) == ("ok", [], 2e-5)
    (asked,) = server.of("small")
    assert asked.path == "/v1/chat/completions"
    assert asked.body == {
        "model": "small",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 1024,
        "temperature": 0.5,
    }
    meter_agrees(world)


def test_the_key_is_sent_and_stored_nowhere(
    world: ModelsWorld, server: ModelServer, database_url: str
) -> None:
    world.secrets.set("PROVIDER_KEY", KEY)
    world.add_model(secret="PROVIDER_KEY")
    server.script("small", error(401, "invalid_api_key", f"Incorrect API key provided: {KEY}"))
    with world.gateway():
        row = world.answered()
    (asked,) = server.of("small")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert row["state"] == "failed" and "***" in row["error"]["message"]
    assert KEY not in str(world.calls.get(row["id"])) + str(world.models.list())


def test_a_key_that_is_not_stored_is_named(world: ModelsWorld, server: ModelServer) -> None:
    world.add_model(secret="MISSING_KEY")
    with world.gateway():
        row = world.answered()
    assert row["state"] == "failed" and "MISSING_KEY" in row["error"]["message"]
    assert server.asked == []


def test_tool_calls_are_read_also_those_that_are_wrong(world: ModelsWorld, server: ModelServer) -> None:
    world.add_model()
    given = [
        ("add", {"a": 1, "b": 2}),
        ("add", '{"a": 1, "b"'),
        ("add", "[1]"),
        ("unknown", ""),
        ("add", '{"a":"\t"}'),
    ]
    server.script("small", answer(None, calls=given))
    with world.gateway():
        got = calls.answer(world.answered("add", tools=[ADD]), replayed=False)
    assert [call["arguments"] for call in got["tool_calls"]] == [
        {"a": 1, "b": 2},
        '{"a": 1, "b"',
        "[1]",
        {},
        {"a": "\t"},
    ]
    assert ["problem" in call for call in got["tool_calls"]] == [False, True, True, False, False]
    (asked,) = server.of("small")
    assert asked.body["tools"] == [{"type": "function", "function": ADD}]


def test_a_conversation_with_tools_is_sent_in_the_providers_form(
    world: ModelsWorld, server: ModelServer
) -> None:
    world.add_model()
    messages = [
        {"role": "user", "content": "add"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "name": "add", "arguments": {"a": 1}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
    ]
    with world.gateway():
        world.answered(messages, tools=[ADD])
    (asked,) = server.of("small")
    assert asked.body["messages"][1]["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    ]
    assert asked.body["messages"][2] == {"role": "tool", "tool_call_id": "c1", "content": "2"}


def test_tools_by_json_for_a_model_without_a_form_for_them(world: ModelsWorld, server: ModelServer) -> None:
    world.add_model(capabilities={"tools": "json", "schema": "json"})
    server.script(
        "small", '```json\n{"tool": "add", "arguments": {"a": 1, "b": 2}}\n```', '{"answer": "it is 3"}'
    )
    with world.gateway():
        first = calls.answer(world.answered("add", tools=[ADD]), replayed=False)
        second = calls.answer(world.answered("add", tools=[ADD], number=2), replayed=False)
    assert [(one["name"], one["arguments"]) for one in first["tool_calls"]] == [("add", {"a": 1, "b": 2})]
    assert (second["text"], second["tool_calls"]) == ("it is 3", [])
    asked = server.of("small")[0]
    assert "tools" not in asked.body
    assert asked.body["response_format"]["type"] == "json_object"
    assert len(asked.body["response_format"]["schema"]["oneOf"]) == 2


@pytest.mark.parametrize("form", ["native", "json"])
def test_an_answer_that_does_not_fit_its_schema_is_repaired_once(
    world: ModelsWorld, server: ModelServer, form: str
) -> None:
    world.add_model(capabilities={"schema": form})
    server.script("small", '{"town": "Bern"}', '{"city": "Bern"}')
    with world.gateway():
        row = world.answered("where?", schema=CITY)
    assert calls.answer(row, replayed=False)["value"] == {"city": "Bern"}
    assert (row["tries"], row["cost"]) == (2, 2 * USUAL_COST)
    first, second = server.of("small")
    assert second.body["messages"][: len(first.body["messages"])] == first.body["messages"]
    assert '{"town": "Bern"}' in str(second.body["messages"][-2])
    assert "city" in second.last
    meter_agrees(world)


def test_a_model_that_never_answers_as_asked_is_asked_twice(world: ModelsWorld, server: ModelServer) -> None:
    world.add_model(capabilities={"schema": "json"})
    server.script("small", "sorry, no")
    with world.gateway():
        row = world.answered("where?", schema=CITY)
    assert row["state"] == "failed" and "not JSON" in row["error"]["message"]
    assert len(server.of("small")) == 2
    with pytest.raises(ModelFailed, match="not JSON"):
        calls.answer(row, replayed=False)
    meter_agrees(world)


RETRIED = {
    "500": error(500, "server_error"),
    "503": error(503, "overloaded"),
    "429": error(429, "rate_limit_exceeded", retry_after="0"),
    "408": error(408, "timeout"),
    "529": error(529, "overloaded"),
    "html": Reply(b"<html>gateway</html>", content_type="text/html"),
    "cut": Reply(answer(), cut=150),
    "reset": Reply(answer(), cut=0),
    "no choices": {"id": "x", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
    "not an object": Reply([1, 2]),
}


@pytest.mark.parametrize("first", RETRIED.values(), ids=list(RETRIED))
def test_what_may_pass_is_tried_again(world: ModelsWorld, server: ModelServer, first: Any) -> None:
    world.add_model()
    server.script("small", first, "ok")
    with world.gateway():
        row = world.answered()
    assert (row["state"], row["tries"]) == ("succeeded", 2)
    assert len(server.of("small")) == 2
    tried = world.calls.get(row["id"])["tried"]
    assert [one["problem"] is None for one in tried] == [False, True]
    meter_agrees(world)


FINAL = {
    "400": error(400, "bad_request"),
    "401": error(401, "invalid_api_key"),
    "403": error(403, "forbidden"),
    "404": error(404, "model_not_found"),
    "context": error(400, "context_length_exceeded", "too many tokens"),
    "policy": error(400, "content_policy_violation"),
    "quota": error(429, "insufficient_quota"),
    "redirect": Reply({}, 302, {"location": "http://127.0.0.1:1/"}),
}


@pytest.mark.parametrize("reply", FINAL.values(), ids=list(FINAL))
def test_what_cannot_pass_is_asked_once(world: ModelsWorld, server: ModelServer, reply: Reply) -> None:
    world.add_model()
    server.script("small", reply)
    with world.gateway():
        row = world.answered()
    assert (row["state"], row["tries"], row["cost"]) == ("failed", 1, 0)
    assert str(reply.status) in row["error"]["message"]
    assert len(server.asked) == 1
    meter_agrees(world)


def test_three_tries_and_no_more(world: ModelsWorld, server: ModelServer) -> None:
    world.add_model()
    server.script("small", error(500, "server_error", "it is on fire"))
    with world.gateway():
        row = world.answered()
    assert (row["state"], row["tries"]) == ("failed", 3)
    assert "it is on fire" in row["error"]["message"]
    assert len(server.asked) == 3


def test_a_fallback_is_asked_at_its_own_price(world: ModelsWorld, server: ModelServer) -> None:
    world.add_model("large", price_in=10, price_out=20)
    world.add_model("small", fallbacks=["large"])
    server.script("small", error(500, "server_error", retry_after="0"))
    with world.gateway():
        row = world.answered()
    assert (row["state"], row["model"], row["asked"], row["cost"]) == (
        "succeeded",
        "small",
        "large",
        10 * USUAL_COST,
    )
    assert (len(server.of("small")), len(server.of("large"))) == (3, 1)
    meter_agrees(world)


def test_an_answer_that_does_not_come_is_unknown_and_costs_its_reservation(
    world: ModelsWorld, server: ModelServer
) -> None:
    world.add_model(timeout=0.3)
    server.script("small", Reply(answer(), delay=1.0))
    with world.gateway():
        row = world.answered()
        assert row["state"] == "unknown" and row["cost"] > USUAL_COST
        with pytest.raises(ModelFailed, match="was lost") as lost:
            calls.answer(row, replayed=False)
        assert lost.value.state == "unknown"
        meter_agrees(world)
        time.sleep(1.0)
    assert len(server.asked) == 1, "it is never sent again by itself"


def test_an_answer_that_drips_ends_at_the_models_time(world: ModelsWorld, server: ModelServer) -> None:
    world.add_model(timeout=0.5, capabilities={"stream": True})
    server.script("small", stream(*["word "] * 100, delay=0.1))
    with world.gateway():
        row = world.answered()
    assert row["state"] == "unknown"


def test_an_answer_without_usage_is_counted_by_us(world: ModelsWorld, server: ModelServer) -> None:
    world.add_model()
    server.script("small", {**answer("four words of text"), "usage": None})
    with world.gateway():
        row = world.answered("a question of some length")
    assert row["estimated"] and row["tokens_in"] > 0 and row["tokens_out"] > 0 and row["cost"] > 0


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_an_answer_says_why_it_ended(world: ModelsWorld, server: ModelServer, finish: str) -> None:
    world.add_model()
    server.script("small", answer("half an ans", finish=finish))
    with world.gateway():
        assert calls.answer(world.answered(), replayed=False)["finish_reason"] == finish


def test_an_answer_of_fifty_megabytes_is_not_read(world: ModelsWorld, server: ModelServer) -> None:
    world.add_model()
    server.script("small", answer("x" * 50_000_000))
    with world.gateway():
        row = world.answered()
    assert row["state"] == "failed" and "longer than" in row["error"]["message"]
    assert row["cost"] > 0, "the provider has made it"
    meter_agrees(world)


def test_a_stream_is_put_together_and_seen_while_it_runs(world: ModelsWorld, server: ModelServer) -> None:
    world.add_model(capabilities={"stream": True})
    server.script("small", stream(*[f"{n} " for n in range(12)], delay=0.15))
    with world.gateway():
        row = world.ask()
        seen = wait_for(lambda: world.calls.get(row["id"])["partial"])
        assert seen.startswith("0 ")
        row = world.calls.wait(row["id"], 30)
    assert calls.answer(row, replayed=False)["text"] == "".join(f"{n} " for n in range(12))
    assert (row["tokens_in"], row["tokens_out"], row["estimated"]) == (10, 5, False)
    assert world.calls.get(row["id"])["partial"] is None
    (asked,) = server.asked
    assert asked.body["stream"] and asked.body["stream_options"] == {"include_usage": True}


def test_tool_calls_of_a_stream_are_put_together(world: ModelsWorld, server: ModelServer) -> None:
    world.add_model(capabilities={"stream": True})
    parts = [
        {"index": 0, "id": "c1", "function": {"name": "add", "arguments": '{"a"'}},
        {"index": 0, "function": {"arguments": ': 1, "b": 2}'}},
    ]
    reply = stream()
    lines = [{"choices": [{"index": 0, "delta": {"tool_calls": [part]}}]} for part in parts]
    import json

    reply.payload = [f"data: {json.dumps(line)}\n\n" for line in lines] + reply.payload
    server.script("small", reply)
    with world.gateway():
        got = calls.answer(world.answered("add", tools=[ADD]), replayed=False)
    assert got["tool_calls"] == [{"id": "c1", "name": "add", "arguments": {"a": 1, "b": 2}}]


def test_a_stream_that_is_cut_is_tried_again_and_both_tries_are_paid(
    world: ModelsWorld, server: ModelServer
) -> None:
    world.add_model(capabilities={"stream": True})
    server.script("small", stream("half", usage=False, end=False), stream("whole"))
    with world.gateway():
        row = world.answered()
    assert (row["state"], row["tries"]) == ("succeeded", 2)
    assert row["cost"] > USUAL_COST
    meter_agrees(world)


def test_embeddings_come_in_the_order_of_their_texts(world: ModelsWorld, server: ModelServer) -> None:
    from functory.engine.agents import requests
    from functory.engine.agents.calls import Caller

    world.add_model("embed", capabilities={"dimensions": 2})
    request = requests.embed({"texts": ["a", "bcd"], "model": "embed"})
    with world.gateway():
        row = world.calls.wait(world.calls.ask(request, Caller(world.root, "f"), number=1, nth=1)["id"], 30)
    assert row["state"] == "succeeded" and len(row["response"]["vectors"]) == 2
    assert row["tokens_in"] == 6
    server.script("embed", Reply({"data": [{"index": 0, "embedding": [1.0, 2.0, 3.0]}], "usage": {}}))
    request = requests.embed({"texts": ["another"], "model": "embed"})
    with world.gateway():
        row = world.calls.wait(world.calls.ask(request, Caller(world.root, "f"), number=2, nth=1)["id"], 30)
    assert row["state"] == "failed" and "3 numbers" in row["error"]["message"]


def test_what_would_exceed_a_limit_is_not_sent(world: ModelsWorld, server: ModelServer) -> None:
    world.add_model()
    with world.gateway():
        world.answered()
        spent = world.budgets.tree(world.root)["usd_spent"]
        world.budgets.raise_tree(world.root, {"usd": (spent + 100) / 1e9}, author="ada")
        row = world.answered(number=2)
    assert row["state"] == "refused" and len(server.asked) == 1
    with pytest.raises(BudgetExceeded) as refused:
        calls.answer(row, replayed=False)
    assert refused.value.limit["limit"] == "usd"
    assert "the tree may use $0.0000201" in str(refused.value)
    meter_agrees(world)


def test_zero_is_never_unlimited(world: ModelsWorld, server: ModelServer) -> None:
    world.add_model(price_in=0, price_out=0)
    with world.gateway():
        world.answered()
        for limit in ("calls", "tokens", "seconds"):
            world.budgets.raise_tree(world.root, {limit: 0}, author="ada")
            row = world.answered(number=len(server.asked) + 1, max_tokens=7)
            assert row["state"] == "refused", limit
            world.budgets.raise_tree(world.root, {limit: 10**6}, author="ada")
        world.budgets.set_quota("all", "", {"calls": 0}, author="ada")
        assert world.answered(number=9)["state"] == "refused"
    assert len(server.asked) == 1


def test_a_disabled_model_is_refused_when_it_is_asked_and_while_it_waits(
    world: ModelsWorld, server: ModelServer
) -> None:
    world.add_model()
    row = world.ask()
    world.models.set_state("small", "disabled", author="ada")
    with pytest.raises(Invalid, match="disabled"):
        world.ask(number=2)
    with world.gateway():
        row = world.calls.wait(row["id"], 30)
    assert outcome(row) == ("failed", "the model small is disabled") and server.asked == []


def test_a_breaker_opens_after_failures_and_one_call_closes_it(
    world: ModelsWorld, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from functory.engine.agents import model_admission

    monkeypatch.setattr(model_admission, "OPEN_SECONDS", 1.0)
    world.add_model()
    broken = [error(500, "server_error", retry_after="0")] * model_admission.FAILURES_TO_OPEN
    server.script("small", *broken, "ok")
    with world.gateway():
        assert world.answered()["state"] == "failed"
        row = world.ask(number=2)
        wait_for(lambda: world.models.get("small")["open_until"])
        assert len(server.asked) == model_admission.FAILURES_TO_OPEN
        assert world.calls.wait(row["id"], 30)["state"] == "succeeded"
    assert world.models.get("small")["open_until"] is None
    assert len(server.asked) == model_admission.FAILURES_TO_OPEN + 1


def test_a_rate_spaces_calls(world: ModelsWorld, server: ModelServer) -> None:
    world.add_model(calls_per_minute=60)
    rows = [world.ask(number=n) for n in range(1, 63)]
    with world.gateway():
        for row in rows:
            assert world.calls.wait(row["id"], 30)["state"] == "succeeded"
    times = sorted(one.at for one in server.asked)
    assert times[-1] - times[0] > 1.5, "sixty at once, then one a second"


def test_slots_hold_over_two_gateways(world: ModelsWorld, server: ModelServer) -> None:
    running, most = [0], [0]

    def reply(_asked: Any, _number: int) -> Reply:
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.05)
        running[0] -= 1
        return Reply(answer())

    world.add_model(slots=3)
    server.script("small", reply)
    rows = [world.ask(number=n) for n in range(1, 31)]
    with world.gateway(), world.gateway():
        for row in rows:
            assert world.calls.wait(row["id"], 30)["state"] == "succeeded"
    assert most[0] <= 3 and len(server.asked) == 30


def test_what_a_model_must_not_see_is_replaced(
    database_url: str, tmp_path: Path, server: ModelServer
) -> None:
    world = ModelsWorld(database_url, tmp_path, server, llm_redact=[r"\b\d{4}-\d{4}\b"])
    world.add_model()
    with world.gateway():
        row = world.answered("card 1234-5678 of ada")
    assert server.asked[0].last == "card *** of ada"
    assert "1234-5678" not in str(world.calls.get(row["id"]))
    world.close()
