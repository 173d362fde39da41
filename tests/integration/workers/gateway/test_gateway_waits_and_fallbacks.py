"""Waits that providers ask for, tool calls that the engine must not judge, and requests for models that are down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from functory.engine.agents import calls
from tests.support.model_server import ModelServer, answer, error, model_server
from tests.support.models import ModelsWorld, check_meter

pytest_plugins = ["tests.support.world"]

ADD = {
    "name": "add",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


@pytest.fixture
def world(database_url: str, tmp_path: Path, server: ModelServer) -> Iterator[ModelsWorld]:
    world = ModelsWorld(database_url, tmp_path / "home", server)
    yield world
    world.close()


def test_a_provider_is_not_asked_again_before_it_says(world: ModelsWorld, server: ModelServer) -> None:
    world.add_model()
    server.script("small", error(429, "rate_limit_exceeded", retry_after="1.5"), "ok")
    with world.gateway():
        row = world.answered()
    first, second = server.asked
    assert (row["state"], row["tries"]) == ("succeeded", 2)
    assert second.at - first.at >= 1.5
    assert world.calls.get(row["id"])["tried"][0]["retry_after"] == 1.5
    check_meter(world)


def test_a_wait_of_an_hour_goes_to_the_fallback(world: ModelsWorld, server: ModelServer) -> None:
    world.add_model("large")
    world.add_model("small", fallbacks=["large"])
    server.script("small", error(429, "rate_limit_exceeded", retry_after="3600"))
    with world.gateway():
        row = world.answered()
    assert (row["state"], row["asked"]) == ("succeeded", "large")
    assert (len(server.of("small")), len(server.of("large"))) == (1, 1)
    check_meter(world)


def test_a_model_that_is_down_leaves_its_fallback_the_requests(
    world: ModelsWorld, server: ModelServer
) -> None:
    """Its breaker opens; further requests do not try it first."""
    world.add_model("large")
    world.add_model("small", fallbacks=["large"])
    server.script("small", error(500, "server_error", retry_after="0"))
    with world.gateway():
        for number in range(1, 6):
            row = world.answered(number=number)
            assert (row["state"], row["asked"]) == ("succeeded", "large")
    assert len(server.of("small")) <= 6 and len(server.of("large")) == 5
    check_meter(world)


def test_arguments_of_tools_are_passed_on_as_the_model_wrote_them(
    world: ModelsWorld, server: ModelServer
) -> None:
    """Missing, further and wrong ones: who calls the tool says what is wrong with them."""
    world.add_model()
    given = [("add", {}), ("add", {"a": 1, "b": 2}), ("add", {"a": "one"}), ("remove", {"a": 1})]
    server.script("small", answer(None, calls=given))
    with world.gateway():
        got = calls.answer(world.answered("add", tools=[ADD]), replayed=False)["tool_calls"]
    assert [(one["name"], one["arguments"]) for one in got] == given
    assert not any("problem" in one for one in got)
