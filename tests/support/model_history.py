"""Calls of language models in a world without a gateway: the test itself claims them and says what comes of them."""

from __future__ import annotations

from typing import Any

from functory.engine.agents import call_queue, calls, requests
from functory.engine.agents.call_outcomes import Answer, Failure, Outcome, Usage
from functory.engine.agents.call_queue import Sent
from functory.engine.agents.calls import Caller, Calls
from functory.engine.agents.models import Models
from functory.engine.database.schema import llm_call
from functory.engine.executions.claims import Claim
from tests.support.world import World

MODEL = {"adapter": "script", "provider_model": "none.json", "price_in": 1, "price_out": 2, "slots": 100}
ANSWER = Answer({"text": "ok", "tool_calls": []}, Usage(10, 5))


def add_model(world: World, name: str = "small", **fields: Any) -> None:
    Models(world.database).add(name, MODEL | fields, author="ada")


def ask(
    world: World, text: str = "hello", *, claim: Claim | None = None, root: str | None = None, number: int = 1
) -> dict[str, Any]:
    """Queue a request: of an attempt, or of a person. Returns its row."""
    services = Calls(world.database, world.settings)
    caller = Caller.of(claim.cause) if claim else Caller(root or services.new_root(), "")
    request = requests.chat({"messages": text, "model": "small"})
    return services.ask(request, caller, number=number, nth=1)


def send(world: World, name: str = "host:1") -> list[Sent]:
    """Claim all that may be sent, as a gateway of this name does."""
    with world.database.write() as tx:
        return list(call_queue.claim(tx, name, 100, world.settings).sent)


def settle(world: World, *outcomes: tuple[Sent, Outcome]) -> None:
    with world.database.write() as tx:
        call_queue.settle(tx, [(sent, outcome, 0.1) for sent, outcome in outcomes], world.settings, 0.5)


def answer_all(world: World, outcome: Outcome = ANSWER) -> None:
    """Send all that may be sent, with this outcome."""
    settle(world, *[(sent, outcome) for sent in send(world)])


def ordinary_calls(world: World) -> dict[str, str]:
    """Everything that may happen to a call. Returns the ids of their rows, by what happened."""
    add_model(world)
    ids: dict[str, str] = {}
    world.function("asks")
    claim = world.claim(world.start("asks"))
    ids["succeeded"] = ask(world, claim=claim)["id"]
    answer_all(world)
    ids["retried"] = ask(world, "again", claim=claim, number=2)["id"]
    answer_all(world, Failure("retry", "busy", 503, retry_after=1.0))
    world.advance(2)
    answer_all(world)
    ids["failed"] = ask(world, "wrong", claim=claim, number=3)["id"]
    answer_all(world, Failure("final", "no", 400))
    world.finish(claim)
    ids["asked by a person"] = ask(world)["id"]
    answer_all(world)
    ids["unknown"] = ask(world, "slow")["id"]
    answer_all(world, Failure("lost", "no answer"))
    ids["lost"] = ask(world, "lost")["id"]
    send(world)
    world.advance(call_queue.LEASE_SECONDS + 1)
    with world.database.write() as tx:
        call_queue.end_lost(tx, world.settings)
    ids["cancelled"] = ask(world, "never")["id"]
    with world.database.write() as tx:
        calls.cancel_queued(tx, llm_call.c.id == ids["cancelled"])
    return ids
