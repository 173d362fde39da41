"""Compares backtests with real runs, decision by decision: random triggers, flow control, guards and event streams.

The real run is the router and the release service on a database, with a virtual clock. Events are written in any order
of their own times, some are routed late and together, timers run at their times. The backtest reads the events that
are left, and must come to the same decision about each of them. A trigger in shadow beside the real one must as well.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from functory.engine.database import schema
from functory.engine.database.clock import ManualClock
from functory.engine.events import store as event_store
from functory.engine.events.causation import Cause
from functory.triggers import definition
from functory.triggers.analysis.replay import Replay
from functory.triggers.routing.release import Release
from functory.triggers.routing.router import Router
from tests.support.aging_world import ids_of
from tests.support.backtests import backtested, decided, really_decided
from tests.support.thoroughness import amount
from tests.support.world import World, on_postgresql

pytest_plugins = ["tests.support.world"]

START = datetime(2026, 1, 1, tzinfo=UTC)
END = 400.0
# Two transactions have different times, and an id tells its time in milliseconds.
INSTANT = 0.001

KEYS = st.sampled_from([None, "data.k", "string(data.n % 2)", "data.k", "data.missing"])
SECONDS = st.sampled_from(["1s", "3s", "10s", "40s"])


def keyed(**fields: Any) -> Any:
    """A control with these fields, and with a key or without."""
    return st.fixed_dictionaries(fields, optional={"key": KEYS}).map(
        lambda found: {name: value for name, value in found.items() if value is not None}
    )


RATES = keyed(limit=st.integers(1, 3), period=SECONDS, burst=st.integers(1, 3))

# Controls that combine with every other one.
COMMON: dict[str, Any] = {
    "idempotency": st.fixed_dictionaries({"key": st.sampled_from(["data.k", "data.n"]), "window": SECONDS}),
    "rate_limit": RATES,
    "throttle": RATES,
    "concurrency": keyed(limit=st.integers(1, 2)),
    "priority": st.just({"run": "data.n"}),
    "expires": SECONDS,
}
STOP = {"on": {"type": ["c"]}, "when": "data.k == started.data.k"}
DEBOUNCE = st.fixed_dictionaries(
    {"period": st.sampled_from(["2s", "5s"])},
    optional={"key": st.sampled_from(["data.k"]), "timeout": st.just("9s"), "keep": st.just("all")},
)
BATCH = st.fixed_dictionaries(
    {"max_size": st.integers(1, 4), "timeout": SECONDS},
    optional={"key": st.just("data.k"), "if": st.just("data.n % 3 != 0"), "max_bytes": st.just(60)},
)
WAITS = st.one_of(
    st.just({}),
    st.just({"cancel_on": [STOP]}),
    st.fixed_dictionaries({"debounce": DEBOUNCE}, optional={"cancel_on": st.just([STOP])}),
    st.fixed_dictionaries({"batch": BATCH}),
)

PARTS = [{"on": {"type": [type_]}} for type_ in "abc"]
RULES = st.sampled_from(
    [
        {"all": PARTS[:2]},
        {"any": PARTS[:2]},
        {"n_of": {"n": 2, "parts": PARTS}},
        {"sequence": PARTS[:2]},
        {"threshold": {"count": 3, **PARTS[0]}},
        {"absence": {"of": PARTS[1], "after": PARTS[0]}},
        {"absence": {"of": PARTS[0]}},
    ]
)
COMPOSITES = st.fixed_dictionaries(
    {"within": SECONDS, "allowance": st.sampled_from(["0s", "2s"])}, optional={"key": st.just("data.k")}
)

GUARDS = st.fixed_dictionaries(
    {"rate": st.sampled_from([0, 0, 1, 3])},
    optional={
        "budget": st.integers(1, 4),
        "max_depth": st.integers(1, 3),
        "max_revisits": st.integers(0, 2),
        "allow_self": st.just(True),
    },
)
FUNCTIONS = st.sampled_from(["work", "work", "work", "work@1", "work@7", "missing", "off", "strict"])


@st.composite
def triggers(draw: Any, guards: Any = GUARDS) -> dict[str, Any]:
    """The fields of a definition."""
    found: dict[str, Any] = {
        "function": draw(FUNCTIONS),
        "guards": draw(guards),
        "input": draw(st.sampled_from([None, None, {"given": "{{ event.data.x }}"}])),
    }
    names = draw(st.sets(st.sampled_from(sorted(COMMON)), max_size=2))
    flow = {name: draw(COMMON[name]) for name in sorted(names)}
    if draw(st.integers(0, 2)) == 0:
        found["composite"] = draw(RULES) | draw(COMPOSITES)
    else:
        found["on"] = {"type": draw(st.sampled_from([["a"], ["a", "b"]]))}
        found["when"] = draw(st.sampled_from([None, "data.n % 4 != 1", "data.x > 0"]))
        flow |= draw(WAITS)
    return found | ({"flow": flow} if flow else {})


@dataclass(frozen=True)
class Step:
    """An event after ``gap`` seconds, ``age`` seconds old, and whether all pending events are routed then.

    ``cause`` makes it an event of an execution: of the trigger itself, of the root of the event before, or of both.
    """

    gap: float
    type: str
    key: str
    number: int
    fits: bool
    age: float
    routed: bool
    cause: str
    subject: str


def streams(*causes: str) -> Any:
    step = st.builds(
        Step,
        gap=st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0, 5.0, 11.0]),
        type=st.sampled_from("aaabc"),
        key=st.sampled_from("xxy"),
        number=st.integers(0, 5),
        fits=st.booleans(),
        age=st.sampled_from([0.0, 0.0, 0.0, 1.0, 4.0, -3.0]),
        routed=st.sampled_from([True, True, True, False]),
        cause=st.sampled_from(["", *causes]),
        subject=st.sampled_from("st"),
    )
    return st.lists(step, min_size=4, max_size=24)


class RealRun:
    """The engine on an emptied database, with a virtual clock that ids follow."""

    def __init__(self, world: World) -> None:
        self.world = world
        with world.database.write() as tx:
            for table in reversed(schema.metadata.sorted_tables):
                tx.execute(sa.delete(table))
        world.clock = world.database.clock = ManualClock(START)
        world.database.new_id = ids_of(world.database)
        world.router = Router(world.database, world.settings)
        world.turn = Release(world.database, world.settings)
        world.function()
        world.function("off")
        world.functions.disable("off")
        world.function("strict", "x")
        self.roots: list[str] = []

    def play(self, story: Sequence[Step]) -> None:
        self.route()
        for step in story:
            self.pass_time(max(step.gap, INSTANT))
            self.emit(step)
            # The release service runs whether or not events are routed.
            if step.routed:
                self.route()
            else:
                self.turn()
        self.route()
        self.pass_time(END)
        self.turn()

    def emit(self, step: Step) -> None:
        id_ = self.world.triggers.get("t")["id"]
        link = {"trigger": id_, "name": "t", "subject": step.subject, "event": id_}
        data = {"k": step.key, "n": step.number} | ({"x": 1} if step.fits else {})
        with self.world.database.write() as tx:
            cause = None
            if step.cause:
                root = self.roots[-1] if self.roots and "root" in step.cause else tx.new_id()
                chain = (link,) if "trigger" in step.cause else ()
                cause = Cause(tx.new_id(), 1, root, len(chain) + step.number % 2, chain, "work")
            row = event_store.record(
                tx,
                step.type,
                step.subject,
                data,
                source="/test",
                cause=cause,
                time=tx.now - timedelta(seconds=step.age),
            )
            event_store.append(tx, [row])
        self.roots.append(row["root_id"])

    def route(self) -> None:
        while self.world.router.route_batch().events:
            pass
        self.turn()

    def turn(self) -> None:
        # A cancellation leaves buffers that are due: they are decided in the next round.
        for _ in range(2):
            for _ in range(200):
                if not self.world.turn.run_once():
                    break
        # The engine's own reports are routed at once; a composite waits for pending events of every type.
        event = schema.event
        with self.world.database.write() as tx:
            mine = event.update().where(event.c.state == "pending", event.c.type.startswith("trigger."))
            tx.execute(mine.values(state="routed", routed_at=tx.now))

    def pass_time(self, seconds: float) -> None:
        """Move the clock, with a stop at each time at which a buffer is due on the way."""
        end = self.world.clock.now() + timedelta(seconds=seconds)
        clock = self.world.clock
        assert isinstance(clock, ManualClock)
        for _ in range(500):
            with self.world.database.read() as tx:
                due = tx.scalar(
                    sa.select(sa.func.min(schema.match_buffer.c.due_at)).where(
                        schema.match_buffer.c.due_at > clock.now()
                    )
                )
            if due is None or due >= end:
                break
            clock.set(due)
            self.turn()
        else:
            raise AssertionError("the timers do not end")
        clock.set(end)

    def reasons(self, name: str) -> dict[str, str]:
        """What became of each event of the story: the reason, or `fired`."""
        id_ = self.world.triggers.get(name)["id"]
        silences = {row["id"] for row in self.world.rows(schema.event) if row["type"] == "trigger.silent"}
        return {
            row["event_id"]: row["reason"] or "fired"
            for row in self.world.rows(schema.firing, schema.firing.c.trigger_id == id_)
            if row["event_id"] not in silences
        }


class Recorded:
    """The reasons of a backtest by event: the result itself only counts them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.reasons: dict[str, str] = {}
        suppress = Replay._suppress

        def record(replay: Replay, refused: Any) -> None:
            for row, stop in refused:
                if row.type == "trigger.silent":
                    continue
                assert row.id not in self.reasons, "one decision about each event"
                self.reasons[row.id] = stop.reason
            suppress(replay, refused)

        patch.setattr(Replay, "_suppress", record)


def save(world: World, name: str, fields: dict[str, Any], *, shadow: bool = False) -> None:
    world.triggers.save(name, definition.define(**fields), shadow=shadow)


def check_backtest(world: World, fields: dict[str, Any], story: Sequence[Step]) -> Counter[str]:
    """Run a story, and compare. Returns the real decisions, counted."""
    run = RealRun(world)
    save(world, "t", fields)
    run.play(story)
    with pytest.MonkeyPatch.context() as patch:
        recorded = Recorded(patch)
        result = backtested(world, "t")
    real = run.reasons("t")
    fired = {id_ for id_, reason in real.items() if reason == "fired"}
    silent = {row["id"] for row in world.rows(schema.event)}
    assert {id_ for id_ in result.draft.decisions.fired_ids if id_ in silent} == fired
    assert recorded.reasons == {id_: reason for id_, reason in real.items() if reason != "fired"}
    assert decided(result) == really_decided(world, "t")
    assert not result.draft.decisions.unknown
    return Counter(real.values())


OPTIONS: dict[str, Any] = {
    "phases": (Phase.generate, Phase.shrink),
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
}


@settings(max_examples=amount(15, 300), **OPTIONS)
@given(fields=triggers(), story=streams("", "root", "trigger", "trigger and root"))
def test_a_backtest_is_the_real_run(memory: World, fields: dict[str, Any], story: list[Step]) -> None:
    check_backtest(memory, fields, story)


@on_postgresql
@settings(max_examples=amount(3, 20), **OPTIONS)
@given(fields=triggers(), story=streams("", "root", "trigger"))
def test_a_backtest_is_the_real_run_on_postgresql(
    world: World, fields: dict[str, Any], story: list[Step]
) -> None:
    check_backtest(world, fields, story)


# A trigger in shadow takes nothing from budgets and the real one does: only limits of their own are compared.
OWN_GUARDS = st.fixed_dictionaries({"rate": st.sampled_from([0, 0, 1, 3])})


@settings(max_examples=amount(10, 150), **OPTIONS)
@given(fields=triggers(OWN_GUARDS), story=streams())
def test_a_shadow_is_the_real_trigger_beside_it(
    memory: World, fields: dict[str, Any], story: list[Step]
) -> None:
    run = RealRun(memory)
    save(memory, "t", fields)
    save(memory, "shadow", fields, shadow=True)
    run.play(story)
    shadow = {id_: "fired" if reason == "shadow" else reason for id_, reason in run.reasons("shadow").items()}
    assert shadow == run.reasons("t")
    real = memory.triggers.get("t")["id"]
    assert {row["trigger_id"] for row in memory.rows(schema.execution)} <= {real}


@settings(max_examples=amount(10, 150), **OPTIONS)
@given(
    story=streams(),
    policy=st.sampled_from(["skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other"]),
    works=st.lists(st.booleans(), min_size=24, max_size=24),
    debounced=st.booleans(),
)
def test_what_a_backtest_knows_is_true_however_long_executions_run(
    memory: World, story: list[Step], policy: str, works: list[bool], debounced: bool
) -> None:
    """With overlap policies it may not know; what it does decide holds for every length of the executions."""
    run = RealRun(memory)
    flow: dict[str, Any] = {"overlap": {"policy": policy, "key": "data.k"}}
    flow |= {"debounce": {"period": "2s", "key": "data.n"}} if debounced else {}
    save(memory, "t", {"on": {"type": ["a"]}, "function": "work", "guards": {"rate": 0}, "flow": flow})
    run.route()
    for step, works_now in zip(story, works, strict=False):
        run.pass_time(max(step.gap, INSTANT))
        run.emit(step)
        run.route()
        if works_now:
            memory.work()
            run.turn()
    run.pass_time(END)
    run.turn()
    result = backtested(memory, "t")
    real = run.reasons("t")
    fired = {id_ for id_, reason in real.items() if reason == "fired"}
    known = result.draft.decisions
    assert known.fired_ids <= fired
    assert len(known.fired_ids) + known.unknown.total() >= len(fired)
    assert known.matched == len(real)


PLAIN: dict[str, Any] = {"on": {"type": ["a"]}, "function": "work", "guards": {"rate": 0}}

# A trigger for each decision that a match can end with.
ENDS: dict[str, dict[str, Any]] = {
    "fired": PLAIN,
    "own_event": PLAIN,
    "cycle": PLAIN | {"guards": {"rate": 0, "allow_self": True}},
    "depth": PLAIN | {"guards": {"rate": 0, "max_depth": 1, "allow_self": True, "max_revisits": 0}},
    "budget": PLAIN | {"on": {"type": ["a", "b", "c"]}, "guards": {"rate": 0, "budget": 1}},
    "rate": PLAIN | {"guards": {"rate": 1}},
    "breaker_open": PLAIN | {"guards": {"rate": 1}},
    "condition_error": PLAIN | {"when": "data.x > 0"},
    "function_unavailable": PLAIN | {"function": "off"},
    "input_error": PLAIN | {"input": {"given": "{{ event.data.x }}"}},
    "idempotent": PLAIN | {"flow": {"idempotency": {"key": "data.k", "window": "3s"}}},
    "rate_limited": PLAIN | {"flow": {"rate_limit": {"limit": 1, "period": "3s", "key": "data.k"}}},
    "debounced": PLAIN | {"flow": {"debounce": {"period": "2s"}}},
    "cancelled": PLAIN | {"flow": {"debounce": {"period": "5s"}, "cancel_on": [STOP]}},
    "late": {"composite": {"all": PARTS[:2], "within": "10s", "allowance": "0s"}, "function": "work"},
    "unmatched": {
        "composite": {"sequence": PARTS[:2], "within": "1s", "allowance": "0s"},
        "function": "work",
    },
    "awaited": {"composite": {"absence": {"of": PARTS[0]}, "within": "3s"}, "function": "work"},
}

# Events of all kinds, some routed together, one late, some of the trigger's own and of the root before.
DENSE = [
    Step(
        gap=[0.5, 0.0, 1.0][number % 3],
        type="aabac"[number % 5],
        key="xxy"[number % 3],
        number=number % 6,
        fits=number % 2 == 0,
        age=4.0 if number == 13 else 0.0,
        routed=number % 4 != 2,
        cause={3: "trigger", 5: "root", 6: "root", 11: "trigger", 15: "root", 20: "root"}.get(number, ""),
        subject="s",
    )
    for number in range(24)
]


@pytest.mark.parametrize("reason", ENDS)
def test_each_decision_occurs_and_is_the_same(memory: World, reason: str) -> None:
    assert check_backtest(memory, ENDS[reason], DENSE)[reason]


def test_a_story_with_every_delay(memory: World) -> None:
    """A composite whose events are routed late and together, in the wrong order of their times."""
    times = itertools.count()
    story = [
        Step(0.5, "ab"[number % 2], "x", next(times) % 6, True, age, number % 4 == 3, "", "s")
        for number, age in enumerate([0.0, 4.0, 1.0, 0.0, -3.0, 4.0, 0.0, 1.0] * 3)
    ]
    composite = {"sequence": PARTS[:2], "within": "10s", "allowance": "2s"}
    seen = check_backtest(memory, {"function": "work", "composite": composite}, story)
    assert seen["fired"] and seen["unmatched"]
