"""Answers that no database or adapter expects: the call ends, and the gateway goes on; on SQLite and on PostgreSQL."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functory.engine.agents import call_queue, calls, requests
from functory.engine.agents.calls import Caller
from functory.workers.gateway import gateway as gateway_module
from tests.support.model_server import ModelServer, Reply, answer, model_server, stream
from tests.support.models import ModelsWorld, check_meter
from tests.support.waiting import wait_for

pytest_plugins = ["tests.support.world"]

NUL, LONE = "a\x00b", "a\ud800b"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


@pytest.fixture
def world(database_url: str, tmp_path: Path, server: ModelServer) -> Iterator[ModelsWorld]:
    world = ModelsWorld(database_url, tmp_path / "home", server)
    world.add_model()
    yield world
    world.close()


def streamed(*deltas: Any) -> Reply:
    reply = stream("x")
    lines = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    reply.payload = [f"data: {json.dumps(line)}\n\n" for line in lines] + reply.payload
    return reply


def deep(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


# Kept as they were.
KEPT = {
    "NUL in the text": (answer(NUL), "text", NUL),
    "a lone surrogate in the text": (answer(LONE), "text", LONE),
    "a line separator": (answer("a\u2028b"), "text", "a\u2028b"),
}


@pytest.mark.parametrize(("reply", "field", "value"), KEPT.values(), ids=list(KEPT))
def test_characters_that_postgresql_cannot_store_are_kept(
    world: ModelsWorld, server: ModelServer, reply: Any, field: str, value: str
) -> None:
    server.script("small", reply)
    with world.gateway():
        row = world.answered()
    assert calls.answer(row, replayed=False)[field] == value
    check_meter(world)


def test_arguments_of_tools_keep_their_characters_and_wrong_ones_stay_a_text(
    world: ModelsWorld, server: ModelServer
) -> None:
    given = [(NUL, {NUL: LONE}), ("add", '{"a": NaN}'), ("add", deep(400)), ("add", '{"a": 1e999}')]
    server.script("small", answer(None, calls=given))
    with world.gateway():
        got = calls.answer(world.answered(), replayed=False)["tool_calls"]
    assert (got[0]["name"], got[0]["arguments"]) == (NUL, {NUL: LONE})
    assert [isinstance(one["arguments"], str) and "not JSON" in one["problem"] for one in got[1:]] == [
        True,
        True,
        True,
    ]
    check_meter(world)


ODD = {
    "a reason with NUL": answer("x", finish=NUL),
    "a reason with a lone surrogate": answer("x", finish=LONE),
    "a long reason": answer("x", finish="\u2028" * 1000),
    "a usage beyond all numbers": answer("x", usage={"prompt_tokens": 10**30, "completion_tokens": 10**30}),
    "a usage near the end of numbers": answer("x", usage={"prompt_tokens": 2**62, "completion_tokens": 1}),
    "a usage below nothing": answer("x", usage={"prompt_tokens": -5, "completion_tokens": -5}),
    "a usage of texts": answer("x", usage={"prompt_tokens": "5", "completion_tokens": []}),
    "an error with NUL": Reply({"error": {"message": NUL + LONE}}, 400),
    "an error of many levels": Reply(b"[" * 60_000, 400),
    "an answer of many levels": Reply(b'{"choices":' * 2_000),
    "tool calls that are a number": {"choices": [{"message": {"content": "x", "tool_calls": 5}}]},
    "tool calls of numbers": {"choices": [{"message": {"content": "x", "tool_calls": [5, None]}}]},
    "a message that is a list": {"choices": [{"message": ["x"]}]},
    "a content of parts": {"choices": [{"message": {"content": [{"type": "text", "text": "x"}]}}]},
    "choices that are numbers": {"choices": [5]},
    "no UTF-8": Reply(b'{"choices": [{"message": {"content": "\xff\xfe"}}]}'),
}


@pytest.mark.parametrize("reply", ODD.values(), ids=list(ODD))
def test_an_odd_answer_ends_its_call_and_nothing_else(
    world: ModelsWorld, server: ModelServer, reply: Any
) -> None:
    server.script("small", reply)
    world.add_model("other")
    with world.gateway():
        row = world.answered()
        assert row["state"] in ("succeeded", "failed")
        assert world.answered(model="other", number=2)["state"] == "succeeded"
    check_meter(world)


ODD_STREAMS = {
    "NUL and a lone surrogate": (streamed({"content": NUL}, {"content": LONE}), "succeeded"),
    "tool calls that are a number": (streamed({"tool_calls": 5}), "failed"),
    "an index that is none": (
        streamed(
            {"tool_calls": [{"index": None, "function": {"name": "f"}}]},
            {"tool_calls": [{"index": 0, "function": {"name": "f"}}]},
        ),
        "failed",
    ),
    "a delta that is a text": (streamed("x"), "failed"),
    "an error with NUL": (
        Reply([f"data: {json.dumps({'error': NUL})}\n\n"], content_type="text/event-stream"),
        "failed",
    ),
}


@pytest.mark.parametrize(("reply", "state"), ODD_STREAMS.values(), ids=list(ODD_STREAMS))
def test_an_odd_stream_ends_its_call_and_nothing_else(
    world: ModelsWorld, server: ModelServer, reply: Any, state: str
) -> None:
    world.add_model("streams", capabilities={"stream": True})
    server.script("streams", reply)
    with world.gateway():
        assert world.answered(model="streams")["state"] == state
        assert world.answered(number=2)["state"] == "succeeded"
    check_meter(world)


ODD_EMBEDDINGS = {
    "texts": ["x", "y"],
    "too large": [1e300, 10**400],
    "none": None,
    "no base64": "\ud800\x00",
    "half a number": base64.b64encode(b"12345").decode(),
}


@pytest.mark.parametrize("vector", ODD_EMBEDDINGS.values(), ids=list(ODD_EMBEDDINGS))
def test_odd_embeddings_are_refused(world: ModelsWorld, server: ModelServer, vector: Any) -> None:
    world.add_model("embed", capabilities={"dimensions": 2})
    server.script(
        "embed", Reply({"data": [{"index": 0, "embedding": vector}], "usage": {"prompt_tokens": 3}})
    )
    request = requests.embed({"texts": ["a"], "model": "embed"})
    with world.gateway():
        asked = world.calls.ask(request, Caller(world.root, "f"), number=1, nth=1)
        row = world.calls.wait(asked["id"], 30)
    assert row["state"] == "failed" and "no numbers" in row["error"]["message"]
    check_meter(world)


def test_an_outcome_that_cannot_be_stored_keeps_no_other_from_being_stored(
    world: ModelsWorld, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is left to its lease, which runs out."""
    monkeypatch.setattr(call_queue, "LEASE_SECONDS", 1.0)
    settle = call_queue.settle

    def broken(tx: Any, outcomes: Any, *given: Any) -> Any:
        if any("poison" in str(outcome) for _, outcome, _ in outcomes):
            raise ValueError("it cannot be stored")
        return settle(tx, outcomes, *given)

    monkeypatch.setattr(gateway_module.call_queue, "settle", broken)
    # All answers come together.
    server.script("small", lambda asked, _: Reply(answer(asked.last), delay=0.3))
    with world.gateway() as running:
        rows = [world.ask(text, number=number) for number, text in enumerate(["a", "poison", "b"], 1)]
        for row in (rows[0], rows[2]):
            assert world.calls.wait(row["id"], 30)["state"] == "succeeded"
        wait_for(lambda: not running.open_calls)
        assert world.calls.get(rows[1]["id"])["state"] == "sent"

        def lost() -> bool:
            with world.database.write() as tx:
                call_queue.end_lost(tx, world.settings)
            return world.calls.get(rows[1]["id"])["state"] == "unknown"

        wait_for(lost)
        assert world.answered("c", number=4)["state"] == "succeeded"
    assert len(server.asked) == 4
    check_meter(world)


def test_a_gateway_whose_row_cannot_be_stored_still_stores_outcomes(
    world: ModelsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def broken(*_: Any) -> None:
        tries.append(1)
        raise ValueError("it cannot be stored")

    monkeypatch.setattr(gateway_module, "RENEW_SECONDS", 0.0)
    monkeypatch.setattr(gateway_module, "RETRY_SECONDS", 0.01)
    with world.gateway():
        assert world.answered()["state"] == "succeeded"
        monkeypatch.setattr(gateway_module.call_queue, "renew", broken)
        wait_for(lambda: tries)
        assert world.answered(number=2)["state"] == "succeeded"
        monkeypatch.undo()
