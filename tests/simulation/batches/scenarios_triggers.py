"""Scenarios of routing: triggers, guards, idempotency, composites, shadow mode, and changes while events wait."""

from __future__ import annotations

from functory.engine.firings.kill_switch import TRIGGERS, Switches
from tests.simulation.batches.scenarios import scenario
from tests.simulation.batches.stepped_engine import SteppedEngine

FAILED = ["execution.failed", "execution.timed_out", "execution.dead"]


@scenario()
def one_trigger(engine: SteppedEngine) -> None:
    engine.function("work", lambda call: {"n": call.number})
    engine.trigger("on-tick", "work", "tick")
    engine.emit_many("tick", range(40))
    engine.emit("unwanted", *range(3))
    engine.route()
    engine.compare()
    engine.settle()
    engine.emit("tick", 40)
    engine.settle()


@scenario()
def several_triggers_on_an_event(engine: SteppedEngine) -> None:
    engine.function("first")
    engine.function("second")
    for number in range(3):
        engine.trigger(f"t{number}", "first" if number else "second", "tick")
    engine.trigger("even", "first", {"type": ["tick"], "data": {"n": [0, 2, 4, 6]}})
    engine.trigger("conditional", "second", "tick", when="data.n > 3")
    engine.trigger("template", "first", "tick", input={"given": "n is {{ event.data.n }}"})
    engine.emit("tick", *range(9))
    engine.settle()


@scenario()
def a_chain_of_triggers(engine: SteppedEngine) -> None:
    engine.function("begin", lambda call: call.emit("step", {"n": call.number}, subject="s"))
    engine.function("go_on", lambda call: call.fail() if call.number % 4 == 0 else call.number)
    engine.function("mourn")
    engine.function("count")
    engine.trigger("first", "begin", "tick")
    engine.trigger("second", "go_on", "step")
    engine.trigger("failed", "mourn", {"type": FAILED, "subject": ["go_on"]})
    engine.trigger("succeeded", "count", {"type": ["execution.succeeded"], "subject": ["go_on"]})
    engine.emit("tick", *range(12))
    engine.settle()


@scenario(max_depth=3)
def a_chain_at_its_depth(engine: SteppedEngine) -> None:
    engine.function("again", lambda call: call.emit("tick", {"n": call.number + 100}))
    engine.trigger("t", "again", "tick", guards={"max_revisits": 50, "allow_self": True})
    engine.emit("tick", *range(9))
    engine.settle()


@scenario()
def a_chain_that_meets_itself(engine: SteppedEngine) -> None:
    engine.function("ping", lambda call: call.emit("pong", {"n": call.number}))
    engine.function("pong", lambda call: call.emit("ping", {"n": call.number}))
    engine.trigger("to-ping", "ping", "ping", guards={"max_revisits": 1})
    engine.trigger("to-pong", "pong", "pong", guards={"max_revisits": 1})
    engine.emit("ping", *range(8))
    engine.settle()


@scenario(root_budget=5)
def a_budget_that_ends_inside_a_batch(engine: SteppedEngine) -> None:
    def spread(call):
        for number in range(4):
            call.emit("leaf", {"n": call.number * 10 + number})

    engine.function("spread", spread)
    engine.function("leaf")
    engine.trigger("root", "spread", "tick")
    engine.trigger("leaf-1", "leaf", "leaf")
    engine.trigger("leaf-2", "leaf", "leaf")
    engine.emit("tick", *range(5))
    engine.settle()


@scenario()
def a_rate_that_ends_inside_a_batch(engine: SteppedEngine) -> None:
    engine.function("work")
    engine.trigger("limited", "work", "tick", guards={"rate": 6})
    engine.trigger("unlimited", "work", "tick")
    engine.emit("tick", *range(9))
    engine.settle()
    engine.advance(20)
    engine.emit("tick", *range(10, 20))
    engine.settle()


@scenario(root_budget=9)
def a_budget_and_a_rate_that_end_together(engine: SteppedEngine) -> None:
    def spread(call):
        for number in range(6):
            call.emit("leaf", {"n": call.number * 10 + number})

    engine.function("spread", spread)
    engine.function("leaf")
    engine.trigger("root", "spread", "tick")
    engine.trigger("slow", "leaf", "leaf", guards={"rate": 2})
    engine.trigger("usual", "leaf", "leaf")
    engine.emit("tick", 1, 2)
    engine.settle()


@scenario()
def an_idempotency_key_twice_in_a_batch(engine: SteppedEngine) -> None:
    engine.function("work")
    engine.trigger("once", "work", "tick", flow={"idempotency": {"key": "data.order", "window": "1m"}})
    for number in range(12):
        engine.emit("tick", number, order=number % 3)
    engine.settle()
    engine.advance(61)
    engine.emit("tick", 20, 21, order=1)
    engine.settle()


@scenario()
def composites(engine: SteppedEngine) -> None:
    engine.function("both")
    engine.function("many")
    engine.function("missing")
    parts = [{"on": {"type": ["left"]}}, {"on": {"type": ["right"]}}]
    engine.trigger("all", "both", composite={"all": parts, "within": "10m", "key": "data.n"})
    engine.trigger("sequence", "both", composite={"sequence": parts, "within": "10m", "key": "data.n"})
    engine.trigger(
        "threshold",
        "many",
        composite={"threshold": {"on": {"type": ["left"]}, "count": 4}, "within": "1m"},
    )
    engine.trigger(
        "absence",
        "missing",
        composite={"absence": {"of": parts[1], "after": parts[0]}, "within": "1m", "key": "data.n"},
    )
    engine.emit("left", *range(9))
    engine.emit("right", 3, 1, 2)
    engine.settle()
    for _ in range(3):
        engine.advance(30)
        engine.settle()


@scenario(changes=True)
def shadow_triggers(engine: SteppedEngine) -> None:
    engine.function("work")
    engine.trigger("real", "work", "tick")
    engine.trigger("shadow", "work", "tick", shadow=True)
    engine.trigger(
        "shadow-once",
        "work",
        "tick",
        shadow=True,
        flow={"idempotency": {"key": "data.order", "window": "1m"}},
    )
    for number in range(9):
        engine.emit("tick", number, order=number % 2)
    engine.settle()
    engine.world.triggers.promote("shadow-once")
    for number in range(10, 15):
        engine.emit("tick", number, order=number % 2)
    engine.settle()


@scenario(changes=True)
def the_kill_switch(engine: SteppedEngine) -> None:
    switches = Switches(engine.world.database)
    engine.function("work")
    engine.trigger("t", "work", "tick")
    engine.emit("tick", *range(5))
    engine.settle()
    switches.throw(TRIGGERS)
    engine.emit("tick", *range(10, 18))
    # Their events wait as well.
    for number in range(3):
        engine.start("work", number)
    engine.settle()
    engine.advance(5)
    switches.release(TRIGGERS)
    engine.emit("tick", 20)
    engine.settle()


@scenario(changes=True)
def a_trigger_on_events_of_executions_that_changes(engine: SteppedEngine) -> None:
    engine.function("work")
    engine.function("after")
    engine.trigger("t", "work", "tick")
    engine.emit("tick", *range(5))
    engine.settle()
    ends = {"type": ["execution.succeeded"], "subject": ["work"]}
    engine.trigger("ends", "after", ends)
    engine.emit("tick", *range(10, 15))
    engine.settle()
    engine.world.triggers.pause("ends")
    engine.emit("tick", *range(20, 25))
    engine.settle()
    engine.world.triggers.resume("ends")
    engine.emit("tick", *range(30, 35))
    engine.settle()
    engine.world.triggers.delete("ends")
    engine.emit("tick", *range(40, 45))
    engine.settle()


@scenario()
def a_composite_of_ends(engine: SteppedEngine) -> None:
    engine.function("work")
    engine.function("after")
    engine.trigger("t", "work", "tick")
    parts = [{"on": {"type": ["execution.succeeded"], "subject": ["work"]}}, {"on": {"type": ["go"]}}]
    engine.trigger("pair", "after", composite={"all": parts, "within": "1h"})
    for start in (0, 10, 20):
        engine.emit("tick", *range(start, start + 3))
        engine.settle()
        engine.emit("go", start)
        engine.settle()


@scenario()
def an_end_that_cancels(engine: SteppedEngine) -> None:
    engine.function("work")
    engine.function("waits", lambda call: call.fail(), limits={"retries": 1, "retry_delay": 20})
    rule = {"on": {"type": ["execution.succeeded"], "subject": ["work"]}, "timeout": "1m"}
    engine.trigger("t", "waits", "tick", flow={"cancel_on": [rule]})
    for start in (0, 10):
        engine.emit("tick", *range(start, start + 4))
        engine.settle()
        engine.start("work")
        engine.settle()
        engine.advance(25)
        engine.settle()


@scenario()
def starts_that_are_buffered(engine: SteppedEngine) -> None:
    engine.function("work")
    engine.function("many")
    engine.trigger("t", "work", "tick")
    on = {"type": ["execution.started"], "subject": ["work"]}
    engine.trigger("batch", "many", on, flow={"batch": {"max_size": 4, "timeout": "10s"}})
    for start in (0, 10):
        engine.emit("tick", *range(start, start + 6))
        engine.settle()
        engine.advance(15)
        engine.settle()


@scenario(changes=True)
def an_event_that_cannot_be_routed(engine: SteppedEngine) -> None:
    engine.function("work")
    engine.trigger("t", "work", "tick")
    engine.refuses = lambda row: bool(row.data and row.data.get("poison"))
    engine.emit("tick", *range(4))
    engine.emit("tick", 4, poison=True)
    engine.emit("tick", *range(5, 11))
    engine.settle()
    for _ in range(6):
        engine.advance(40)
        engine.settle()
    engine.refuses = lambda row: False
    engine.world.events.release_all("tick")
    engine.settle()


@scenario(changes=True)
def a_trigger_that_changes_while_events_wait(engine: SteppedEngine) -> None:
    engine.function("one")
    engine.function("two")
    engine.trigger("t", "one", "tick")
    engine.emit("tick", *range(3))
    engine.settle()
    engine.emit("tick", *range(10, 15))
    engine.trigger("t", "two", "tick", when="data.n != 12")
    engine.trigger("new", "one", "tick")
    engine.settle()
    engine.world.triggers.pause("t")
    engine.emit("tick", 20, 21)
    engine.settle()
    engine.world.triggers.resume("t")
    engine.world.triggers.delete("new")
    engine.emit("tick", 30, 31)
    engine.settle()


@scenario(changes=True)
def a_function_that_changes_while_events_wait(engine: SteppedEngine) -> None:
    engine.function("work")
    engine.trigger("t", "work", "tick")
    engine.trigger("pinned", "work@1", "tick")
    engine.emit("tick", *range(3))
    engine.settle()
    engine.emit("tick", *range(10, 13))
    engine.function("work", parameters="given", limits={"retries": 2, "priority": 3})
    engine.settle()
    engine.emit("tick", *range(20, 23))
    engine.route()
    # These executions were started with version 2, and run it.
    engine.function("work", parameters="given=None, *more")
    engine.settle()
    engine.world.functions.disable("work")
    engine.emit("tick", 30, 31)
    engine.settle()
    engine.world.functions.activate("work", 1)
    engine.emit("tick", 40, 41)
    engine.settle()


@scenario(changes=True)
def functions_that_change_triggers_and_functions(engine: SteppedEngine) -> None:
    """The change is made by an execution of the same round as the events that it concerns."""

    def change(call):
        engine.function("work", limits={"priority": call.number})
        engine.trigger("t", "work", "tick", when=f"data.n > {call.number}")

    engine.function("change", change)
    engine.function("work")
    engine.trigger("t", "work", "tick")
    engine.trigger("changes", "change", "change")
    engine.emit("tick", 1, 9)
    engine.emit("change", 3)
    engine.settle()
    engine.emit("tick", 2, 8)
    engine.settle()
    engine.emit("change", 5)
    engine.settle()
    engine.emit("tick", 4, 6)
    engine.settle()
