"""A throttle bounds the starts of executions, whatever the workers did before: away, busy, many, lost, retrying."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest

from functory.engine.database import schema
from functory.engine.executions.dispatch_window import DispatchWindow
from functory.engine.maintenance import lost_workers
from tests.support.flow import claim, emit, number, numbers, settle, trigger, turn
from tests.support.queue_places import with_places
from tests.support.sending import send_due
from tests.support.world import LEASE, World

pytest_plugins = ["tests.support.world"]


def start_times(world: World) -> list[datetime]:
    """When each attempt started."""
    return sorted(row["started_at"] for row in world.rows(schema.attempt))


def keeps_rate(times: list[datetime], interval: float, burst: int = 1) -> bool:
    """True when GCRA accepts these starts: no `burst` + n of them within n intervals."""
    return all(
        times[last] - times[first] >= timedelta(seconds=interval) * (last - first - burst + 1)
        for first in range(len(times))
        for last in range(first + burst, len(times))
    )


def run_slowly(world: World, seconds: float, step: float, limit: int = 1000) -> list[int]:
    """Claim and finish every `step` seconds. Returns the numbers in the order of their starts."""
    order: list[int] = []
    for _ in range(round(seconds / step)):
        for one in sorted(claim(world, limit), key=lambda c: number(c.row)):
            order.append(number(one.row))
            world.finish(one)
        world.advance(step)
        turn(world)
    return order


def test_workers_that_were_away_start_no_more_than_the_rate(world: World) -> None:
    world.function()
    trigger(world, throttle={"limit": 1, "period": "1s"})
    emit(world, *range(20))
    settle(world)
    world.advance(24)
    assert numbers(claim(world)) == [0]
    assert claim(world) == [], "what was refused is not due before its turn"
    world.advance(1)
    assert run_slowly(world, 30, 0.5) == list(range(1, 20))
    assert keeps_rate(start_times(world), 1)


def test_a_burst_is_allowed_once_and_not_for_each_period_without_workers(world: World) -> None:
    world.function()
    trigger(world, throttle={"limit": 1, "period": "10s", "burst": 3})
    emit(world, *range(8))
    settle(world)
    world.advance(1000)
    assert numbers(claim(world)) == [0, 1, 2]
    world.advance(9.9)
    assert claim(world) == []
    world.advance(0.1)
    assert numbers(claim(world)) == [3]


def test_busy_workers_that_become_free_together_start_no_more_than_the_rate(world: World) -> None:
    world.function()
    world.function("long")
    trigger(world, throttle={"limit": 10, "period": "1s", "burst": 5})
    world.trigger("busy", "long", {"type": ["other"]})
    emit(world, *range(4), type_="other")
    world.route()
    busy = claim(world, 4)
    emit(world, *range(30))
    settle(world)
    world.advance(12)
    for one in busy:
        world.finish(one)
    order = run_slowly(world, 5, 0.05, limit=4)
    assert sorted(order) == list(range(30))
    assert keeps_rate([t for t in start_times(world) if t > busy[0].row.started_at], 0.1, 5)


def test_messages_that_were_sent_before_the_pause_are_refused_too(world: World) -> None:
    world.function()
    trigger(world, throttle={"limit": 1, "period": "10s"})
    emit(world, *range(5))
    settle(world)
    world.advance(100)
    sent: list[str] = []
    send_due(world.database, sent.extend, redispatch=30, worker_ttl=30, window=DispatchWindow())
    assert len(sent) == 5
    claims = [one for id_ in sent for one in world.worker.claim([id_])]
    assert numbers(claims) == [0]
    assert [one for id_ in sent for one in world.worker.claim([id_])] == [], "old messages are doubled ones"
    waiting = with_places(world.database, world.rows(schema.execution, schema.execution.c.state == "queued"))
    assert [row["run_at"] - world.clock.now() for row in waiting] == [
        timedelta(seconds=10 * n) for n in range(1, 5)
    ]
    assert {(row["attempt"], row["fence"], row["started_at"], row["dispatched_at"]) for row in waiting} == {
        (0, 0, None, None)
    }
    assert len(world.rows(schema.attempt)) == len(claims) == world.types().count("execution.started")


def test_an_execution_that_comes_early_does_not_pass_those_before_it(world: World) -> None:
    world.function()
    trigger(world, throttle={"limit": 1, "period": "10s"})
    emit(world, *range(6))
    settle(world)
    world.advance(100)
    ids = {number(row): row["id"] for row in world.rows(schema.execution)}
    assert numbers(world.worker.claim([ids[0]])) == [0]
    world.advance(10)
    assert world.worker.claim([ids[4]]) == [], "1, 2 and 3 are before it"
    assert numbers(world.worker.claim([ids[1]])) == [1]
    world.advance(10)
    # The message of 2 is lost: it costs the others its turn, and not more.
    assert numbers(world.worker.claim([ids[3]])) == []
    world.advance(10)
    assert numbers(world.worker.claim([ids[3]])) == [3]


@pytest.mark.parametrize("outcome", ["failed", "lost", "released"])
def test_every_attempt_takes_a_token_and_a_retry_keeps_its_place(world: World, outcome: str) -> None:
    world.function("work", limits={"retries": 3, "retry_delay": 0.1})
    trigger(world, throttle={"limit": 1, "period": "60s"})
    emit(world, *range(3))
    settle(world)
    (first,) = claim(world)
    if outcome == "failed":
        world.finish(first, "failed")
        world.advance(1)
    elif outcome == "lost":
        world.advance(LEASE + 1)
        lost_workers.reap(world.database, cancel_grace=LEASE)
    else:
        world.worker.release([(first.id, first.fence)])
    assert claim(world) == []
    world.advance(60)
    (again,) = claim(world)
    assert (number(again.row), again.row.started_at) == (0, first.row.started_at)
    world.advance(60)
    assert numbers(claim(world)) == [1]


def test_an_execution_that_is_put_back_gives_its_concurrency_slot_back(world: World) -> None:
    world.function()
    trigger(world, throttle={"limit": 1, "period": "10s", "key": "data.k"}, concurrency={"limit": 1})
    emit(world, 1, 2, k="a")
    emit(world, 3, k="b")
    settle(world)
    world.advance(10)
    turn(world)
    (first,) = claim(world)
    world.finish(first)
    turn(world)
    assert claim(world) == []
    turn(world)
    assert numbers(claim(world)) == [3], "the slot is free for another key"


def test_a_throttle_of_one_key_takes_nothing_of_another(world: World) -> None:
    world.function()
    trigger(world, throttle={"limit": 1, "period": "10s", "key": "data.k"})
    emit(world, 1, 2, k="a")
    emit(world, 3, 4, k="b")
    settle(world)
    world.advance(100)
    assert sorted(numbers(claim(world))) == [1, 3]


@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_claims_by_several_workers_keeps_the_rate_and_loses_nothing(
    world: World, seed: int
) -> None:
    random_ = random.Random(seed)
    world.function("work", limits={"retries": 2, "retry_delay": 1})
    trigger(world, throttle={"limit": 2, "period": "10s", "burst": random_.choice([1, 3])})
    burst = world.triggers.get("t")["definition"]["flow"]["throttle"].get("burst", 1)
    emit(world, *range(20))
    settle(world)
    workers = [world.attempts(f"worker-{n}") for n in range(3)]
    for _ in range(2000):
        world.advance(random_.choice([0.01, 0.3, 1, 4, 30]))
        waiting = world.rows(schema.execution, schema.execution.c.state == "queued")
        if not waiting:
            break
        ids = [row["id"] for row in waiting]
        random_.shuffle(ids)
        for one in random_.choice(workers).claim(ids[: random_.randint(1, 8)]):
            world.finish(one, random_.choice(["succeeded", "succeeded", "failed"]))
    assert {row["state"] for row in world.rows(schema.execution)} <= {"succeeded", "failed"}
    assert keeps_rate(start_times(world), 5, burst)


def test_many_claimers_at_once_start_no_more_than_the_rate(
    make_world: Callable[..., World], world: World
) -> None:
    world.function()
    trigger(world, throttle={"limit": 1, "period": "1h", "burst": 3})
    emit(world, *range(12))
    settle(world)
    ids = [row["id"] for row in world.rows(schema.execution)]
    others = [make_world(clock=world.clock) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda one: one.worker.claim(ids), others))
    assert sum(map(len, found)) == 3
    world.advance(7 * 24 * 3600)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda one: [c for id_ in ids for c in one.worker.claim([id_])], others))
    assert sum(map(len, found)) == 3


def test_a_refused_claim_costs_few_statements_for_any_number_of_executions(world: World) -> None:
    world.function()
    trigger(world, throttle={"limit": 1, "period": "1h"})
    emit(world, *range(101))
    settle(world)
    ids = [row["id"] for row in world.rows(schema.execution)]
    world.advance(1000 * 3600)
    world.worker.claim(ids[:1])
    counted = []
    for asked in (ids[1:2], ids[2:]):
        with world.statements() as sent:
            assert world.worker.claim(asked) == []
        counted.append(len(sent))
    assert max(counted) <= 11, sent


def test_what_was_queued_before_the_upgrade_has_no_throttle_and_starts(world: World) -> None:
    world.function()
    trigger(world, throttle={"limit": 1, "period": "10s"})
    emit(world, 1, 2)
    settle(world)
    with world.database.write() as tx:
        tx.execute(schema.execution.update().values(throttle=None))
        tx.execute(schema.backlog.update().values(throttle_key=None, throttle_place=None))
    world.advance(10)
    assert numbers(claim(world)) == [1, 2]
