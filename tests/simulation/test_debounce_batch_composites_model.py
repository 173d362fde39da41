"""Compares debounce, batch and composites with plain, slow models over the whole list of events.

A story has events with times of their own, in any order, two routers, two releases, and a virtual clock. Some
transactions are killed before their commit. In the end each event has exactly one decision, and the firings are those
of the model.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from functory.engine.database import schema
from functory.engine.database.clock import ManualClock
from functory.engine.events import store as event_store
from functory.triggers import definition
from tests.simulation.engine.mutants import Edit, Mutant
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
SPAN = 10


class Killed(BaseException):
    """A process is killed before its commit."""


@dataclass(frozen=True)
class Emitted:
    """An event of the story: its id, type, key, own time, and the time of its routing (seconds)."""

    id: str
    type: str
    key: str
    at: float
    routed: float


@dataclass
class End:
    """The end of a story: the events of each execution in order, and the reason of every other event."""

    emitted: list[Emitted]
    fired: list[tuple[str, ...]]
    reasons: dict[str, str]
    log: list[tuple[float, list[str] | None]]


ACTS = ("route", "turn", "kill route", "kill turn")


def stories(ages: Sequence[int], types: str = "abc") -> Any:
    """The rounds of a story: events (type, key, age in seconds), a wait, and the work of the processes after it."""
    event = st.tuples(st.sampled_from(types), st.sampled_from("xxxy"), st.sampled_from(ages))
    act = st.tuples(st.sampled_from(["route", "turn", *ACTS]), st.integers(0, 1))
    one = st.tuples(
        st.lists(event, min_size=1, max_size=5), st.sampled_from([1, 2, 4, 8]), st.lists(act, max_size=4)
    )
    return st.lists(one, min_size=3, max_size=8)


class Stage:
    """A database with one trigger and two processes."""

    def __init__(self, file: Path, folder: Path, fields: dict[str, Any]) -> None:
        copy = folder / "functory.db"
        shutil.copy(file, copy)
        self.clock = ManualClock(ZERO)
        self.worlds = [World(f"sqlite:///{copy}", folder, clock=self.clock, batch_size=7) for _ in range(2)]
        self.worlds[0].function(parameters="given")
        saved = definition.define(function="work", guards={"rate": 0}, **fields)
        self.worlds[0].triggers.save("t", saved)
        self.emitted: dict[str, tuple[str, str, float]] = {}
        self.routed: dict[str, float] = {}
        self.log: list[tuple[float, list[str] | None]] = []  # what was routed, or a turn

    @property
    def now(self) -> float:
        return (self.clock.now() - ZERO).total_seconds()

    def emit(self, emitted: Iterable[tuple[str, str, float]]) -> None:
        with self.worlds[0].database.write() as tx:
            for type_, key, age in emitted:
                at = self.now - age
                time = ZERO + timedelta(seconds=at)
                row = event_store.record(tx, type_, None, {"key": key}, source="/t", time=time)
                event_store.append(tx, [row])
                self.emitted[row["id"]] = (type_, key, at)

    def route(self, number: int) -> None:
        self.worlds[number].router.route_batch()
        with self.worlds[0].database.read() as tx:
            done = tx.rows(schema.event.select().where(schema.event.c.state == "routed"))
        new = [row["id"] for row in done if row["id"] in self.emitted and row["id"] not in self.routed]
        self.routed |= dict.fromkeys(new, self.now)
        self.log.append((self.now, new))

    def turn(self, number: int) -> bool:
        more = self.worlds[number].turn.run_once()
        self.log.append((self.now, None))
        return more

    def kill(self, number: int, act: Callable[[], Any]) -> None:
        """Let a process do its work, and kill it instead of the commit."""
        database = self.worlds[number].database
        write = database.write

        def killed() -> Any:
            return _Dying(write())

        database.write = killed  # type: ignore[method-assign]
        try:
            act()
        except Killed:
            pass
        finally:
            database.write = write  # type: ignore[method-assign]

    def play(self, story: Iterable[Any]) -> End:
        for emitted, wait, acts in story:
            self.emit(emitted)
            for what, number in acts:
                if what == "route":
                    self.route(number)
                elif what == "turn":
                    self.turn(number)
                elif what == "kill route":
                    self.kill(number, self.worlds[number].router.route_batch)
                else:
                    self.kill(number, self.worlds[number].turn.run_once)
            self.clock.advance(wait)
        return self.end()

    def end(self) -> End:
        """Route all events, and let enough time pass for every decision."""
        while self.worlds[0].lineage.open_work()["pending events"]:
            self.route(0)
        for round_ in range(200):
            world = self.worlds[round_ % 2]
            while self.turn(round_ % 2):
                pass
            if not world.rows(schema.buffered_match):
                break
            self.clock.advance(world.turn.next_due() or 0)
        else:
            raise AssertionError("something waits for ever")
        world = self.worlds[0]
        mine = [row for row in world.rows(schema.firing) if row["event_id"] in self.emitted]
        assert len(mine) == len({row["event_id"] for row in mine})
        fired = [row for row in mine if row["decision"] == "fired"]
        groups: dict[str, list[str]] = {}
        for row in sorted(fired, key=lambda row: (self.emitted[row["event_id"]][2], row["event_id"])):
            groups.setdefault(row["execution_id"], []).append(row["event_id"])
        assert set(groups) == {row["id"] for row in world.rows(schema.execution)}
        end = End(
            [
                Emitted(id_, type_, key, at, self.routed[id_])
                for id_, (type_, key, at) in self.emitted.items()
            ],
            [tuple(group) for group in groups.values()],
            {row["event_id"]: row["reason"] for row in mine if row["decision"] == "suppressed"},
            self.log,
        )
        for one in self.worlds:
            one.close()
        return end


class _Dying:
    """A transaction that is rolled back instead of committed."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __enter__(self) -> Any:
        return self._real.__enter__()

    def __exit__(self, *failed: Any) -> Any:
        killed = Killed()
        self._real.__exit__(*(failed if failed[0] is not None else (Killed, killed, None)))
        raise killed


def played(file: Path, fields: dict[str, Any], story: Any) -> End:
    # In memory where that is possible: these tests do not test the disk.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        return Stage(file, Path(folder), fields).play(story)


def by_key(emitted: Iterable[Emitted]) -> list[list[Emitted]]:
    found: dict[str, list[Emitted]] = {}
    for one in emitted:
        found.setdefault(one.key, []).append(one)
    return list(found.values())


# The models of composites read all events of a key, in order.


def windows(
    line: list[Emitted],
    complete: Callable[[list[Emitted]], bool],
    taken: Callable[[list[Emitted]], list[Emitted]],
) -> Any:
    """Fire at each event that completes the composite with the unused events of the last SPAN seconds; ``taken``
    selects the events that fire."""
    fired: list[tuple[str, ...]] = []
    start = 0
    for end in range(len(line)):
        window = [one for one in line[start : end + 1] if one.at >= line[end].at - SPAN]
        if complete(window):
            fired.append(tuple(one.id for one in taken(window)))
            start = end + 1
    return fired


def model_all(line: list[Emitted]) -> Any:
    return windows(
        [one for one in line if one.type in "ab"],
        lambda w: {"a", "b"} <= {one.type for one in w},
        lambda w: w,
    )


def model_any(line: list[Emitted]) -> Any:
    return [(one.id,) for one in line if one.type in "ab"]


def model_n_of(line: list[Emitted]) -> Any:
    return windows(line, lambda w: len({one.type for one in w}) >= 2, lambda w: w)


def model_overlapping(line: list[Emitted]) -> Any:
    """Model a composite of two parts, of which one accepts a and b and the other a, by trying every pair of
    events."""

    def complete(window: list[Emitted]) -> bool:
        return any(
            one is not two and one.type in "ab" and two.type == "a" for one, two in product(window, window)
        )

    return windows([one for one in line if one.type in "ab"], complete, lambda w: w)


def model_threshold(line: list[Emitted]) -> Any:
    return windows([one for one in line if one.type == "a"], lambda w: len(w) == 3, lambda w: w)


def ways(window: list[Emitted]) -> list[tuple[int, ...]]:
    """Every sequence of a, b, c, complete or not, within the window."""
    found: list[tuple[int, ...]] = [()]
    for place, one in enumerate(window):
        found += [(*way, place) for way in found if len(way) < 3 and "abc"[len(way)] == one.type]
    return [way for way in found if way and window[way[-1]].at - window[way[0]].at <= SPAN]


def model_sequence(line: list[Emitted]) -> Any:
    """Fire when a sequence is complete, with every event of a sequence that could still be completed."""
    fired: list[tuple[str, ...]] = []
    start = 0
    for end in range(len(line)):
        window = line[start : end + 1]
        found = ways(window)
        if not any(len(way) == 3 and way[-1] == len(window) - 1 for way in found):
            continue
        useful = {
            way[-1] for way in found if window[way[0]].at >= line[end].at - SPAN
        }  # fmt: skip
        fired.append(tuple(window[place].id for place in sorted(useful)))
        start = end + 1
    return fired


def model_absence(line: list[Emitted]) -> Any:
    fired: list[tuple[str, ...]] = []
    for place, one in enumerate(line):
        after = [other for other in line[place + 1 :] if other.type == "b" and other.at <= one.at + SPAN]
        if one.type == "a" and not after:
            fired.append((one.id,))
    return fired


def part(*types: str) -> dict[str, Any]:
    return {"name": "".join(types), "on": {"type": list(types)}}


COMPOSITES: dict[str, tuple[dict[str, Any], Callable[[list[Emitted]], Any], str]] = {
    "all": ({"all": [part("a"), part("b")]}, model_all, "ab"),
    "any": ({"any": [part("a"), part("b")]}, model_any, "ab"),
    "n_of": ({"n_of": {"n": 2, "parts": [part("a"), part("b"), part("c")]}}, model_n_of, "abc"),
    "overlapping": ({"all": [part("a", "b"), part("a")]}, model_overlapping, "ab"),
    "threshold": ({"threshold": {"count": 3, **part("a")}}, model_threshold, "a"),
    "sequence": ({"sequence": [part("a"), part("b"), part("c")]}, model_sequence, "abc"),
    "absence": ({"absence": {"of": part("b"), "after": part("a")}}, model_absence, "ab"),
}

SLOW = settings(
    max_examples=4,
    # A story takes a tenth of a second: to shrink one takes minutes.
    phases=(Phase.generate,),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def tell_composites(file: Path, form: str, how: settings = SLOW) -> None:
    """Run stories of a composite, within its allowance and beyond it, and compare the firings with its model."""
    rule, model, types = COMPOSITES[form]
    composite = {**rule, "within": SPAN, "allowance": 3, "key": "data.key"}

    @how
    @given(stories([0, 0, 1, 2, 3], types))
    def within_the_allowance(story: Any) -> None:
        end = played(file, {"composite": composite}, story)
        check(end)
        assert "late" not in end.reasons.values()

    @how
    @given(stories([0, 1, 5, 8, 12], types))
    def beyond_it(story: Any) -> None:
        end = played(file, {"composite": composite}, story)
        check(end)
        for one in end.emitted:
            if end.reasons.get(one.id) == "late":
                assert one.at < one.routed - 3, "nothing within the allowance is late"

    def check(end: End) -> None:
        counted = [one for one in end.emitted if one.type in types]
        assert set(end.reasons) | {id_ for group in end.fired for id_ in group} == {one.id for one in counted}
        in_time = [one for one in counted if end.reasons.get(one.id) != "late"]
        wanted: list[tuple[str, ...]] = []
        for line in by_key(in_time):
            wanted += model(sorted(line, key=lambda one: (one.at, one.id)))
        assert sorted(end.fired) == sorted(wanted)

    within_the_allowance()
    beyond_it()


@pytest.mark.parametrize("form", COMPOSITES)
def test_a_composite_fires_what_its_model_says(migrated_file: Path, form: str) -> None:
    tell_composites(migrated_file, form)


# The models of debounce and batch read the log of routed events and of releases.


def model_debounce(emitted: dict[str, Emitted], log: list[tuple[float, list[str] | None]], keep: str) -> Any:
    """Fire after 5 s without an event, at the latest 12 s after the first."""
    fired: list[tuple[str, ...]] = []
    waiting: dict[str, list[tuple[float, str]]] = {}
    for now, routed in log:
        for id_ in routed or ():
            waiting.setdefault(emitted[id_].key, []).append((now, id_))
        if routed is None:
            for key, line in list(waiting.items()):
                if min(line[-1][0] + 5, line[0][0] + 12) <= now:
                    ids = sorted(id_ for _, id_ in line)
                    fired.append(tuple(ids) if keep == "all" else (ids[-1],))
                    del waiting[key]
    return fired


def model_batch(emitted: dict[str, Emitted], log: list[tuple[float, list[str] | None]]) -> Any:
    """Fire with three events, or with those present 5 s after the first of them."""
    fired: list[tuple[str, ...]] = []
    waiting: dict[str, list[tuple[str, float]]] = {}
    for now, routed in log:
        for id_ in routed or ():
            waiting.setdefault(emitted[id_].key, []).append((id_, now))
        if routed is None:
            for line in waiting.values():
                line.sort()
                while len(line) >= 3:
                    fired.append(tuple(id_ for id_, _ in line[:3]))
                    del line[:3]
                if line and min(since for _, since in line) + 5 <= now:
                    fired.append(tuple(id_ for id_, _ in line))
                    line.clear()
    return fired


WAITS: dict[str, tuple[dict[str, Any], Callable[..., Any]]] = {
    "debounce last": (
        {"debounce": {"period": 5, "timeout": 12, "key": "data.key"}},
        lambda emitted, log: model_debounce(emitted, log, "last"),
    ),
    "debounce all": (
        {"debounce": {"period": 5, "timeout": 12, "key": "data.key", "keep": "all"}},
        lambda emitted, log: model_debounce(emitted, log, "all"),
    ),
    "batch": ({"batch": {"max_size": 3, "timeout": 5, "key": "data.key"}}, model_batch),
}


def tell_waits(file: Path, form: str, how: settings = SLOW) -> None:
    """Run stories of debounce or batch, and compare the firings with the model."""
    flow, model = WAITS[form]

    @how
    @given(stories([0]))
    def check(story: Any) -> None:
        end = played(file, {"on": {"type": ["a", "b", "c"]}, "flow": flow}, story)
        emitted = {one.id: one for one in end.emitted}
        assert sorted(tuple(sorted(group)) for group in end.fired) == sorted(model(emitted, end.log))
        assert len(end.reasons) + sum(map(len, end.fired)) == len(emitted)
        assert set(end.reasons.values()) <= {"debounced"}

    check()


@pytest.mark.parametrize("form", WAITS)
def test_debounce_and_batch_fire_what_their_models_say(migrated_file: Path, form: str) -> None:
    tell_waits(migrated_file, form)


# Defects: the form of flow control that shows each, and its place in the code.
HOLDING, RULES = "functory.triggers.flow_control.debounce_batch", "functory.triggers.composites.rules"
WRONG: dict[str, tuple[str, *tuple[Edit, ...]]] = {
    "a debounce without its end": (
        "debounce last",
        Edit(HOLDING, "Debounce._deadline", "if self.timeout is None:", "if True:"),
    ),
    "a debounce that is not quiet": (
        "debounce all",
        Edit(
            HOLDING, "Debounce.due_at", "self._deadline(state, now)", "self._deadline(state, state.opened_at)"
        ),
        Edit(HOLDING, "Debounce.decide", "max(one.since for", "min(one.since for"),
    ),
    "a batch of one more": ("batch", Edit(HOLDING, "_cut", "len(group) >= most", "len(group) > most")),
    "a batch that waits for its last": (
        "batch",
        Edit(HOLDING, "Batch.decide", "min(one.since for", "max(one.since for"),
    ),
    "a window that is open at its end": (
        "threshold",
        Edit(RULES, "Window.slide", "start + self.span < at", "start + self.span <= at"),
    ),
    "a threshold of one less": (
        "threshold",
        Edit(RULES, "Threshold.run", ">= self.count", ">= self.count - 1"),
    ),
    "a sequence in any order": (
        "sequence",
        Edit(RULES, "Sequence._step", "begun[number - 1]", "one.at"),
    ),
    "a sequence that began first": (
        "sequence",
        Edit(
            RULES, "Sequence.run", "max(start, begun[number] or start)", "min(start, begun[number] or start)"
        ),
    ),
    "an absence that does not wait": (
        "absence",
        Edit(RULES, "Absence.run", "if each.at + span < mark]", "if each.at < mark]"),
    ),
    "a mark that knows of what is not routed": (
        "absence",
        Edit(
            "functory.engine.flow_control.due_buffers",
            "routed_until",
            "tx.now if first is None else min(first, tx.now)",
            "tx.now",
        ),
    ),
    "what is late is taken for new": (
        "all",
        Edit(RULES, "decide", "rule.strict and to is not None:", "False:"),
    ),
}


@pytest.mark.parametrize("defect", WRONG)
def test_the_models_see_a_wait_that_is_wrong(migrated_file: Path, defect: str) -> None:
    form, *edits = WRONG[defect]
    # The same stories at each run.
    many = settings(SLOW, max_examples=100, derandomize=True, database=None)
    tell = tell_waits if form in WAITS else tell_composites
    with Mutant(defect, edits).applied(), pytest.raises((AssertionError, ExceptionGroup)):
        tell(migrated_file, form, many)
