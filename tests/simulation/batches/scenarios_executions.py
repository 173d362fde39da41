"""Scenarios of executions: retries, what a function leaves behind, children, compensation, replay, lost workers."""

from __future__ import annotations

import contextlib
from typing import Any

from functory.engine.database.schema import execution, firing
from functory.engine.errors import Conflict
from functory.engine.executions.compensation.operator_commands import Compensations
from tests.simulation.batches.scenarios import scenario
from tests.simulation.batches.scripted_runner import Call, Ended, WorkerKilled
from tests.simulation.batches.stepped_engine import SteppedEngine


def _on_ticks(engine: SteppedEngine, function: str, count: int = 12) -> None:
    engine.trigger("t", function, "tick")
    engine.emit("tick", *range(count))
    engine.settle()


@scenario()
def retries_failures_and_timeouts(engine: SteppedEngine) -> None:
    def ends(call: Call) -> Any:
        kind = call.number % 6
        if kind == 1 and call.attempt == 1:
            call.fail()
        if kind == 2:
            call.fail("always")
        if kind == 3:
            raise Ended("timed_out", error={"type": "TimedOut", "message": "too long"})
        if kind == 4:
            raise Ended("crashed", error={"type": "Crashed", "message": "gone"}, signal=9)
        if kind == 5:
            raise Ended("invalid_input", error={"type": "InvalidInput", "message": "wrong"})
        return {"n": call.number}

    engine.function("work", ends, limits={"retries": 2, "retry_delay": 2, "max_attempts": 3})
    engine.function("after")
    engine.trigger("ended", "after", {"type": ["execution.failed", "execution.dead"]})
    _on_ticks(engine, "work", 18)
    for _ in range(6):
        engine.advance(10)
        engine.settle()


@scenario()
def output_logs_spans_and_warnings(engine: SteppedEngine) -> None:
    def leaves(call: Call) -> Any:
        if call.number % 3 == 0:
            call.say(f"line of {call.number}")
            call.say("second line")
        if call.number % 3 == 1:
            call.span("other", {"n": call.number}, call.number)
        if call.number % 5 == 4:
            raise Ended("succeeded", result=call.number, warnings=["a warning"])
        return {"text": "value", "n": call.number, "list": [1, 2.5, None, True, "ü"]}

    engine.function("work", leaves)
    _on_ticks(engine, "work", 16)


@scenario(author_grants=["write"])
def files_in_a_watched_folder(engine: SteppedEngine) -> None:
    folder = engine.world.home.parent / "out"
    folder.mkdir(parents=True, exist_ok=True)

    def writes(call: Call) -> Any:
        if call.number % 2:
            file = folder / f"{call.number % 5}.txt"
            file.write_text(f"content {call.number}")
            call.files.append(str(file).encode())
        if call.number == 3:
            call.fail()

    engine.world.sources.save("file", "inbox", {"path": str(folder)})
    engine.function("work", writes, files={"write": [str(folder)]})
    _on_ticks(engine, "work")


@scenario()
def state_of_functions(engine: SteppedEngine) -> None:
    def counts(call: Call) -> Any:
        found = call.host.state_get("count") or (0, 0)
        return call.host.state_set("count", found[0] + call.number, found[1])

    engine.function("work", counts)
    _on_ticks(engine, "work")


@scenario()
def output_patterns(engine: SteppedEngine) -> None:
    engine.function(
        "work",
        lambda call: f"ERROR {call.number}" if call.number % 2 else f"fine {call.number}",
        output_patterns={"error": "ERROR (?P<code>[0-9]+)"},
    )
    engine.function("alarm")
    engine.trigger("on-error", "alarm", {"type": ["output.matched"], "data": {"pattern": ["error"]}})
    _on_ticks(engine, "work")


@scenario()
def emitting_functions(engine: SteppedEngine) -> None:
    def emits(call: Call) -> Any:
        call.emit("child", {"n": call.number})
        call.emit("child", {"n": call.number})
        call.emit("other", {"n": call.number}, subject=f"s{call.number % 2}")
        if call.number % 3 == 0 and call.attempt == 1:
            call.fail()

    engine.function("work", emits, limits={"retries": 1, "retry_delay": 1})
    engine.function("listen")
    engine.trigger("on-child", "listen", "child")
    engine.trigger("on-subject", "listen", {"type": ["other"], "subject": ["s1"]})
    _on_ticks(engine, "work")
    engine.advance(5)
    engine.settle()


@scenario()
def children(engine: SteppedEngine) -> None:
    def parent(call: Call) -> Any:
        first = call.call("child", given={"n": call.number})
        rest = call.gather("child", *({"given": {"n": 100 * call.number + k}} for k in range(3)))
        return [first, [one["ok"] for one in rest]]

    engine.function("parent", parent)
    engine.function("child", lambda call: call.fail() if call.number == 102 else call.number)
    _on_ticks(engine, "parent", 8)


@scenario()
def durable_calls(engine: SteppedEngine) -> None:
    def parent(call: Call) -> Any:
        found = [call.call("once", durable=True, given={"n": call.number * 10 + k}) for k in range(2)]
        if call.attempt == 1 and call.number % 2:
            call.fail()
        return found

    def once(call: Call) -> Any:
        if call.number == 41:
            call.fail("once in a while")
        return call.number

    engine.function("parent", parent, limits={"retries": 1, "retry_delay": 1})
    engine.function("once", once)
    _on_ticks(engine, "parent", 8)
    engine.advance(5)
    engine.settle()


@scenario()
def compensation(engine: SteppedEngine) -> None:
    def order(call: Call) -> Any:
        call.call("reserve", durable=True, given={"n": call.number})
        call.call("pay", durable=True, given={"n": call.number})
        if call.number % 3:
            call.fail("sold out")

    def refund(call: Call) -> Any:
        if refused:
            call.fail("the bank is closed")

    refused = [True]
    engine.function("unreserve")
    engine.function("refund", refund)
    engine.function("reserve", lambda call: {"reserved": call.number}, compensate="unreserve")
    engine.function(
        "pay", lambda call: call.fail() if call.number == 5 else {"paid": call.number}, compensate="refund"
    )
    engine.function("order", order)
    _on_ticks(engine, "order", 8)
    refused.clear()
    for row in engine.world.rows(execution, execution.c.function == "order"):
        with contextlib.suppress(Conflict):
            Compensations(engine.world.database).retry(row["id"])
    engine.settle()


@scenario(root_budget=3)
def replays(engine: SteppedEngine) -> None:
    def fan(call: Call) -> Any:
        for k in range(4):
            call.emit("leaf", {"n": 10 * call.number + k})

    engine.function("fan", fan)
    engine.function("leaf", lambda call: call.fail() if call.number % 10 == 0 else None)
    engine.trigger("leaf", "leaf", "leaf")
    _on_ticks(engine, "fan", 4)
    for row in engine.world.rows(execution, execution.c.function == "leaf", execution.c.state == "failed"):
        engine.world.executions.replay(row["id"])
        engine.world.executions.replay(row["id"], latest=True)
    for row in engine.world.rows(firing, firing.c.decision == "suppressed"):
        engine.world.replay_suppressed("leaf", row["event_id"])
    engine.settle()


@scenario()
def executions_started_by_hand(engine: SteppedEngine) -> None:
    engine.function("work", lambda call: call.number, limits={"priority": 2})
    engine.function("late", limits={"expires": 5})
    for number in range(9):
        engine.start("work", number)
    for number in range(4):
        engine.start("work", number, delay=10.0)
        engine.start("late", number, delay=1.0)
        engine.start("work", number, idempotency_key=f"key {number % 2}")
    engine.settle()
    engine.advance(8)
    engine.reap()
    engine.settle()
    engine.advance(5)
    engine.settle()


@scenario()
def cancellation(engine: SteppedEngine) -> None:
    """Executions are cancelled while they wait, after they were sent, while they run, and between attempts."""

    def work(call: Call) -> Any:
        if call.number == 4:
            engine.world.executions.cancel(call.job.execution_id)
            raise Ended("killed", kill_reason="cancelled")
        if call.number == 5:
            engine.world.executions.cancel(call.job.execution_id)
            call.fail("cancelled while it fails")
        if call.number == 6:
            call.fail("waits for its retry")

    engine.function("work", work, limits={"retries": 1, "retry_delay": 10})
    rows = [engine.start("work", number) for number in range(9)]
    engine.world.executions.cancel(rows[1]["id"])
    engine.dispatch()
    engine.world.executions.cancel(rows[2]["id"])
    engine.settle()
    engine.world.executions.cancel(rows[6]["id"])
    engine.settle()
    engine.advance(15)
    engine.settle()


@scenario()
def a_lost_worker(engine: SteppedEngine) -> None:
    """Its execution is alone in its message: the others of a message share the fate of their worker."""

    def dies(call: Call) -> Any:
        call.emit("begun", {"n": call.number}, subject=str(call.attempt))
        if call.attempt < 3:
            raise WorkerKilled

    engine.function("mortal", dies)
    engine.function("work")
    engine.trigger("t", "mortal", "tick")
    engine.emit("tick", 1)
    for _ in range(4):
        engine.settle()
        engine.wait_for_the_reaper()
    engine.trigger("u", "work", "begun")
    _on_ticks(engine, "work", 9)


@scenario()
def lost_messages(engine: SteppedEngine) -> None:
    engine.function("work")
    engine.trigger("t", "work", "tick")
    engine.emit("tick", *range(9))
    engine.route()
    engine.dispatch()
    engine.messages.clear()
    engine.settle()
    for _ in range(3):
        engine.advance(100)
        engine.settle()


@scenario()
def inputs_and_outputs_that_do_not_fit(engine: SteppedEngine) -> None:
    engine.function(
        "typed",
        lambda call: {"out": "text" if call.job.input["n"] % 2 else call.job.input["n"]},
        parameters="n: int = 0",
        input_parameters=[{"name": "n", "type": "int"}],
        output_parameters=[{"name": "out", "type": "int"}],
        validate_output=True,
    )
    engine.trigger("t", "typed", "tick", input={"n": "{{ event.data.n }}"})
    engine.emit("tick", *range(9))
    engine.emit("tick", "no number")  # type: ignore[arg-type]
    engine.settle()
