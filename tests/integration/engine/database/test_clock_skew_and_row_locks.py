"""Defects that cost time and not events: clocks that disagree, and rows that two roles wanted at once."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event as hooks

from functory.engine.database import migrations
from functory.engine.database.clock import ServerClock, ServerIds, lowest_id
from functory.engine.database.connection import Database
from functory.engine.events import outbox, routing_queue
from functory.engine.events import store as event_store
from functory.engine.executions import queue_rows
from tests.support.patience import patient

if TYPE_CHECKING:
    from tests.support.world import World

pytest_plugins = ["tests.support.world"]


def test_the_servers_clock_is_read_off_the_moment_of_the_answer() -> None:
    server = datetime(2030, 1, 1, tzinfo=UTC)
    # The answer belongs to a time ten seconds ago: a slow connection must not shift the clock.
    clock = ServerClock(lambda: (time.monotonic() - 10, server))
    assert 10 <= (clock.now() - server).total_seconds() < 10 + patient(1)


def test_no_thread_takes_this_machines_clock_while_another_asks_the_server_for_the_first_time() -> None:
    server = datetime(2030, 1, 1, tzinfo=UTC)
    asked, answer = threading.Event(), threading.Event()

    def ask() -> tuple[float, datetime]:
        asked.set()
        answer.wait(patient(30))
        return time.monotonic(), server

    clock = ServerClock(ask)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(clock.now)
        asked.wait(patient(30))
        second = threads.submit(clock.now)
        # It waits as well, or it has already answered with something else.
        with contextlib.suppress(TimeoutError):
            second.result(0.1)
        answer.set()
        for future in (first, second):
            assert 0 <= (future.result(patient(30)) - server).total_seconds() < patient(30)


def test_while_one_thread_asks_the_server_again_the_others_go_on_with_its_last_answer() -> None:
    server = datetime(2030, 1, 1, tzinfo=UTC)
    answers = iter([True, False])
    asked, answer = threading.Event(), threading.Event()

    def ask() -> tuple[float, datetime]:
        if not next(answers):
            asked.set()
            answer.wait(patient(30))
        return time.monotonic(), server

    clock = ServerClock(ask, refresh=0)
    clock.now()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(clock.now)
        asked.wait(patient(30))
        assert clock.now() >= server
        assert not waiting.done()
        answer.set()
        waiting.result(patient(30))


def test_ids_follow_the_servers_clock_and_grow() -> None:
    server = datetime(2030, 1, 1, tzinfo=UTC)
    new_id = ServerIds(ServerClock(lambda: (time.monotonic(), server)))
    with ThreadPoolExecutor(4) as threads:
        mine = list(threads.map(lambda _: [new_id() for _ in range(500)], range(4)))
    assert all(ids == sorted(ids) for ids in mine)
    made = sorted(id_ for ids in mine for id_ in ids)
    assert len(set(made)) == 2000
    assert {(uuid.UUID(id_).version, uuid.UUID(id_).variant) for id_ in made} == {(7, uuid.RFC_4122)}
    assert lowest_id(server) <= made[0] < made[-1] < lowest_id(server + timedelta(seconds=60))


@pytest.mark.postgres
def test_a_server_that_stood_still_while_it_was_asked_the_time_is_asked_again(postgres_url: str) -> None:
    stood = 2.0
    database = Database(postgres_url)
    pauses = iter([stood])

    def stand_still(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "clock_timestamp" in statement:
            time.sleep(next(pauses, 0.0))

    hooks.listen(database.engine, "before_cursor_execute", stand_still)
    try:
        # Of a single answer, half of the time that it took would be the error.
        error = abs((database.clock.now() - datetime.now(UTC)).total_seconds())
        assert next(pauses, None) is None
        assert error < stood / 4
    finally:
        database.close()


def test_what_the_dispatcher_has_sent_is_claimed_by_a_worker_whose_clock_is_behind(world: World) -> None:
    world.function()
    row = world.start(delay=5)
    assert world.worker.claim([row["id"]]) == [], "not due, and not sent"
    with world.database.write() as tx:
        queue_rows.mark_sent(tx, [row["id"]])
    assert [claim.id for claim in world.worker.claim([row["id"]])] == [row["id"]]


def test_publisher_and_router_never_hide_events_from_each_other(postgres_url: str) -> None:
    database = Database(postgres_url)
    try:
        migrations.upgrade(database)
        id_ = event_store.Events(database).emit("order.placed", {})
        with database.write() as router:
            taken = routing_queue.take_pending(router, 10)
            assert [row.id for row in taken.events] == [id_]
            with database.write() as other:
                outbox.put(other, [id_])
            with database.write() as publisher:
                _, rows = outbox.claim_unpublished(publisher, 10, 60)
                assert [row.id for row in rows] == [id_]
    finally:
        database.close()
