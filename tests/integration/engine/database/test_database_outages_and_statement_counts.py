"""A database that is away, full, forked or given odd values; and the statements that the hot paths send."""

import multiprocessing
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from functory.engine.database import migrations, schema
from functory.engine.database.connection import Database
from functory.engine.errors import Conflict, FunctoryError, Invalid, Unavailable
from tests.services.port import free_port

if TYPE_CHECKING:
    from functory.engine.database.transaction import Tx
    from tests.support.world import World

pytest_plugins = ["tests.support.world"]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


VALUES = [
    "naïve 漢字 🦆",
    "a\x00b",
    "\ud800 lone",
    {"\udfff": "\x00", "": None},
    2**63 - 1, 2**63, -(2**64), 10**40, 0.1, -0.0, 1e308, True, None,
    [], {}, "", [[[]]],
    nested(200),
    "'; DROP TABLE event; --", "%(x)s :y ?",
]  # fmt: skip


def test_any_json_value_survives_wherever_it_is_stored(world):
    world.function("work")
    for number, value in enumerate(VALUES, 1):
        row = world.executions.start("work", {"value": value})
        claim = world.claim(row)
        assert claim.row["input"] == {"value": value}
        world.finish(claim, result=value)
        assert world.executions.get(row["id"])["result"] == value
        assert (
            world.rows(schema.event, schema.event.c.type == "execution.succeeded")[-1]["data"]["output"]
            == value
        )
        assert world.events.get(world.events.emit("order.created", value))["data"] == value
        world.state.set("work", "key", value)
        assert world.state.get("work", "key") == (value, number)
        assert type(world.state.get("work", "key")[0]) is type(value)
        assert world.function("work", metadata={"value": value})["metadata"] == {"value": value}
    world.route()
    assert world.lineage.open_work()["pending events"] == 0


NOT_JSON = [
    float("nan"),
    float("inf"),
    {1: 2},
    {1, 2},
    b"bytes",
    object(),
    nested(300),
    nested(5000),
    10**5000,
]


def test_what_is_not_json_is_refused_wherever_it_is_given(world):
    world.function("work")
    for value in NOT_JSON:
        for give in (
            lambda v=value: world.events.emit("order.created", v),
            lambda v=value: world.executions.start("work", {"value": v}),
            lambda v=value: world.state.set("work", "key", v),
            lambda v=value: world.function("work", metadata={"value": v}),
        ):
            with pytest.raises(Invalid):
                give()
    assert (world.executions.list(), world.rows(schema.state), world.types()) == (
        [],
        [],
        ["function.created"],
    )


def test_texts_that_a_database_cannot_hold_are_made_visible_or_refused(world):
    event = world.events.emit("order.created", subject="a\x00\ud800b")
    assert world.events.get(event)["subject"] == "a\\x00\\ud800b"
    world.function("work")
    for key in ("a\x00b", "\ud800"):
        for refused in (
            lambda k=key: world.events.emit("order.created", dedup_key=k),
            lambda k=key: world.start(idempotency_key=k),
            lambda k=key: world.state.set("work", k, 1),
        ):
            with pytest.raises(Invalid):
                refused()
        for looked in (
            lambda k=key: world.events.list(type_=k),
            lambda k=key: world.executions.list(function=k),
            lambda k=key: world.state.get("work", k),
        ):
            try:
                assert not looked()
            except Invalid as error:
                assert "cannot hold that value" in str(error)
    log = {"seq": 1, "stream": "stdout", "level": "info", "text": "a\x00\ud800b", "offset_seconds": 0.0}
    claim = world.claim(world.start())
    world.finish(claim, "failed", logs=[log], error={"type": "E", "message": "\x00\ud800"}, retryable=False)
    assert world.executions.logs(claim.id)[0]["text"] == "a\\x00\\ud800b"
    assert world.executions.get(claim.id)["error"]["message"] == "\x00\ud800"


@pytest.mark.parametrize(("size", "fits"), [(1_048_576, True), (1_048_577, False)])
def test_data_beyond_a_mebibyte_is_refused_and_one_of_exactly_that_size_is_not(world, size, fits):
    world.function("work")
    text = "x" * (size - 2)
    given = {"v": "x" * (size - len('{"v":""}'))}
    if fits:
        assert world.events.get(world.events.emit("order.created", text))["data"] == text
        assert world.executions.start("work", given)["state"] == "queued"
        return
    for give in (
        lambda: world.events.emit("order.created", text),
        lambda: world.executions.start("work", given),
    ):
        with pytest.raises(
            Invalid, match=r"(?s)too large.*1,048,577 bytes; at most 1,048,576 are taken.*try: "
        ):
            give()
    assert world.types() == ["function.created"]


def test_a_wrong_or_reserved_event_type_is_refused(world):
    reserved = ["execution.succeeded", "function.mine", "trigger.x"]
    for type_ in ("", "a b", "a..b", ".a", "a\x00", *reserved, "x" * 256, None, 5):
        with pytest.raises(Invalid, match="event type"):
            world.events.emit(type_)
    assert world.types() == []


def test_a_wrong_subject_is_refused(world):
    for subject in ("", "x" * 1025, 5):
        with pytest.raises(Invalid, match="wrong event subject"):
            world.events.emit("order.created", subject=subject)


def test_a_server_that_does_not_answer_is_unavailable_and_no_password_is_shown():
    url = f"postgresql+psycopg://ada:hunter2@127.0.0.1:{free_port()}/shop"
    database = Database(url)
    for use in (
        lambda: database.ping(),
        lambda: migrations.upgrade(database),
        lambda: migrations.check(database),
        lambda: database.group_commit(lambda tx: tx.now),
        database.write().__enter__,
    ):
        with pytest.raises(Unavailable) as caught:
            use()
        told = str(caught.value) + repr(caught.value) + str(caught.value.__cause__) + repr(database)
        assert "cannot be used" in told
        assert "refused" in told
        assert "FUNCTORY_DATABASE_URL" in told
        assert "hunter2" not in told


@pytest.mark.postgres
def test_a_wrong_database_name_is_unavailable_and_says_what_the_server_said(postgres_server):
    url = sa.make_url(postgres_server.start().url).set(database="nowhere", password="hunter2")
    with pytest.raises(Unavailable, match='database "nowhere" does not exist') as caught:
        Database(url.render_as_string(hide_password=False)).ping()
    assert "hunter2" not in str(caught.value)


def test_a_database_without_tables_says_how_to_make_them(empty_url):
    database = Database(empty_url)
    with pytest.raises(Conflict, match=r"(?s)schema none.*try: functory db upgrade"):
        migrations.check(database)
    with pytest.raises(Unavailable, match="try: functory db upgrade"), database.read() as tx:
        tx.rows(sa.select(schema.event))
    database.close()


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(Unavailable, match="unable to open database file"):
        Database(f"sqlite:///{tmp_path}/file/functory.db").ping()


@pytest.mark.postgres
def test_a_restart_of_the_server_is_survived_by_pool_clock_and_wakeups(postgres_server, emptied_postgres):
    database, other = Database(emptied_postgres), Database(emptied_postgres)
    database.listen_for_wakeups()

    def heard() -> bool:
        for _ in range(100):
            seen = database.wakeup.generation("events")
            with other.write() as tx:
                tx.wake("events")
            if database.wakeup.wait("events", seen, 0.1) != seen:
                return True
        return False

    assert heard()
    with database.read() as tx:
        backends = "pid <> pg_backend_pid() AND datname = current_database()"
        tx.execute(sa.text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {backends}"))
    assert heard(), "who listens must listen again after its connection was cut"
    database.close()
    other.close()


def test_a_statement_that_fails_does_not_tell_its_parameters(world):
    world.function("work")
    with pytest.raises(sa.exc.IntegrityError) as caught, world.database.write() as tx:
        row = world.rows(schema.function)[0]
        tx.insert(schema.function, [row | {"id": tx.new_id(), "state": "hunter2"}])
    assert "hunter2" not in str(caught.value)


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
def test_a_process_that_stands_still_in_a_transaction_loses_its_locks(emptied_postgres):
    # Long beside the pauses of a busy machine: at those, too, a transaction stands still.
    still, other = Database(emptied_postgres, idle_seconds=2), Database(emptied_postgres)
    row = sa.update(schema.counter).where(schema.counter.c.name == "turns")
    with other.write() as tx:
        tx.insert(schema.counter, [{"name": "turns", "value": 0}])
    done: list[str] = []
    with pytest.raises(Unavailable, match=r"lost|idle"), still.write() as tx:
        tx.execute(row.values(value=1))
        done.append("locked")
        # It waits for the lock, as long as somebody has it.
        with other.write() as beside:
            beside.execute(row.values(value=2))
        done.append("written beside")
        tx.execute(row.values(value=3))
    assert done == ["locked", "written beside"]
    with still.write() as tx:
        assert tx.scalar(sa.select(schema.counter.c.value).where(schema.counter.c.name == "turns")) == 2
    still.close()
    other.close()


@pytest.mark.postgres
def test_transactions_that_lock_each_other_out_are_repeated(emptied_postgres):
    one, two = Database(emptied_postgres), Database(emptied_postgres)
    with one.write() as tx:
        tx.insert(schema.counter, [{"name": name, "value": 0} for name in ("a", "b")])
    barrier = threading.Barrier(2, timeout=20)
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


@pytest.fixture
def full_disk(tmp_path: Path, migrated_file: Path) -> "Iterator[tuple[World, Callable[[int], None]]]":
    """A world on SQLite whose file may not grow beyond a number of pages, and the way to set that number."""
    from tests.support.world import World

    world = World(f"sqlite:///{shutil.copy(migrated_file, tmp_path / 'full.db')}", tmp_path)
    limit = [0]

    def set_limit(connection: Any, *_: Any) -> None:
        connection.execute(f"PRAGMA max_page_count={limit[0] or 1_073_741_823}").fetchall()

    sa.event.listen(world.database.engine, "checkout", set_limit)

    def allow(pages: int) -> None:
        limit[0] = pages

    yield world, allow
    world.close()


def test_a_full_disk_is_reported_loses_nothing_and_work_goes_on_afterwards(full_disk):
    world, allow = full_disk
    world.function("work")
    done = world.start()
    claim = world.claim(done)
    kept = [world.events.emit("order.created", "x" * 1000) for _ in range(5)]
    allow(1)  # SQLite takes what the file has by now as the least limit.
    written, refused = [], None
    for n in range(200):
        try:
            written.append(world.events.emit("order.created", f"{n}" + "x" * 20_000))
        except Unavailable as error:
            refused = error
            break
    assert refused is not None
    assert "full" in refused.why
    assert refused.try_ == "free disk space; nothing was written"
    with pytest.raises(Unavailable):
        world.finish(claim, result="x" * 500_000)
    assert world.executions.get(done["id"])["state"] == "running"
    assert [row["id"] for row in world.rows(schema.event, schema.event.c.type == "order.created")] == [
        *kept,
        *written,
    ]

    allow(0)
    assert world.finish(claim, result="x" * 500_000).state == "succeeded"
    assert len(world.executions.get(done["id"])["result"]) == 500_000
    world.route()
    assert world.lineage.open_work()["pending events"] == 0
    with world.database.read() as tx:
        assert tx.scalar(sa.text("PRAGMA integrity_check")) == "ok"


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
    said = [answers.get(timeout=60) for _ in children]
    for child in children:
        child.join(60)
    assert all(isinstance(pid, int) for pid in said), said
    assert len({*here, *said}) == len({*here}) + 3
    with database.read() as tx:
        assert tx.scalar(sa.select(sa.func.count()).select_from(schema.counter)) == 31 + before
        if database.dialect == "postgresql":
            assert _session(tx) in here, "the parent's sessions live on"


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
    assert counted[1] == counted[10] == counted[100] <= (14 if matching else 4), sent


def test_a_run_without_dependencies_takes_eight_statements(world):
    world.function("work")
    world.finish(world.claim(world.start()))
    row = world.start()
    with world.statements() as claiming:
        claim = world.claim(row)
    with world.statements() as finishing:
        world.finish(claim, result=1)
    assert (len(claiming), len(finishing)) == (4, 4), (claiming, finishing)


def test_a_message_of_many_ids_is_claimed_with_the_statements_of_one(world):
    world.function("work")
    world.finish(world.claim(world.start()))
    rows = [world.start()["id"] for _ in range(10)]
    with world.statements() as sent:
        assert len(world.worker.claim(rows)) == 10
    assert len(sent) == 4, sent


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


def test_a_new_file_is_waited_for_while_another_process_writes_to_it(tmp_path: Path):
    # SQLite itself refuses at once to switch a file to its log that somebody writes to, whatever the timeout.
    other = sqlite3.connect(tmp_path / "new.db", isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE something (x)")
    other.execute("BEGIN IMMEDIATE")
    database = Database(f"sqlite:///{tmp_path}/new.db")
    opened: list[float] = []
    opening = threading.Thread(target=lambda: opened.append(database.ping()))
    opening.start()
    opening.join(0.3)
    assert opening.is_alive() and not opened
    other.execute("COMMIT")
    opening.join(30)
    assert opened
    other.close()
    database.close()


def test_a_new_file_that_stays_locked_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("functory.engine.database.sqlite_connections.BUSY_MILLISECONDS", 200)
    other = sqlite3.connect(tmp_path / "new.db", isolation_level=None)
    other.execute("CREATE TABLE something (x)")
    other.execute("BEGIN IMMEDIATE")
    database = Database(f"sqlite:///{tmp_path}/new.db")
    with pytest.raises(Unavailable, match="locked"):
        database.ping()
    other.close()
    database.close()
