"""Rate limits as rows decide as the same limits in memory do, also when one statement locks and uses them."""

import random
import threading
from datetime import timedelta

from functory.engine.database import schema
from functory.engine.flow_control.controls import Key, RateLimit
from functory.engine.flow_control.rate_limits import RateGuard, RateLimits, RateLimitState, RateLimitStates

pytest_plugins = ["tests.support.world"]

KEYS = [Key.of(name) for name in "abc"]
LIMITS = {key.hash: RateLimit(key, 3, 6.0, burst) for key, burst in zip(KEYS, (1, 2, 3), strict=True)}


def guards(limits):
    return [RateGuard("rate", limit, "") for limit in limits]


def test_limits_as_rows_decide_as_limits_in_memory(world):
    chance = random.Random(7)
    owners = [f"00000000-0000-7000-8000-00000000000{n}" for n in (1, 2)]
    in_memory: dict[tuple[str, str], RateLimitState] = {}
    for _ in range(60):
        world.advance(chance.choice([0, 0.5, 2, 5, 30]))
        uses = [
            (chance.choice(owners), chance.sample(list(LIMITS.values()), chance.randint(1, 2)))
            for _ in range(chance.randint(1, 6))
        ]
        with world.database.write() as tx:
            expected = RateLimitStates(in_memory, tx.now)
            asked = [(owner, limit) for owner, limits in uses for limit in limits]
            stored = RateLimits(tx, "rate_guard", asked)
            answers = [stored.acquire_all(owner, guards(limits)) for owner, limits in uses]
            assert answers == [expected.acquire_all(owner, guards(limits)) for owner, limits in uses]
            stored.write()
            now = tx.now
        for row in world.rows(schema.rate_limit):
            state = in_memory[row["owner_id"], row["key"]]
            assert max(row["next_allowed_at"], now) == max(state.next_allowed_at, now)
            assert row["dropped"] == state.dropped


def test_a_limit_that_was_requested_and_not_used_is_as_before(world):
    limit = RateLimit(KEYS[0], 1, 60.0)
    owner = "00000000-0000-7000-8000-000000000001"
    for _ in range(3):
        with world.database.write() as tx:
            limits = RateLimits(tx, "rate_limit", [(owner, limit)])
            limits.write()
    with world.database.write() as tx:
        limits = RateLimits(tx, "rate_limit", [(owner, limit), (owner, limit)])
        assert [limits.try_acquire(owner, limit) for _ in range(2)] == [True, False]
        limits.write()
    (row,) = world.rows(schema.rate_limit)
    assert (row["next_allowed_at"], row["dropped"]) == (world.clock.now() + timedelta(seconds=60), 1)


def test_two_transactions_share_one_limit(make_world):
    limit = RateLimit(KEYS[2], 50, 3600.0, burst=50)
    owner = "00000000-0000-7000-8000-000000000001"
    allowed: list[bool] = []

    def use(world) -> None:
        for _ in range(10):
            with world.database.write() as tx:
                limits = RateLimits(tx, "rate_limit", [(owner, limit)] * 4)
                allowed.extend([limits.try_acquire(owner, limit) for _ in range(4)])
                limits.write()

    threads = [threading.Thread(target=use, args=(make_world(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (allowed.count(True), allowed.count(False)) == (50, 30)
