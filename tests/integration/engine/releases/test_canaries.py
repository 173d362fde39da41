"""Canaries: a share of the executions, evidence from their rows, and what follows from it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from functory.engine.database import schema
from functory.engine.database.transaction import Tx
from functory.engine.errors import Conflict, Invalid, NotFound
from functory.engine.executions.start_many import start_many
from functory.engine.maintenance.canary_watch import SUSPECT_SECONDS
from functory.engine.maintenance.invariants import verify
from functory.engine.releases import canary_round
from tests.support.aging_world import prune, publish
from tests.support.canaries import FUNCTION, CanaryWorld, fails
from tests.support.flow import settle
from tests.support.patience import patient
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

HOUR = 3600.0


@pytest.fixture
def shop(world: World) -> CanaryWorld:
    return CanaryWorld(world)


def check(shop: CanaryWorld) -> None:
    """All invariants hold."""
    shop.world.route()
    found = verify(shop.world.database, shop.world.settings, patience=1e7)
    assert [(one.code, one.examples) for one in found if one.count] == []


def test_every_execution_has_the_version_that_the_hash_of_its_root_gives(shop: CanaryWorld) -> None:
    shop.start(share=0.3)
    shop.emit(60)
    rows = shop.executions()
    assert len(rows) == 60
    assert {row["version"] for row in rows} == {1, 2}
    assert all(row["version"] == shop.version_of(row["root_id"]) for row in rows)
    by_id = {row["id"]: row for row in rows}
    arms = shop.arms()
    assert len(arms) == 60
    assert all(arm["is_canary"] == (by_id[arm["execution_id"]]["version"] == 2) for arm in arms)
    check(shop)


def test_children_have_the_version_of_their_tree(shop: CanaryWorld) -> None:
    shop.world.function("parent", "**named")
    shop.start()
    for _ in range(12):
        parent = shop.world.claim(shop.world.start("parent"))
        child = shop.world.executions.start(FUNCTION, {}, parent=parent.cause)
        assert child["version"] == shop.version_of(parent.row.root_id)
    assert {row["version"] for row in shop.executions() if row["function"] == FUNCTION} == {1, 2}


def test_a_subject_keeps_its_version(shop: CanaryWorld) -> None:
    shop.start(unit="subject")
    subjects = [f"customer-{number}" for number in range(12)]
    shop.emit(36, subjects)
    found: dict[str, set[int]] = {}
    for row in shop.executions():
        found.setdefault(row["chain"][-1]["subject"], set()).add(row["version"])
    assert {subject: {shop.version_of(subject)} for subject in subjects} == found
    assert set.union(*found.values()) == {1, 2}
    shop.work()
    shop.look()
    assert sum(shop.row["stages"][0]["units"]) == 12, "each subject counts once"
    assert [arm["outcome"] for arm in shop.arms()].count("later") == 24


@pytest.mark.parametrize(
    "flow",
    [
        {"concurrency": {"limit": 2}},
        {"batch": {"max_size": 2, "timeout": 1}},
        {"throttle": {"limit": 9, "period": "1m"}},
    ],
)
def test_flow_control_is_shared_by_both_versions(world: World, flow: dict[str, Any]) -> None:
    shop = CanaryWorld(world)
    world.trigger("flows", FUNCTION, {"type": ["flow"]}, input={}, flow=flow)
    shop.start()
    for number in range(24):
        world.events.emit("flow", {"n": number})
    settle(world)
    rows = shop.executions()
    assert {row["version"] for row in rows} == {1, 2}
    assert all(row["version"] == shop.version_of(row["root_id"]) for row in rows)
    assert len(shop.arms()) == len(rows)
    check(shop)


def test_starts_get_their_share_one_by_one_and_many_at_once(shop: CanaryWorld) -> None:
    shop.start()
    world = shop.world
    for _ in range(10):
        world.start()
    start_many(world.database, world.settings, FUNCTION, [{} for _ in range(10)])
    start_many(world.database, world.settings, FUNCTION, [{} for _ in range(10)], idempotency_key="k")
    rows = shop.executions()
    assert {row["version"] for row in rows} == {1, 2}
    assert all(row["version"] == shop.version_of(row["id"]) for row in rows)
    assert len(shop.arms()) == 30
    check(shop)


def test_an_input_is_checked_against_the_version_that_gets_it(world: World) -> None:
    shop = CanaryWorld(world, parameters="n: int")
    shop.start()
    assert {shop.version_of(row["id"]) for row in [world.start(version=1) for _ in range(8)]} == {1, 2}
    started, refused = 0, 0
    for _ in range(20):
        try:
            assert world.start()["version"] == 1
            started += 1
        except Invalid:
            refused += 1
    assert started and refused


def test_pinned_and_replayed_executions_keep_their_version(shop: CanaryWorld) -> None:
    world = shop.world
    world.trigger("pinned", f"{FUNCTION}@1", {"type": ["pinned"]})
    old = [world.start() for _ in range(6)]
    shop.work()
    shop.start()
    for row in old:
        assert world.executions.replay(row["id"])["version"] == 1
        assert world.executions.replay(row["id"], latest=True)["version"] == 1
        assert world.start(version=2)["version"] == 2
        world.events.emit("pinned")
    world.route()
    assert [row["version"] for row in shop.executions() if row["trigger_id"]] == [1] * 6
    assert shop.arms() == []


def test_a_version_that_always_fails_is_rolled_back_and_queued_executions_run_once(shop: CanaryWorld) -> None:
    world = shop.world
    canary = shop.start(share=0.3)
    for _ in range(12):
        shop.emit(10)
        shop.work(fails(2))
        shop.look()
        if shop.row["state"] != "open":
            break
        world.advance(SUSPECT_SECONDS)
    row = shop.row
    assert row["state"] == "rolled_back"
    (rolled_back,) = shop.events("canary.rolled_back")
    counts = rolled_back["counts"]
    assert counts["canary"]["failed"] == counts["canary"]["units"] <= 15
    assert counts["base"]["failed"] == 0
    assert (rolled_back["version"], rolled_back["base"], rolled_back["canary_id"]) == (2, 1, canary["id"])
    (mark,) = world.rows(schema.version_mark)
    assert (mark["version"], mark["mark"], mark["canary_id"]) == (2, "bad", canary["id"])
    assert world.functions.get(FUNCTION)["active"] == 1
    shop.emit(20)
    assert {one["version"] for one in shop.executions() if one["state"] == "queued"} == {1}
    shop.work()
    check(shop)


def test_the_queue_of_a_version_that_is_rolled_back_runs_once_with_the_base(world: World) -> None:
    shop = CanaryWorld(world, limits={"retries": 0})
    shop.start()
    world.functions.update(FUNCTION, activate=False, limits={"retries": 3})
    shop.emit(20)
    queued = {row["id"]: row["version"] for row in shop.executions()}
    assert set(queued.values()) == {1, 2}
    running = next(id_ for id_, version in queued.items() if version == 2)
    (claim,) = world.worker.claim([running])
    shop.canaries.roll_back(FUNCTION, reason="it is wrong", author="ada")
    after = {row["id"]: row for row in shop.executions()}
    assert [id_ for id_, row in after.items() if row["version"] == 2] == [running]
    base = world.functions.get(FUNCTION, 1)
    assert {row["version_id"] for id_, row in after.items() if id_ != running} == {base["id"]}
    (event,) = shop.events("canary.rolled_back")
    assert event["moved"] == list(queued.values()).count(2) - 1
    assert event["reason"] == "it is wrong"
    world.finish(claim)
    shop.work()
    shop.look()
    assert {row["state"] for row in shop.executions()} == {"succeeded"}
    assert {arm["outcome"] for arm in shop.arms()} == {"moved", "late"}
    assert len(world.rows(schema.attempt)) == 20
    check(shop)


def test_an_execution_that_is_tried_again_keeps_its_version(world: World) -> None:
    shop = CanaryWorld(world, limits={"retries": 1, "retry_delay": 1})
    shop.start()
    shop.emit(10)
    shop.work(fails(2))
    before = {row["id"] for row in shop.executions() if row["version"] == 2}
    shop.canaries.roll_back(FUNCTION)
    after = [row for row in shop.executions() if row["id"] in before]
    assert {(row["version"], row["state"], row["attempt"]) for row in after} == {(2, "queued", 1)}
    assert [event["moved"] for event in shop.events("canary.rolled_back")] == [0]
    check(shop)


def test_an_execution_that_was_started_during_the_roll_back_is_given_to_the_base(shop: CanaryWorld) -> None:
    world = shop.world
    shop.start()
    shop.emit(10)
    before = {row["id"] for row in shop.executions() if row["version"] == 2}
    shop.canaries.roll_back(FUNCTION)
    version = world.functions.get(FUNCTION, 2)
    # As a router writes it whose transaction began before.
    with world.database.write() as tx:
        for table, values in (
            (schema.execution, {"version": 2, "version_id": version["id"]}),
            (schema.canary_execution, {"outcome": None}),
        ):
            key = "id" if table is schema.execution else "execution_id"
            tx.update_rows(table, [{key: id_, **values} for id_ in before])
    shop.look()
    assert {row["version"] for row in shop.executions()} == {1}
    check(shop)


def test_an_execution_whose_input_the_base_does_not_take_keeps_its_version(world: World) -> None:
    shop = CanaryWorld(world)
    shop.world.functions.save(f"def {FUNCTION}(a: int):\n    return a\n")
    number = shop.save_next()
    shop.start(number)
    for _ in range(12):
        try:
            world.start()
        except Invalid:
            continue
    shop.canaries.roll_back(FUNCTION)
    assert {row["version"] for row in shop.executions()} == {number}
    shop.work()
    shop.look()
    assert {row["state"] for row in shop.executions()} == {"succeeded"}


def test_a_good_version_is_promoted(shop: CanaryWorld) -> None:
    world = shop.world
    shop.start()
    while shop.row["state"] == "open" and len(shop.executions()) < 1000:
        shop.emit(100)
        shop.work()
        world.advance(300)
        shop.look()
    row = shop.row
    assert row["state"] == "promoted", row["reason"]
    assert row["stages"][0]["units"][1] >= 300
    assert world.functions.get(FUNCTION)["active"] == 2
    newest = world.functions.history(FUNCTION)[0]
    assert (newest["version"], newest["reason"]) == (2, "promote")
    (promoted,) = shop.events("canary.promoted")
    assert promoted["counts"]["canary"]["units"] == row["stages"][0]["units"][1]
    shop.emit(3)
    assert {one["version"] for one in shop.executions()[-3:]} == {2}
    shop.work()
    check(shop)


def test_a_slower_version_is_rolled_back_and_waits_are_no_durations(shop: CanaryWorld) -> None:
    world = shop.world
    shop.emit(100)
    shop.work(takes=lambda claim: 1.0 + claim.row.input["n"] / 100)
    shop.start()
    assert len(shop.row["edges"]) == 9
    shop.emit(60)
    for claim in world.worker.claim_any(1000):
        # It waits for another execution, and takes as long as the base itself.
        waited = 8.0 if claim.version.number == 2 else 0.0
        world.finish(claim, duration_seconds=1.5 + waited, waited_seconds=waited)
    shop.look()
    assert shop.row["state"] == "open"
    for _ in range(12):
        shop.emit(10)
        shop.work(takes=lambda claim: 3.0 if claim.version.number == 2 else 1.5)
        shop.look()
    assert shop.row["state"] == "rolled_back"
    check(shop)


def test_without_executions_it_is_held_at_the_deadline_and_nothing_more(shop: CanaryWorld) -> None:
    shop.start(hours=72)
    shop.world.advance(72 * HOUR - 1)
    shop.look()
    assert shop.row["state"] == "open"
    shop.world.advance(1)
    shop.look()
    assert (shop.row["state"], shop.row["reason"]) == ("held", "deadline")
    (held,) = shop.events("canary.held")
    assert held["counts"]["canary"]["units"] == 0
    shop.world.advance(1000 * HOUR)
    shop.look()
    assert shop.row["state"] == "held"
    advanced = shop.canaries.advance(FUNCTION, hours=5)
    assert advanced["state"] == "open"
    shop.look()
    assert shop.row["state"] == "open"
    check(shop)


def test_one_that_is_held_is_rolled_back_by_evidence_and_never_promoted(shop: CanaryWorld) -> None:
    shop.start()
    shop.canaries.hold(FUNCTION, author="ada")
    assert shop.row["reason"] == "held by ada"
    with pytest.raises(Conflict, match="is held"):
        shop.canaries.hold(FUNCTION)
    shop.emit(100)
    shop.work(fails(2))
    shop.look()
    assert shop.row["state"] == "rolled_back"


def test_units_that_are_lost_from_one_version_hold_it(shop: CanaryWorld) -> None:
    shop.start()
    shop.emit(60)
    lost = [arm["execution_id"] for arm in shop.arms() if arm["is_canary"]]
    with shop.world.database.write() as tx:
        tx.execute(schema.canary_execution.delete().where(schema.canary_execution.c.execution_id.in_(lost)))
    shop.work()
    shop.look()
    assert (shop.row["state"], shop.row["reason"]) == ("held", "assignment")
    with pytest.raises(Conflict, match="cannot go on"):
        shop.canaries.advance(FUNCTION, hours=1)


def test_two_schedulers_count_each_unit_once(shop: CanaryWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.start()
    shop.emit(40)
    shop.work()
    read, overtaken = canary_round._read, []

    def read_and_be_overtaken(tx: Tx, row: dict[str, Any]) -> canary_round.Look:
        found = read(tx, row)
        if not overtaken:
            overtaken.append(row["round"])
            shop.emit(20)
            shop.work()
            shop.look()
        return found

    monkeypatch.setattr(canary_round, "_read", read_and_be_overtaken)
    shop.look()
    assert overtaken == [0]
    row = shop.row
    assert sum(row["stages"][0]["units"]) == 60
    assert row["round"] == 1
    assert {arm["outcome"] for arm in shop.arms()} == {"counted"}


def test_cancelled_executions_say_nothing_about_the_version(shop: CanaryWorld) -> None:
    shop.start()
    shop.emit(10)
    for row in shop.executions():
        shop.world.executions.cancel(row["id"])
    shop.look()
    stage = shop.row["stages"][0]
    assert stage["units"] == [0, 0]
    assert sum(stage["left_out"]) == 10


def test_a_failed_attempt_is_evidence_before_the_end_and_counts_with_it(world: World) -> None:
    shop = CanaryWorld(world, limits={"retries": 1, "retry_delay": 1})
    shop.start()
    shop.emit(10)
    shop.work(fails(2))
    shop.look()
    assert shop.row["stages"][0]["units"][1] == 0, "its executions are tried again"
    world.advance(60)
    shop.work()
    shop.look()
    assert shop.row["state"] == "open"
    stage = shop.row["stages"][0]
    assert stage["attempt_failed"][1] == stage["units"][1] > 0
    assert stage["failed"] == [0, 0]


def test_a_larger_share_keeps_the_units_and_counts_apart(shop: CanaryWorld) -> None:
    shop.start(share=0.2, unit="subject")
    subjects = [f"customer-{number}" for number in range(30)]
    shop.emit(30, subjects)
    shop.work()
    shop.look()
    before = {row["chain"][-1]["subject"] for row in shop.executions() if row["version"] == 2}
    advanced = shop.canaries.advance(FUNCTION, share=0.5, author="ada")
    assert (advanced["share"], len(advanced["stages"])) == (0.5, 2)
    shop.emit(30, [*subjects[:15], *(f"new-{number}" for number in range(15))])
    later = shop.executions()[30:]
    of_canary = {row["chain"][-1]["subject"] for row in later if row["version"] == 2}
    assert {subject for subject in before if subject in subjects[:15]} < of_canary
    shop.work()
    shop.look()
    units = [sum(stage["units"]) for stage in shop.row["stages"]]
    assert units == [30, 15], "those that were seen before are not counted again"
    with pytest.raises(Invalid, match="already"):
        shop.canaries.advance(FUNCTION, share=0.3)
    assert [event["share"] for event in shop.events("canary.advanced")] == [0.5]
    check(shop)


def test_another_activation_stops_the_canary(shop: CanaryWorld) -> None:
    shop.start()
    third = shop.save_next()
    assert shop.row["state"] == "open"
    shop.world.functions.activate(FUNCTION, third, author="bob")
    row = shop.row
    assert (row["state"], row["reason"], row["decided_by"]) == (
        "stopped", "v3 became the active version", "bob"
    )  # fmt: skip
    assert len(shop.events("canary.stopped")) == 1
    shop.emit(10)
    assert {row["version"] for row in shop.executions()} == {third}
    check(shop)


def test_deleting_the_function_stops_the_canary(shop: CanaryWorld) -> None:
    shop.start()
    shop.world.functions.delete(FUNCTION, force=True)
    assert shop.row["state"] == "stopped"
    shop.look()
    check(shop)


def test_people_end_it(shop: CanaryWorld) -> None:
    shop.start()
    assert shop.canaries.stop(FUNCTION, author="ada")["reason"] == "stopped by ada"
    with pytest.raises(NotFound, match="no open canary"):
        shop.canaries.promote(FUNCTION)
    shop.start()
    assert shop.canaries.promote(FUNCTION, author="ada")["state"] == "promoted"
    assert shop.world.functions.get(FUNCTION)["active"] == 2
    assert [row["state"] for row in shop.canaries.list()] == ["promoted", "stopped"]
    assert shop.canaries.list(is_open=True) == []
    check(shop)


def test_a_version_that_may_not_become_active_is_held_instead_of_promoted(shop: CanaryWorld) -> None:
    shop.start()
    shop.world.functions.mark(FUNCTION, 2, "bad", reason="seen by ada")
    while shop.row["state"] == "open" and len(shop.executions()) < 1000:
        shop.emit(200)
        shop.work()
        shop.world.advance(HOUR)
        shop.look()
    assert shop.row["state"] == "held"
    assert "seen by ada" in shop.row["reason"]
    assert shop.world.functions.get(FUNCTION)["active"] == 1
    check(shop)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda shop: shop.start(share=0.6), "wrong share"),
        (lambda shop: shop.start(hours=0), "wrong time"),
        (lambda shop: shop.start(unit="key"), "wrong unit"),
        (lambda shop: shop.start(9), "no version 9"),
        (lambda shop: shop.start(1), "is the active version"),
        (lambda shop: (shop.start(), shop.start()), "has a canary"),
        (lambda shop: (shop.world.functions.disable(FUNCTION), shop.start()), "no executions to share"),
        (
            lambda shop: (shop.world.functions.mark(FUNCTION, 2, "bad", reason="no"), shop.start()),
            "marked bad",
        ),
        (
            lambda shop: (shop.world.function("user", dependencies=[FUNCTION]), shop.start()),
            "is a dependency of user",
        ),
        (lambda shop: (shop.start(), shop.canaries.advance(FUNCTION)), "nothing to change"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(
    shop: CanaryWorld, break_it: Callable[[CanaryWorld], object], message: str
) -> None:
    with pytest.raises((Conflict, Invalid, NotFound), match=message):
        break_it(shop)


def test_a_pinned_dependency_does_not_stand_in_the_way(shop: CanaryWorld) -> None:
    shop.world.function("user", dependencies=[f"{FUNCTION}@1"])
    assert shop.start()["state"] == "open"


def test_no_execution_of_a_version_that_is_rolled_back_under_load_waits(shop: CanaryWorld) -> None:
    world = shop.world
    shop.start()
    first, stop = threading.Semaphore(0), threading.Event()
    errors: list[BaseException] = []

    def start_until_the_end() -> None:
        try:
            while not stop.is_set():
                start_many(world.database, world.settings, FUNCTION, [{}, {}])
                world.start()
                first.release()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=start_until_the_end) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(12):
        first.acquire(timeout=patient(60))
    shop.canaries.roll_back(FUNCTION)
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert world.start()["version"] == 1
    shop.look()
    assert {row["version"] for row in shop.executions()} == {1}
    assert {arm["outcome"] for arm in shop.arms() if arm["is_canary"]} == {"moved"}
    while shop.work():
        pass
    shop.look()
    assert all(arm["outcome"] is not None for arm in shop.arms())
    assert len(world.rows(schema.attempt)) == len(shop.executions())
    check(shop)


def test_what_a_canary_has_chosen_is_pruned_with_its_execution(shop: CanaryWorld) -> None:
    shop.start()
    shop.emit(4)
    shop.work()
    shop.look()
    shop.canaries.stop(FUNCTION)
    shop.world.route()
    publish(shop.world)
    shop.world.advance(40 * 24 * HOUR)
    prune(shop.world)
    assert shop.executions() == [] and shop.arms() == []
    assert sum(shop.row["stages"][0]["units"]) == 4
    check(shop)


def test_without_a_canary_no_statement_is_added(shop: CanaryWorld) -> None:
    world = shop.world
    shop.emit(1)
    with world.statements() as sent:
        world.start()
        shop.emit(5)
    assert not [one for one in sent if "canary" in one.replace("function.canary_id", "")]


def test_a_look_without_a_canary_reads_one_empty_page(shop: CanaryWorld) -> None:
    with shop.world.statements() as sent:
        shop.look()
    assert len(sent) == 1
