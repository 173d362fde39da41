"""Threads that share a commit, transactions that lock each other out, and forked children."""

import multiprocessing
import os
import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.database.connection import Database
from functory.engine.errors import FunctoryError
from tests.support.patience import patient
from tests.support.waiting import stays

if TYPE_CHECKING:
    from functory.engine.database.transaction import Tx

pytest_plugins = ["tests.support.world"]


def test_threads_that_share_a_commit_each_get_their_own_result_or_error(world):
    world.function("work")
    results: dict[int, Any] = {}
    barrier = threading.Barrier(24)

    def start(n: int) -> None:
        barrier.wait()
        try:
            results[n] = world.executions.start("work" if n % 3 else "missing", {"n": n})
        except FunctoryError as error:
            results[n] = error

    threads = [threading.Thread(target=start, args=(n,)) for n in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, result in results.items():
        assert (result["input"] == {"n": n}) if n % 3 else isinstance(result, FunctoryError)
    assert len(world.executions.list()) == 16


@pytest.mark.postgres
def test_transactions_that_lock_each_other_out_are_repeated(emptied_postgres):
    one, two = Database(emptied_postgres), Database(emptied_postgres)
    with one.write() as tx:
        tx.insert(schema.counter, [{"name": name, "value": 0} for name in ("a", "b")])
    barrier = threading.Barrier(2, timeout=patient(20))
    met: list[str] = []
    failures: list[Exception] = []

    def raise_both(database: Database, order: str) -> None:
        def work(tx: Any) -> None:
            for turn, name in enumerate(order):
                tx.execute(
                    sa.update(schema.counter)
                    .where(schema.counter.c.name == name)
                    .values(value=schema.counter.c.value + 1)
                )
                if turn == 0 and order not in met:
                    met.append(order)
                    barrier.wait()

        try:
            database.group_commit(work)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=raise_both, args=pair) for pair in ((one, "ab"), (two, "ba"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with one.read() as tx:
        assert [
            row["value"]
            for row in tx.rows(sa.select(schema.counter).where(schema.counter.c.name.in_(["a", "b"])))
        ] == [2, 2]
    one.close()
    two.close()


def _session(tx: "Tx") -> int:
    """The number of a connection's session on PostgreSQL; on SQLite of the process."""
    return tx.scalar(sa.text("SELECT pg_backend_pid()")) if tx.dialect == "postgresql" else os.getpid()


def _use_in_child(database: Database, count: int, answers: Any) -> None:
    try:
        with database.read() as tx:
            pid = _session(tx)
        for n in range(count):
            with database.write() as tx:
                tx.insert(schema.counter, [{"name": f"{os.getpid()}-{n}", "value": n}])
        answers.put(pid)
    except BaseException as error:
        answers.put(repr(error))


def test_a_forked_child_has_connections_and_locks_of_its_own(world):
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    database = world.database
    before = len(world.rows(schema.counter))
    children = [context.Process(target=_use_in_child, args=(database, 10, answers)) for _ in range(3)]
    if database.dialect == "sqlite":
        # SQLite's own bookkeeping is copied, too: a fork inside of a transaction would lock the child out.
        for child in children:
            child.start()
    with database.write() as tx:
        with database.read() as other:
            here = [_session(tx), _session(other)]
        # By now one session of the pool is in use and one is idle: the children may take neither.
        tx.insert(schema.counter, [{"name": "parent", "value": 1}])
        if database.dialect == "postgresql":
            for child in children:
                child.start()
    said = [answers.get(timeout=patient(60)) for _ in children]
    for child in children:
        child.join(patient(60))
    assert all(isinstance(pid, int) for pid in said), said
    assert len({*here, *said}) == len({*here}) + 3
    with database.read() as tx:
        assert tx.scalar(sa.select(sa.func.count()).select_from(schema.counter)) == 31 + before
        if database.dialect == "postgresql":
            assert _session(tx) in here, "the parent's sessions live on"


def test_what_another_process_writes_into_the_file_wakes_this_one(tmp_path, migrated_file):
    file = Path(shutil.copy(migrated_file, tmp_path / "shared.db"))
    here, there = Database(f"sqlite:///{file}"), Database(f"sqlite:///{file}")
    here.listen_for_wakeups()
    for _ in range(100):
        seen = here.wakeup.generation("events")
        with there.write() as tx:
            tx.insert(schema.counter, [{"name": tx.new_id(), "value": 1}])
        if here.wakeup.wait("events", seen, 0.2) != seen:
            break
    else:
        raise AssertionError("never woken")
    here.close()
    there.close()


def test_two_shared_transactions_run_at_the_same_time_on_postgresql_and_one_on_sqlite(world):
    at_once = 2 if world.dialect == "postgresql" else 1
    inside, most = [0], [0]
    lock = threading.Lock()
    all_in = threading.Event()

    def work(_: "Tx") -> None:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            if inside[0] == at_once:
                all_in.set()
        assert all_in.wait(patient(20))
        with lock:
            inside[0] -= 1

    threads = [
        threading.Thread(target=lambda: world.database.group_commit(work), daemon=True) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patient(20))
    assert most == [at_once] and not any(thread.is_alive() for thread in threads)


def test_threads_that_wait_for_shared_transactions_do_not_use_the_processor(world):
    go_on, begun = threading.Event(), threading.Semaphore(0)
    spent: list[float] = []

    def hold(_: "Tx") -> None:
        begun.release()
        assert go_on.wait(patient(20))

    def wait() -> None:
        before = time.thread_time()
        world.database.group_commit(lambda tx: None)
        spent.append(time.thread_time() - before)

    holders = [threading.Thread(target=lambda: world.database.group_commit(hold)) for _ in range(2)]
    waiting = [threading.Thread(target=wait) for _ in range(4)]
    for thread in holders:
        thread.start()
    begun.acquire()
    for thread in waiting:
        thread.start()
    stays(lambda: not go_on.is_set(), 0.5)
    go_on.set()
    for thread in (*holders, *waiting):
        thread.join(patient(20))
    # A thread that looks again and again would use most of the half second.
    assert len(spent) == 4 and sum(spent) < 0.2
