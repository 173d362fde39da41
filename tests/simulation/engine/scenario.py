"""Scenarios: a few triggers and functions, the requests of clients, and the expected results.

A deck is small on purpose: few executions with many interleavings find more defects than many executions. Its
triggers test only the type of an event and the function that the event is about. So the checks know without the
engine's own matcher which events fire them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from functory.engine.settings import Settings
from functory.triggers.routing.trigger_set import TriggerSet

if TYPE_CHECKING:
    from tests.simulation.engine.world import World

# The type of the events at which the router fails.
POISON = "poison"

FAILED = ("execution.failed", "execution.timed_out", "execution.dead")


@dataclass(frozen=True)
class Act:
    """One action of a running function: it emits an event of a type, or calls a function."""

    emits: str = ""
    calls: str = ""
    durable: bool = False


@dataclass(frozen=True)
class Behaviour:
    """The behaviour of a function: its actions, its duration and its outcome."""

    acts: Sequence[Act] = ()
    seconds: Sequence[float] = (0.0, 0.2, 1.0, 6.0)
    ends: Mapping[str, float] = field(
        default_factory=lambda: {"succeeded": 0.85, "failed": 0.1, "crashed": 0.05}
    )
    # The first attempt that succeeds; 0 when none does.
    sure_from: int = 0
    limits: Mapping[str, Any] = field(default_factory=dict)
    compensate: str | None = None

    def outcome(self, rng: Random, attempt: int) -> str:
        """The outcome of this attempt."""
        if self.sure_from and attempt >= self.sure_from:
            return "succeeded"
        return rng.choices(list(self.ends), list(self.ends.values()))[0]


@dataclass(frozen=True)
class Rule:
    """A trigger: for events of these types, about this function, start that one."""

    types: Sequence[str]
    function: str
    subject: str | None = None
    guards: Mapping[str, Any] = field(default_factory=dict)
    flow: Mapping[str, Any] = field(default_factory=dict)

    def fires_for(self, type_: str, subject: str | None) -> bool:
        """True when an event matches."""
        return type_ in self.types and self.subject in (None, subject)

    def on(self) -> dict[str, Any]:
        """The event pattern of the trigger."""
        return {"type": list(self.types)} | ({"subject": [self.subject]} if self.subject else {})


@dataclass
class Deck:
    """One scenario: its functions, its triggers, its settings, and the requests of its clients."""

    name: str
    behaviours: Mapping[str, Behaviour]
    rules: Mapping[str, Rule]
    # The requests of clients are drawn from these keys of ``clients.DEEDS``.
    deeds: Sequence[str] = ("tick",)
    count: Sequence[int] = (1, 2, 3)
    options: Mapping[str, Any] = field(default_factory=dict)
    triggers: TriggerSet | None = None

    @cached_property
    def settings(self) -> Settings:
        """The settings of all roles."""
        given: dict[str, Any] = {
            "lease_seconds": 4.0,
            "heartbeat_seconds": 1.3,
            "redispatch_seconds": 5.0,
            # A broker that subscribers could reach; the simulated one replaces it.
            "broker_url": "redis://127.0.0.1:1/0",
        } | dict(self.options)
        return Settings(home=Path("/nonexistent"), **given)

    @property
    def flows(self) -> bool:
        """True when a trigger of the deck uses flow control."""
        return any(rule.flow for rule in self.rules.values())

    @property
    def undoes(self) -> bool:
        """True when the deck has compensations."""
        return any(one.compensate for one in self.behaviours.values())

    def cured(self, world: World) -> bool:
        """True when the router no longer fails at events of the poison type."""
        return bool(world.deck_state.get("cured"))

    def lend_triggers(self, found: TriggerSet) -> None:
        """Give a new router the compiled triggers that have not changed since the template was made."""
        if self.triggers is not None:
            found.version = self.triggers.version
            for name in ("_compiled", "_patterns", "_keys"):
                getattr(found, name).update(getattr(self.triggers, name))
            for key, place in self.triggers._patterns.items():
                found._index.add(key, place.pattern)


def _plain() -> Deck:
    return Deck(
        "plain",
        {"a": Behaviour(limits={"retries": 1, "retry_delay": 1}), "b": Behaviour()},
        {"ta": Rule(["tick"], "a"), "tb": Rule(["tick", "tock"], "b")},
        deeds=("tick", "tock"),
    )


def _chain() -> Deck:
    return Deck(
        "chain",
        {
            "first": Behaviour((Act(emits="step"),), ends={"succeeded": 0.8, "failed": 0.2}),
            "second": Behaviour(),
            "mourner": Behaviour(ends={"succeeded": 1.0}),
        },
        {
            "begin": Rule(["tick"], "first"),
            "then": Rule(["step"], "second"),
            "mourn": Rule(FAILED, "mourner", subject="first"),
        },
        count=(1, 1, 2),
    )


def _cycle() -> Deck:
    sure = {"succeeded": 0.95, "failed": 0.05}
    return Deck(
        "cycle",
        {
            "ping": Behaviour((Act(emits="pong"),), seconds=(0.0, 0.2), ends=sure),
            "pong": Behaviour((Act(emits="tick"),), seconds=(0.0, 0.2), ends=sure),
        },
        {
            "to-ping": Rule(["tick"], "ping", guards={"max_revisits": 0}),
            "to-pong": Rule(["pong"], "pong", guards={"max_revisits": 0}),
        },
        count=(1,),
        options={"max_depth": 3, "root_budget": 20},
    )


def _fanout() -> Deck:
    return Deck(
        "fan-out",
        {"spread": Behaviour((Act(emits="tick"),), seconds=(0.0, 0.1), ends={"succeeded": 1.0})},
        {
            f"t{number}": Rule(["tick"], "spread", guards={"max_revisits": 0, "allow_self": True})
            for number in range(2)
        },
        count=(1,),
        options={"root_budget": 4, "max_depth": 4},
    )


def _calls() -> Deck:
    return Deck(
        "started by hand",
        {
            "flaky": Behaviour(
                seconds=(0.0, 0.3, 2.0, 9.0),
                ends={"succeeded": 0.4, "failed": 0.25, "timed_out": 0.1, "crashed": 0.15, "kill": 0.1},
                limits={"retries": 2, "retry_delay": 1.0, "max_attempts": 3, "priority": 5},
            ),
            "late": Behaviour(seconds=(0.0, 1.0), limits={"expires": 4.0}),
        },
        {},
        deeds=(
            "start flaky",
            "start flaky",
            "start late",
            "start with key",
            "start delayed",
            "cancel",
            "replay",
        ),
        count=(2, 3, 4),
    )


def _poison() -> Deck:
    return Deck(
        "poison",
        {"a": Behaviour(seconds=(0.0, 0.2), ends={"succeeded": 1.0})},
        {"ta": Rule(["tick"], "a"), "tp": Rule([POISON], "a")},
        deeds=("tick", "poison", "poison", "release"),
        count=(2, 3),
    )


def _concurrency_group() -> Deck:
    return Deck(
        "concurrency group",
        {
            "alone": Behaviour(
                seconds=(0.0, 0.3, 2.0, 6.0),
                ends={"succeeded": 0.7, "failed": 0.2, "crashed": 0.1},
                limits={"retries": 1, "retry_delay": 1.0},
            )
        },
        {"one-by-one": Rule(["tick"], "alone", flow={"concurrency": {"limit": 1}})},
        count=(2, 3),
    )


def _debounce() -> Deck:
    return Deck(
        "debounce",
        {"quiet": Behaviour(seconds=(0.0,), ends={"succeeded": 1.0})},
        {"calm": Rule(["tick"], "quiet", flow={"debounce": {"period": "2s", "timeout": "10s"}})},
        count=(2, 3, 4),
    )


def _batch() -> Deck:
    return Deck(
        "batch",
        {"several": Behaviour(seconds=(0.0,), ends={"succeeded": 1.0})},
        {"gather": Rule(["tick"], "several", flow={"batch": {"max_size": 2, "timeout": "5s"}})},
        count=(2, 3, 4),
    )


def _children() -> Deck:
    return Deck(
        "children",
        {
            "parent": Behaviour(
                (Act(calls="child"), Act(emits="reported")),
                seconds=(0.0, 0.5),
                limits={"retries": 1, "retry_delay": 1.0},
            ),
            "child": Behaviour(ends={"succeeded": 0.9, "failed": 0.1}),
            "listener": Behaviour(seconds=(0.0,), ends={"succeeded": 1.0}),
        },
        {"listen": Rule(["reported"], "listener")},
        deeds=("start parent",),
        count=(1, 2),
    )


def _operator() -> Deck:
    return Deck(
        "operator",
        {"a": Behaviour(seconds=(0.0, 1.0)), "b": Behaviour(seconds=(0.0,), ends={"succeeded": 1.0})},
        {"ta": Rule(["tick"], "a"), "tb": Rule(["tick"], "b")},
        deeds=("tick", "tick", "pause", "resume", "change", "halt", "go on", "cancel"),
        count=(3, 4, 5),
    )


def _ends() -> Deck:
    """A trigger on events of workers comes and goes."""
    return Deck(
        "ends",
        {
            "a": Behaviour(seconds=(0.0, 1.0)),
            "b": Behaviour(seconds=(0.0,), ends={"succeeded": 1.0}),
        },
        {"tb": Rule(["execution.started", "execution.succeeded"], "b", "a")},
        deeds=("start a", "start a", "delete", "change"),
        count=(8, 12, 16),
    )


def _durable() -> Deck:
    return Deck(
        "durable calls",
        {
            "caller": Behaviour(
                (Act(calls="once", durable=True), Act(calls="once", durable=True)),
                seconds=(0.0, 0.5),
                ends={"succeeded": 0.4, "failed": 0.6},
                limits={"retries": 2, "retry_delay": 1.0, "max_attempts": 3},
            ),
            "once": Behaviour(seconds=(0.0, 0.5, 3.0), ends={"succeeded": 0.85, "failed": 0.15}),
        },
        {},
        deeds=("start caller",),
        count=(1,),
    )


def _saga() -> Deck:
    sure = {"succeeded": 1.0}
    return Deck(
        "saga",
        {
            "order": Behaviour(
                (Act(calls="reserve", durable=True), Act(calls="pay", durable=True)),
                seconds=(0.0, 1.0),
                ends={"succeeded": 0.3, "failed": 0.7},
                limits={"retries": 1, "retry_delay": 1.0},
            ),
            "reserve": Behaviour(seconds=(0.0, 0.5), ends=sure, compensate="unreserve"),
            "pay": Behaviour(seconds=(0.0, 0.5), ends={"succeeded": 0.8, "failed": 0.2}, compensate="refund"),
            "unreserve": Behaviour(
                seconds=(0.0, 1.0), ends={"succeeded": 0.8, "failed": 0.2}, limits={"retries": 1}
            ),
            "refund": Behaviour(seconds=(0.0, 1.0), ends=sure),
        },
        {},
        deeds=("start order", "start order", "cancel"),
        count=(1, 2),
    )


def _burst() -> Deck:
    """Many events at once: batches of the router and messages of many executions."""
    return Deck(
        "burst",
        {
            "quick": Behaviour(seconds=(0.0,), ends={"succeeded": 1.0}),
            "mixed": Behaviour(
                seconds=(0.0, 0.0, 0.3, 3.0),
                ends={"succeeded": 0.7, "failed": 0.15, "crashed": 0.1, "timed_out": 0.05},
                limits={"retries": 1, "retry_delay": 1.0},
            ),
            "emits": Behaviour((Act(emits="step"),), seconds=(0.0,), ends={"succeeded": 0.9, "failed": 0.1}),
        },
        {
            "quickly": Rule(["tick", "step"], "quick"),
            "mixedly": Rule(["tick"], "mixed"),
            "emitting": Rule(["tock"], "emits"),
        },
        deeds=("many tick", "many tick", "many tock", "tick", "cancel"),
        count=(1, 2, 2),
    )


MAKERS: Sequence[Callable[[], Deck]] = (
    _plain,
    _burst,
    _chain,
    _cycle,
    _fanout,
    _calls,
    _poison,
    _concurrency_group,
    _debounce,
    _batch,
    _children,
    _operator,
    _ends,
    _durable,
    _saga,
)
