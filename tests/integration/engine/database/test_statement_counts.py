"""How many statements the hot paths send."""

import pytest

from functory.engine.database import schema
from functory.engine.events import emit_many
from functory.engine.executions import queue_rows
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.workers.execution.result_groups import GROUP_SIZE
from tests.support.world import on_postgresql

pytest_plugins = ["tests.support.world"]


def test_emit_sends_two_statements(world):
    world.events.emit("order.created", {})
    with world.statements() as sent:
        world.events.emit("order.created", {"n": 1}, subject="s")
    assert len(sent) == 2, sent
    with world.statements() as sent:
        world.events.emit("order.created", {"n": 1}, dedup_key="k")
    assert len(sent) == 2, sent


@pytest.mark.parametrize("matching", [True, False])
def test_routing_a_hundred_events_sends_as_many_statements_as_routing_one(world, matching):
    world.function("work")
    for n in range(20):
        world.trigger(f"other{n}", "work", {"type": [f"other{n}"]})
    world.trigger("on-order", "work", {"type": ["order.created" if matching else "order.paid"]})
    # The first firing inserts the row of the rate guard.
    world.events.emit("order.created", {"n": 0})
    world.route()
    counted = {}
    for size in (1, 10, 100):
        for n in range(size):
            world.events.emit("order.created", {"n": n})
        with world.statements() as sent:
            assert world.router.route_batch().events == size
        counted[size] = len(sent)
    assert len(world.executions.list(limit=1000)) == (112 if matching else 0)
    # PostgreSQL marks events and queue in one statement.
    most = (15 if matching else 4) + (world.database.dialect == "sqlite")
    assert counted[1] == counted[10] == counted[100] <= most, sent


@on_postgresql
def test_routing_two_hundred_events_sends_a_tenth_of_a_statement_for_each(make_world):
    world = make_world(batch_size=200)
    world.function("work")
    world.trigger("on-order", "work", {"type": ["order.created"]}, guards={"rate": 1000})
    for _ in range(2):
        emit_many.write(
            world.database,
            emit_many.check_all(
                [{"type": "order.created", "data": {"n": n}, "subject": f"s{n % 50}"} for n in range(200)],
                1_000_000,
            ),
        )
        with world.statements(of_each_row=True) as sent:
            while world.router.route_batch().events:
                pass
    assert len(world.rows(schema.execution)) == 400
    assert len(sent) <= 20, sent
    assert {row["used"] for row in world.rows(schema.budget)} == {1}


def send(world, *rows):
    """Dispatch executions; their messages are lost."""
    with world.database.write() as tx:
        queue_rows.mark_sent(tx, [row["id"] for row in rows])


def test_a_run_without_dependencies_takes_ten_statements_or_seven(world):
    world.function("work")
    world.finish(world.claim(world.start()))
    row = world.start()
    send(world, row)
    with world.statements() as claiming:
        claim = world.claim(row)
    with world.statements() as finishing:
        world.finish(claim, result=1)
    # PostgreSQL changes an execution, its place in the queue and its attempt in one statement.
    counts = (4, 3) if world.dialect == "postgresql" else (5, 5)
    assert (len(claiming), len(finishing)) == counts, (claiming, finishing)


def test_a_message_of_many_ids_is_claimed_with_the_statements_of_one(world):
    world.function("work")
    world.finish(world.claim(world.start()))
    on_server = world.dialect == "postgresql"
    for is_sent, limit in ((True, 4 if on_server else 5), (False, 7)):
        rows = [world.start() for _ in range(10)]
        if is_sent:
            send(world, *rows)
        with world.statements() as sent:
            assert len(world.worker.claim([row["id"] for row in rows])) == 10
        assert len(sent) == limit, sent


def test_a_hundred_successes_are_stored_with_the_statements_of_one(world):
    world.function("work")
    world.finish(world.claim(world.start()))
    claims = world.worker.claim([world.start()["id"] for _ in range(100)])
    with world.statements() as sent:
        world.worker.finish_many([(claim, AttemptResult("succeeded", result=1)) for claim in claims])
    # PostgreSQL changes the executions and their attempts in one statement.
    assert len(sent) == (3 if world.dialect == "postgresql" else 6), sent


@on_postgresql
def test_executions_in_messages_of_a_hundred_take_few_statements_each(world):
    world.function("work")
    world.finish(world.claim(world.start()))
    rows = [world.start() for _ in range(200)]
    send(world, *rows)
    with world.statements() as sent:
        for at in (0, 100):
            claims = world.worker.claim([row["id"] for row in rows[at : at + 100]])
            assert len(claims) == 100
            for first in range(0, 100, GROUP_SIZE):
                results = [(claim, AttemptResult("succeeded", result=1)) for claim in claims]
                world.worker.finish_many(results[first : first + GROUP_SIZE])
    own = [one for one in sent if "outbox" not in one and "routing_queue" not in one]
    assert len(own) <= 0.06 * 200, own


def test_reading_a_tree_takes_as_many_statements_for_a_hundred_nodes_as_for_one(world):
    world.function("work")
    counted = []
    for size in (1, 100):
        claim = world.claim(world.start())
        for _ in range(size):
            world.executions.start("work", {}, parent=claim.cause)
        with world.statements() as sent:
            assert len(list(world.lineage.tree(claim.id).nodes[0].walk())) == size + 2
        counted.append(len(sent))
    assert counted[0] == counted[1] <= 6
