"""Pruning beside other schedulers and beside an operator: nothing is lost, and nothing is counted twice."""

import threading
from collections import Counter
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.database.connection import Database
from functory.engine.maintenance import prune_exemptions, tree_deletion
from tests.support.aging_world import DAY, MONTH, order, prune, publish, roots
from tests.support.world import World, on_postgresql

pytest_plugins = ["tests.support.world"]


@on_postgresql
def test_what_an_operator_replays_at_that_moment_is_not_pruned(aging: World):
    """On PostgreSQL a transaction that adds to an old tree locks a row of it. SQLite has one writer."""
    root = order(aging)
    aging.advance(31 * DAY)
    with aging.database.write() as tx:
        tx.execute(
            sa.select(schema.event)
            .where(schema.event.c.id == root)
            .with_for_update(read=True, key_share=True)
        )
        prune(aging)
        assert root in roots(aging)
    prune(aging)
    assert roots(aging) == set()


def test_several_schedulers_divide_the_work(aging: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tree_deletion, "CHUNK", 10)
    for _ in range(25):
        aging.events.emit("order", {})
    aging.run_all()
    publish(aging)
    aging.advance(31 * DAY)
    events = len(aging.rows(schema.event))
    gone: Counter[str] = Counter()
    lock = threading.Lock()

    def one() -> None:
        database = Database(aging.url, clock=aging.clock)
        for step in tree_deletion.prune(database, MONTH):
            with lock:
                gone.update(step)
        database.close()

    threads = [threading.Thread(target=one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for step in tree_deletion.prune(aging.database, MONTH):
        gone.update(step)
    assert gone["event"] == events
    assert aging.rows(schema.event) == []


@on_postgresql
def test_a_tree_that_another_scheduler_deletes_while_it_is_looked_at_is_passed_over(
    aging: World, monkeypatch: pytest.MonkeyPatch
):
    order(aging)
    order(aging)
    aging.advance(31 * DAY)
    find_exempt = prune_exemptions.find_exempt

    def after_another_has_pruned(*given: Any) -> Any:
        monkeypatch.setattr(prune_exemptions, "find_exempt", find_exempt)
        assert prune(aging)["trees"] > 0
        return find_exempt(*given)

    monkeypatch.setattr(prune_exemptions, "find_exempt", after_another_has_pruned)
    database = Database(aging.url, clock=aging.clock)
    assert not sum(tree_deletion.prune(database, MONTH), Counter())
    database.close()
    assert aging.rows(schema.event) == []
