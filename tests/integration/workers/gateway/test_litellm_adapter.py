"""The adapter ``litellm``: the same provider as in the tests of the adapter ``openai``, through the library."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from functory.engine import extras
from functory.engine.agents import calls, model_fields, requests
from functory.engine.agents.call_outcomes import Answer, Failure, Outcome
from functory.workers.gateway.adapter import Ask
from functory.workers.gateway.litellm_adapter import LitellmAdapter
from tests.support.model_server import ModelServer, Reply, answer, error, model_server
from tests.support.models import KEY, ModelsWorld, check_meter

pytest_plugins = ["tests.support.world"]

ADD = {
    "name": "add",
    "description": "Add.",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

Send = Callable[..., Outcome]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    # The library keeps its clients by event loop.
    loop = asyncio.new_event_loop()
    yield loop
    rest = asyncio.all_tasks(loop)
    for task in rest:
        task.cancel()
    if rest:
        loop.run_until_complete(asyncio.wait(rest))
    loop.close()


@pytest.fixture(scope="module")
def adapter() -> LitellmAdapter:
    return LitellmAdapter()


@pytest.fixture
def send(
    server: ModelServer,
    loop: asyncio.AbstractEventLoop,
    adapter: LitellmAdapter,
    request: pytest.FixtureRequest,
) -> Send:
    """Send one request to a model of its own, which gives these replies. ``fields`` are the model's."""
    name = request.node.name.replace("[", "-").replace("]", "").replace(" ", "-")[:100]

    def sent(*replies: Any, key: str | None = KEY, fields: Any = None, **asked: Any) -> Outcome:
        server.script(name, *replies)
        usual = {"adapter": "litellm", "provider_model": f"openai/{name}", "api_base": server.url}
        model = model_fields.check(
            name.replace("_", "-")[:60], usual | {"price_in": 1, "price_out": 2} | (fields or {})
        )
        checked = requests.chat({"messages": "hello", "model": "m", **asked})
        secret = None if key is None else SecretStr(key)
        outcome = loop.run_until_complete(adapter.send(Ask(checked, model, 100, secret)))
        sent.asked = server.of(name)  # type: ignore[attr-defined]
        return outcome

    return sent


def test_an_answer_with_its_usage(send: Any) -> None:
    found = send(answer("hi", usage={"prompt_tokens": 7, "completion_tokens": 3}), temperature=0.5)
    assert isinstance(found, Answer)
    assert (found.response, found.finish_reason) == ({"text": "hi", "tool_calls": []}, "stop")
    assert (found.usage.tokens_in, found.usage.tokens_out, found.usage.estimated) == (7, 3, False)
    (asked,) = send.asked
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert (asked.body["max_tokens"], asked.body["temperature"]) == (100, 0.5)
    assert "stream" not in asked.body or not asked.body["stream"]


def test_calls_of_tools_also_wrong_ones(send: Any) -> None:
    found = send(answer(None, calls=[("add", {"a": 1}), ("add", '{"a"')]), tools=[ADD])
    assert [call["arguments"] for call in found.response["tool_calls"]] == [{"a": 1}, '{"a"']
    assert ["problem" in call for call in found.response["tool_calls"]] == [False, True]
    (asked,) = send.asked
    assert asked.body["tools"] == [{"type": "function", "function": ADD}]


def test_a_schema(send: Any) -> None:
    assert send('{"city": "Bern"}', schema=CITY).response["value"] == {"city": "Bern"}
    assert send.asked[0].body["response_format"]["json_schema"]["schema"]["required"] == ["city"]


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": 0, "completion_tokens": 0}])
def test_a_missing_usage_is_counted_by_us(send: Any, usage: Any) -> None:
    """The library tells zero, which would be an answer for nothing."""
    found = send({**answer("four words of text"), "usage": usage})
    assert found.usage.estimated and found.usage.tokens_in > 0 and found.usage.tokens_out > 0


def test_the_wait_that_the_provider_asks_for(send: Any) -> None:
    found = send(error(429, "rate_limit_exceeded", "slowly", retry_after="7"))
    assert isinstance(found, Failure)
    assert (found.kind, found.status, found.retry_after) == ("retry", 429, 7.0)
    assert len(send.asked) == 1


FAILURES = {
    "500": (error(500, "server_error"), "retry"),
    "503": (error(503, "overloaded"), "retry"),
    "400": (error(400, "bad_request"), "final"),
    "404": (error(404, "model_not_found"), "final"),
    "context": (error(400, "context_length_exceeded", "too many tokens"), "final"),
    "policy": (error(400, "content_policy_violation"), "final"),
    "reset": (Reply(answer(), cut=0), "retry"),
    "cut": (Reply(answer(), cut=150), "retry"),
    "html": (Reply(b"<html>gateway</html>", content_type="text/html"), "retry"),
    "no choices": ({"id": "x", "choices": []}, "retry"),
}


@pytest.mark.parametrize(("reply", "kind"), FAILURES.values(), ids=list(FAILURES))
def test_a_failure_is_one_request(send: Any, reply: Any, kind: str) -> None:
    found = send(reply)
    assert isinstance(found, Failure) and found.kind == kind, found
    assert len(send.asked) == 1


@pytest.mark.parametrize("name", ["reset", "cut", "html"])
def test_what_may_have_been_answered_is_charged(send: Any, name: str) -> None:
    assert send(FAILURES[name][0]).charged


def test_what_was_not_answered_costs_nothing(send: Any) -> None:
    assert not send(error(500, "server_error")).charged
    refused = send(answer(), fields={"api_base": "http://127.0.0.1:1/v1"})
    assert (refused.kind, refused.charged) == ("retry", False)


def test_a_key_that_the_provider_quotes_is_not_told(send: Any) -> None:
    found = send(error(401, "invalid_api_key", f"Incorrect API key provided: {KEY}"))
    assert (found.kind, found.status) == ("final", 401)
    assert KEY not in found.problem and "***" in found.problem


def test_a_late_answer_is_lost_and_not_asked_for_again(send: Any) -> None:
    found = send(Reply(answer(), delay=1.0), fields={"timeout": 0.3})
    assert (found.kind, len(send.asked)) == ("lost", 1)


def test_no_key_of_the_environment_is_sent(send: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    assert isinstance(send(answer(), key=None), Answer)
    assert "somebody" not in send.asked[0].headers.get("authorization", "")


def test_embeddings(server: ModelServer, loop: asyncio.AbstractEventLoop, adapter: LitellmAdapter) -> None:
    usual = {"adapter": "litellm", "provider_model": "openai/vectors", "api_base": server.url}
    model = model_fields.check(
        "vectors", usual | {"price_in": 1, "price_out": 0, "capabilities": {"dimensions": 2}}
    )
    request = requests.embed({"texts": ["a", "bcd"], "model": "vectors"})
    found = loop.run_until_complete(adapter.send(Ask(request, model, 0, SecretStr(KEY))))
    assert isinstance(found, Answer), found
    assert (len(found.response["vectors"]), found.usage.tokens_in) == (2, 6)


def test_through_a_gateway(migrated_file: Path, tmp_path: Path, server: ModelServer) -> None:
    world = ModelsWorld(f"sqlite:///{tmp_path / 'f.db'}", tmp_path / "home", server)
    world.secrets.set("PROVIDER_KEY", KEY)
    world.add_model(adapter="litellm", provider_model="openai/whole", secret="PROVIDER_KEY")
    server.script("whole", error(503, "overloaded", retry_after="0"), "ok")
    with world.gateway():
        row = world.answered()
    assert (calls.answer(row, replayed=False)["text"], row["tries"], row["cost"]) == ("ok", 2, 20_000)
    assert len(server.of("whole")) == 2
    check_meter(world)
    world.close()


def test_its_proxy_is_not_loaded(send: Any) -> None:
    send("ok")
    assert "litellm.proxy.proxy_server" not in sys.modules


def test_a_gateway_does_not_load_it_before_a_model_needs_it() -> None:
    code = "import sys, functory.workers.gateway.gateway; sys.exit('litellm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_extra_the_call_says_what_to_install(
    send: Any, adapter: LitellmAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "_library", None)
    monkeypatch.setitem(sys.modules, "litellm", None)
    found = send("ok")
    assert (found.kind, send.asked) == ("final", [])
    assert extras.install_command("agents") in found.problem
