"""A durable call is made once, however many attempts its caller needs."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from functory.client.functory import Functory
from functory.engine.database.schema import budget, execution
from functory.engine.errors import ExecutionFailed, FunctoryError, NotFound, Refused, Stale
from functory.engine.executions.claims import Claim
from functory.engine.maintenance import lost_workers
from functory.workers.execution.engine_services import Services
from functory.workers.execution.host_functions import EngineHost
from tests.support.world import World, lines

pytest_plugins = ["tests.support.world"]


class Caller:
    """An attempt that calls: `work` plays the functions that it calls, on the thread that is lent."""

    def __init__(self, world: World, claim: Claim, work: Callable[[Claim], Any]) -> None:
        self._world = world
        self._work = work
        services = Services.of(world.database, world.settings, world.functions)
        self.claim = claim
        self.host = EngineHost(claim, services, self._lend, threading.Event())

    def __call__(self, name: str, *args: Any, version: int | None = None, **kwargs: Any) -> Any:
        return self.host.call(name, version, None, list(args), kwargs, True)

    def _lend(self, ids: Sequence[str]) -> None:
        for claim in self._world.worker.claim(ids):
            try:
                result = self._work(claim)
            except ValueError as error:
                failure = {"type": "ValueError", "message": str(error)}
                self._world.finish(claim, "failed", error=failure)
            else:
                self._world.finish(claim, result=result)


@pytest.fixture
def shop(world: World) -> World:
    world.function("charge", "order=None, *more")
    world.function("ship", "order=None")
    world.function("order", limits={"retries": 5})
    return world


def first(world: World, work: Callable[[Claim], Any]) -> Caller:
    return Caller(world, world.claim(world.start("order")), work)


def again(world: World, caller: Caller, work: Callable[[Claim], Any]) -> Caller:
    """The next attempt, after the worker of this one was lost."""
    world.advance(world.lease + 1)
    lost_workers.reap(world.database, cancel_grace=1000)
    return Caller(world, world.claim(caller.claim.row), work)


def children(world: World) -> list[dict[str, Any]]:
    return world.rows(execution, execution.c.cause == "parent")


def once(claim: Claim) -> Any:
    """Plays a function whose result tells its execution."""
    return claim.id


def never(claim: Claim) -> Any:
    raise AssertionError(f"{claim.row.function} ran again")


def test_another_attempt_gets_the_result_and_nothing_runs_twice(shop: World) -> None:
    before = first(shop, once)
    results = [before("charge", {"id": 7}), before("ship", order={"id": 7})]
    after = again(shop, before, never)
    assert [after("charge", {"id": 7}), after("ship", order={"id": 7})] == results
    assert len(children(shop)) == 2


def test_the_order_of_the_calls_may_differ(shop: World) -> None:
    before = first(shop, once)
    results = {n: before("charge", n) for n in range(3)}
    after = again(shop, before, never)
    assert {n: after("charge", n) for n in reversed(range(3))} == results


def test_equal_calls_are_counted(shop: World) -> None:
    before = first(shop, once)
    results = [before("charge", 1), before("charge", 1)]
    assert results[0] != results[1]
    after = again(shop, before, once)
    assert [after("charge", 1), after("charge", 1)] == results
    assert after("charge", 1) not in results


@pytest.mark.parametrize(
    ("args", "kwargs", "version"), [((2,), {}, None), ((), {"order": 1}, None), ((1,), {}, 1)]
)
def test_other_arguments_and_another_version_are_another_call(
    shop: World, args: Any, kwargs: Any, version: int | None
) -> None:
    before = first(shop, once)
    result = before("charge", 1)
    after = again(shop, before, once)
    assert after("charge", *args, version=version, **kwargs) != result


def test_the_version_is_the_one_of_the_first_time(shop: World) -> None:
    before = first(shop, once)
    result = before("charge", 1)
    shop.functions.save("def charge(order):\n    return 2\n")
    after = again(shop, before, never)
    assert after("charge", 1) == result


def test_a_failed_call_is_made_anew_by_the_next_attempt(shop: World) -> None:
    def fail(claim: Claim) -> Any:
        raise ValueError("no")

    before = first(shop, fail)
    with pytest.raises(ExecutionFailed):
        before("charge", 1)
    after = again(shop, before, once)
    assert after("charge", 1) == children(shop)[-1]["id"]
    assert [row["state"] for row in children(shop)] == ["failed", "succeeded"]


def test_a_call_that_was_repeated_until_it_succeeded_is_known_by_its_success(shop: World) -> None:
    tries: list[str] = []

    def second_time(claim: Claim) -> Any:
        tries.append(claim.id)
        if len(tries) == 1:
            raise ValueError("no")
        return claim.id

    before = first(shop, second_time)
    with pytest.raises(ExecutionFailed):
        before("charge", 1)
    result = before("charge", 1)
    after = again(shop, before, never)
    assert after("charge", 1) == result


def test_a_call_that_was_refused_takes_no_number(shop: World) -> None:
    before = first(shop, once)
    with pytest.raises(NotFound):
        before("refund", 1)
    shop.function("refund", "order")
    result = before("refund", 1)
    after = again(shop, before, never)
    assert after("refund", 1) == result


def test_an_open_call_of_a_lost_attempt_is_adopted(shop: World) -> None:
    class Killed(Exception):
        pass

    def kill(claim: Claim) -> Any:
        raise Killed

    before = first(shop, kill)
    with pytest.raises(Killed):
        before("charge", 1)
    after = again(shop, before, once)
    assert after("charge", 1) == children(shop)[0]["id"]
    assert len(children(shop)) == 1
    assert children(shop)[0]["attempt"] == 2


def test_a_queued_call_that_its_caller_did_not_come_to_claim_is_adopted(shop: World) -> None:
    before = first(shop, once)
    row = shop.executions.start(
        "charge", {"order": 1}, parent=before.claim.cause, step_key="k", dispatched=True
    )
    same = shop.executions.start(
        "charge", {"order": 1}, parent=before.claim.cause, step_key="k", dispatched=True
    )
    assert same["id"] == row["id"]


def test_a_zombie_s_calls_are_refused(shop: World) -> None:
    before = first(shop, once)
    before("charge", 1)
    again(shop, before, once)
    for n in (1, 2):
        with pytest.raises(Stale):
            before("charge", n)
    assert len(children(shop)) == 1


def test_a_durable_call_spends_the_budget_once(make_world: Any) -> None:
    world = make_world(root_budget=1)
    world.function("charge", "order")
    world.function("order", limits={"retries": 5})
    before = first(world, once)
    result = before("charge", 1)
    after = again(world, before, never)
    assert after("charge", 1) == result
    assert world.rows(budget)[0]["used"] == 1
    with pytest.raises(Refused):
        after("charge", 2)


def test_equal_calls_at_the_same_time_are_as_many_executions(shop: World) -> None:
    def all_of(caller: Caller) -> set[str]:
        results: list[str] = []
        broken: list[FunctoryError] = []

        def run() -> None:
            try:
                results.append(caller("charge", 1))
            except FunctoryError as error:
                broken.append(error)

        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not broken
        return set(results)

    before = first(shop, once)
    results = all_of(before)
    assert len(results) == 8
    assert all_of(again(shop, before, never)) == results


def test_from_inside_of_a_function(engine: Functory) -> None:
    engine.functions.save("def charge(order):\n    return order * 2\n")
    engine.functions.save(
        lines(
            "import asyncio",
            "from functory import acall, call, execution",
            "async def order():",
            "    paid = call('charge', 3, durable=True)",
            "    more = await asyncio.gather(*(acall('charge', n, durable=True) for n in (1, 2, 2)))",
            "    if execution.attempt < 3:",
            "        raise ValueError('once more')",
            "    return [paid, *more]",
        ),
        limits={"retries": 2, "retry_delay": 0.01},
    )
    assert engine.call("order") == [6, 2, 4, 4]
    assert len(engine.executions.list(function="charge")) == 4


def test_durable_is_true_or_false(engine: Functory) -> None:
    engine.functions.save("def charge(order):\n    return order\n")
    engine.functions.save(
        lines(
            "from functory import call",
            "def order():",
            "    return call('charge', 3, durable='yes')",
        )
    )
    with pytest.raises(ExecutionFailed, match="neither True nor False"):
        engine.call("order")
