"""Many callers in many processes spend the same budgets at the same time: no limit is exceeded, none is left unused."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.agents import call_queue, limits_reached, meters
from functory.engine.agents.calls import Calls
from functory.engine.agents.limits_reached import Amount
from functory.engine.agents.meters import Budgets
from functory.engine.agents.models import Models
from functory.engine.database.connection import Database
from functory.engine.database.schema import llm_call, llm_try, meter, quota_day
from functory.engine.database.schema import model as model_table
from functory.engine.maintenance.invariants import verify
from functory.roles.service_loop import ServiceLoop, stop_loops
from functory.workers.gateway.gateway import Gateway
from tests.support.budget_callers import Race, RandomProvider, ask_until_refused, run_callers

pytest_plugins = ["tests.support.world"]

PRICES = {"price_in": 100, "price_out": 100}
ROOM = 10**15


@pytest.mark.parametrize(("processes", "callers", "size"), [(2, 16, 1), (8, 64, 4)], ids=["few", "many"])
def test_four_limits_at_once(
    database_url: str, tmp_path: Path, processes: int, callers: int, size: int
) -> None:
    """Three trees end at their money, their tokens and their calls; the fourth at what all may spend in a day."""
    races = [
        Race(database_url, str(tmp_path), (), callers // processes, number) for number in range(processes)
    ]
    settings = races[0].settings()
    database = Database.of(settings)
    try:
        Models(database).add(
            "small", {"adapter": "script", "provider_model": "x", "slots": 1000, **PRICES}, author="ada"
        )
        calls, budgets = Calls(database, settings), Budgets(database, settings)
        limits = {
            "usd": {"usd_limit": size * 400_000_000},
            "tokens": {"tokens_limit": size * 3_000},
            "calls": {"calls_limit": size * 20},
            "day": {},
        }
        roots = {name: calls.new_root() for name in limits}
        with database.write() as tx:
            for name, own in limits.items():
                row = meters.new_meter(tx, roots[name], settings)
                row |= dict.fromkeys(("usd_limit", "tokens_limit", "calls_limit"), ROOM) | own
                tx.insert(meter, [row])
        day_limit = size * 1_500_000_000
        budgets.set_quota("all", "", {"usd": day_limit / 1e9}, author="ada")

        asked = sum(run_callers([Race(**{**vars(one), "roots": list(roots.values())}) for one in races]))

        check(database, settings, limits, roots, day_limit, asked)
        # Each limit is used up: one request after the other, with nothing reserved, comes to its end.
        provider = RandomProvider(99)
        asked += spend_the_rest(database, settings, [roots["day"]], provider)
        check(database, settings, limits, roots, day_limit, asked)
        assert is_used_up(database, "day", roots["day"], day_limit)
        budgets.set_quota("all", "", {"usd": ROOM / 1e9}, author="ada")
        provider = RandomProvider(100)
        asked += spend_the_rest(
            database, settings, [roots[name] for name in ("usd", "tokens", "calls")], provider
        )
        check(database, settings, limits, roots, ROOM, asked)
        for name in ("usd", "tokens", "calls"):
            assert is_used_up(database, name, roots[name], day_limit), name
    finally:
        database.close()


def spend_the_rest(database: Database, settings: Any, roots: list[str], provider: RandomProvider) -> int:
    """Ask for these trees until one request alone is refused. Returns how often the provider was asked."""
    own = Database.of(settings)
    own.listen_for_wakeups()
    loop = ServiceLoop(Gateway(own, settings, adapters={"script": provider}), own.wakeup)
    loop.start()
    try:
        threads = [
            threading.Thread(
                target=ask_until_refused, args=(Calls(database, settings), root, f"rest {root}", 1)
            )
            for root in roots
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        stop_loops([loop], 30)
        own.close()
    return provider.asked


def check(
    database: Database,
    settings: Any,
    limits: dict[str, dict[str, int]],
    roots: dict[str, str],
    day_limit: int,
    asked: int,
) -> None:
    """No limit is exceeded, nothing is reserved, and meters, day, ledger and provider agree."""
    with database.read() as tx:
        trees = {row["root_id"]: row for row in tx.rows(sa.select(meter))}
        (day,) = tx.rows(sa.select(quota_day).where(quota_day.c.scope == "all"))
        ledger = tx.rows(sa.select(llm_call.c.root_id, llm_call.c.cost, llm_call.c.tries, llm_call.c.state))
        tries = tx.rows(sa.select(llm_try.c.cost, llm_try.c.tokens))
    assert {row["state"] for row in ledger} <= {"succeeded", "failed", "unknown", "refused"}
    for name, own in limits.items():
        tree, rows = trees[roots[name]], [row for row in ledger if row["root_id"] == roots[name]]
        assert tree["usd_spent"] == sum(row["cost"] for row in rows) <= tree["usd_limit"]
        assert tree["tokens_spent"] <= tree["tokens_limit"]
        assert tree["calls"] == sum(row["tries"] for row in rows) <= tree["calls_limit"]
        assert tree["usd_reserved"] == tree["tokens_reserved"] == 0
        assert {key: tree[key] for key in own} == own
    assert (
        day["usd_spent"]
        == sum(row["cost"] for row in ledger)
        == sum(one["cost"] for one in tries)
        <= day_limit
    )
    assert day["tokens_spent"] == sum(one["tokens"] for one in tries)
    assert day["usd_reserved"] == day["tokens_reserved"] == 0
    assert day["calls"] == len(tries) == asked
    found = verify(database, settings, only=["I21", "I22", "I23"], patience=0)
    assert [(one.code, one.examples) for one in found if one.count] == []


def is_used_up(database: Database, name: str, root: str, day_limit: int) -> bool:
    """Whether one more request would exceed the limit."""
    with database.read() as tx:
        (row,) = tx.rows(
            sa.select(llm_call)
            .where(llm_call.c.root_id == root, llm_call.c.state == "refused")
            .order_by(llm_call.c.id.desc())
            .limit(1)
        )
        (model,) = tx.rows(sa.select(model_table))
        (tree,) = tx.rows(sa.select(meter).where(meter.c.root_id == root))
        (day,) = tx.rows(sa.select(quota_day).where(quota_day.c.scope == "all"))
        amount = call_queue.worst_case(row, model)
        if name == "day":
            return day["usd_spent"] + amount.usd > day_limit
        reached = limits_reached.of_tree(tree, Amount(amount.usd, amount.tokens), tx.now)
    return reached is not None and reached.limit == name
