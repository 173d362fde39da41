"""Tests each flow control at its limit beside the plain model, and that the model finds a wrong one there."""

from __future__ import annotations

import pytest

from tests.simulation.engine.mutants import Edit, Mutant
from tests.simulation.flow_control_model import FLOWS, Simulation
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

# Stories up to the limit of each control, and one step beyond it. A character writes an event with that key and
# routes it; with "?" before it the event is only written. +N writes an event with that priority. "r" routes pending
# events, "t" releases, "c" claims, "f" ends running executions with success, "x" with failure. A number lets these
# seconds pass.
EDGES: dict[str, str] = {
    "throttle": "a a b 10 t c a 9 t c 1 t c a a 40 t c c c c x 5 t c",
    "throttle with a burst": "a a a a 10 a 30 a a a a",
    "rate limit": "a a b 5 a 5 a a",
    "rate limit with a burst": "a a a 9 a 1 a a",
    "idempotency": "a b 10 a 19 a 1 a a",
    "one at a time": "?a a t c r t c f t c a x t c f t 5 t c f",
    "two at a time": "a a a a t c c t f t c x t c",
    "two narrow limits": "a b a b t c t c f t c",
    "two limits": "a a b b t c c f t c f t",
    "a function's limit": "a a b t c c t f t c",
    "a shared limit": "a a b t c c c t f t c",
    "throttle and one at a time": "a a a t c 10 t f t c",
    "priority": "a b +300 a +600 t c f t c f t c f",
    "skip": "a a c x a 5 c f a",
    "buffer one": "a a a t c a a f t c f",
    "buffer all": "a a a t c f t c x t 5 t c f",
    "cancel other": "a a a t c a f t c ?a a r",
    "terminate other": "a a c a f ?a a r",
    "singleton": "a a t c a f t c ?a a r",
    "singleton, one at a time": "a a b t c b f t c a f a",
}


def walk_along(world: World, name: str) -> None:
    """Run a story up to the limit of one flow control, beside the model."""
    simulation = Simulation(world, FLOWS[name])
    for step in EDGES[name].split():
        if step.isdecimal():
            world.advance(int(step))
        elif step[0] == "+":
            simulation.emit("b", int(step))
        elif step == "t":
            while simulation.turn(0):
                pass
        elif step == "c":
            simulation.claim()
        elif step in "fx" and simulation.running:
            simulation.finish(0, "succeeded" if step == "f" else "failed", False)
        elif step.strip("?") in "ab":
            simulation.emit(step[-1], 0)
        if step in ("a", "b", "r") or step[0] == "+":
            for one in [simulation.model.events[-1]] if step != "r" else simulation.pending():
                simulation.route(one, 0)
        simulation.check_limits()
    simulation.check_decisions()
    simulation.drain()
    simulation.check_decisions()


@pytest.mark.parametrize("name", FLOWS)
def test_each_flow_control_holds_at_its_edge(memory: World, name: str) -> None:
    walk_along(memory, name)


# Defects: the flow control that shows each, and its place in the code.
WRONG: dict[str, tuple[str, Edit]] = {
    "a burst of one more": (
        "throttle with a burst",
        Edit("functory.engine.flow_control.rate_limits", "reserve", "limit.burst - 1", "limit.burst"),
    ),
    "a start without a token": (
        "throttle",
        Edit(
            "functory.engine.flow_control.throttle",
            "take_tokens",
            "allowed_at <= now and turn",
            "turn - turn + now",
        ),
    ),
    "a token for each reservation, not for each attempt": (
        "throttle",
        Edit(
            "functory.engine.executions.throttled_claims",
            "keep_with_token",
            "row.throttle is not None",
            "row.throttle is not None and row.attempt == 1",
        ),
    ),
    "what is dropped counts": (
        "rate limit",
        Edit(
            "functory.engine.flow_control.rate_limits",
            "RateLimitStates.acquire",
            "state.dropped += 1",
            "state.next_allowed_at = following",
        ),
    ),
    "a window is longer by an instant": (
        "idempotency",
        Edit(
            "functory.engine.firings.idempotency",
            "IdempotencyKeys.used_by",
            "expires_at > self._now",
            "expires_at >= self._now",
        ),
    ),
    "a window begins anew with each repetition": (
        "idempotency",
        Edit(
            "functory.engine.firings.idempotency",
            "decide",
            'refused.append((row, Suppress(trigger, "idempotent", detail=detail)))',
            "keys.use(trigger.id, controls.idempotency, row.id)\n"
            '            refused.append((row, Suppress(trigger, "idempotent")))',
        ),
    ),
    "one too many in a concurrency group": (
        "two at a time",
        Edit(
            "functory.engine.flow_control.slot_assignment",
            "_fitting",
            "taken + more[key] < capacity",
            "taken + more[key] <= capacity",
        ),
    ),
    "those let in together are not counted": (
        "two at a time",
        Edit("functory.engine.flow_control.slot_assignment", "_fitting", "more[key] += 1", "more[key] += 0"),
    ),
    "an event that is not routed is overtaken": (
        "one at a time",
        Edit(
            "functory.engine.flow_control.slot_assignment",
            "assign_slots",
            "first = routing_queue.first_unrouted(tx)",
            "first = None",
        ),
    ),
    "an end gives nothing back": (
        "one at a time",
        Edit(
            "functory.engine.flow_control.concurrency",
            "release",
            'tx.execute(_RELEASE, {"id": execution_id})',
            "pass",
        ),
    ),
    "a wait for a retry keeps its slot": (
        "one at a time",
        Edit(
            "functory.engine.flow_control.concurrency",
            "release_for_retry",
            ".values(taken_at=None)",
            ".values(taken_at=slot.c.taken_at)",
        ),
    ),
    "priority is forgotten": (
        "priority",
        Edit("functory.engine.flow_control.concurrency", "queue_at", "seconds=priority", "seconds=0"),
    ),
    "skip looks only at what runs": (
        "skip",
        Edit(
            "functory.engine.flow_control.overlap",
            "decide",
            "            if others\n",
            "            if waiting\n",
        ),
    ),
    "buffer one buffers two": (
        "buffer one",
        Edit(
            "functory.engine.flow_control.overlap",
            "decide",
            "waiting) > (0 if running else 1)",
            "waiting) > (1 if running else 2)",
        ),
    ),
    "cancel other leaves one": (
        "cancel other",
        Edit(
            "functory.engine.flow_control.overlap",
            "decide",
            "tuple(one.id for one in others)",
            "tuple(one.id for one in others[1:])",
        ),
    ),
    "an older match cancels": (
        "terminate other",
        Edit("functory.engine.flow_control.overlap", "decide", "if newer:", "if newer and False:"),
    ),
}


@pytest.mark.parametrize("defect", WRONG)
def test_the_model_sees_a_flow_control_that_is_wrong(memory: World, defect: str) -> None:
    name, edit = WRONG[defect]
    with Mutant(defect, [edit]).applied(), pytest.raises(AssertionError):
        walk_along(memory, name)
