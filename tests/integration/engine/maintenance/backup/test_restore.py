"""A backup is one snapshot of the database, complete or refused; a restored database is safe to continue with."""

import contextlib
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from functory.engine.access.logins import Logins
from functory.engine.access.tokens import Tokens
from functory.engine.access.users import Users
from functory.engine.database import migrations, schema
from functory.engine.database.clock import SystemClock
from functory.engine.database.connection import Database
from functory.engine.errors import Conflict, Invalid, Stale
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.retry_or_dead import AttemptResult
from functory.engine.maintenance.backup import archive, create, pg_dump
from functory.engine.maintenance.backup import restore as backup_restore
from functory.engine.maintenance.backup.restore import restore
from tests.support.world import World, on_postgresql

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def target(request: pytest.FixtureRequest, world: World, tmp_path: Path) -> Iterator[Database]:
    """An empty database of the same kind."""
    if world.dialect == "sqlite":
        database = Database(f"sqlite:///{tmp_path / 'restored.db'}", clock=world.clock)
        yield database
        database.close()
        return
    with request.getfixturevalue("postgres_server").database() as url:
        database = Database(url, clock=world.clock)
        yield database
        database.close()


def save(world: World, path: Path, **options: Any) -> archive.Manifest:
    return create.backup(world.database, path, version="0.1.0", **options)


def lived_in(world: World) -> None:
    """A database with something of everything: ended, failed, running, queued, pending; odd texts and a large one."""
    world.function(limits={"retries": 2})
    world.function("other")
    world.trigger("orders", "work", {"type": ["order"]})
    world.secrets.set("KEY", "sealed")
    world.route()
    for number in range(5):
        world.events.emit(
            "order", {"n": number, "text": "ü€𝄞\x00\\x00 '; DROP TABLE event; --", "big": "x" * 200_000}
        )
    world.route()
    claims = world.worker.claim_any(3)
    log = {"seq": 1, "stream": "stdout", "level": "info", "text": "NUL \x00 and 𝄞", "offset_seconds": 0.0}
    world.finish(claims[0], result={"deep": ["𝄞", None, 1.5]}, logs=[log])
    world.finish(claims[1], "failed")
    world.events.emit("order", {"n": "pending"})


def everything(database: Database) -> dict[str, list[dict[str, Any]]]:
    with database.read() as tx:
        return {
            table.name: tx.rows(sa.select(table).order_by(*table.primary_key.columns))
            for table in schema.metadata.sorted_tables
        }


def test_everything_is_there_again_and_what_ran_is_queued_as_lost(
    world: World, target: Database, tmp_path: Path
):
    lived_in(world)
    before = everything(world.database)
    manifest = save(world, tmp_path / "b")
    assert everything(world.database) == before
    assert manifest.rows["event"] == len(before["event"])
    assert manifest.schema == migrations.HEAD
    (running,) = [row for row in before["execution"] if row["state"] == "running"]
    done = restore(target, world.settings, tmp_path / "b", author="me")
    assert [(one.code, one.examples) for one in done.invariants if one.count] == []
    assert done.recovered["lost"] == 1
    after = everything(target)
    ended = {row["id"]: row for row in before["execution"] if row["state"] not in ("queued", "running")}
    assert {row["id"]: row for row in after["execution"] if row["id"] in ended} == ended
    for name in ("function_version", "trigger_version", "firing", "log", "secret", "function"):
        assert after[name] == before[name]
    assert [row for row in after["event"] if row["type"] == "order"] == [
        row for row in before["event"] if row["type"] == "order"
    ]
    lost = next(row for row in after["execution"] if row["id"] == running["id"])
    assert (lost["state"], lost["attempt"]) == ("queued", 1)
    assert [row["outcome"] for row in after["attempt"] if row["execution_id"] == running["id"]] == ["lost"]
    assert after["worker"] == []
    assert [row["action"] for row in after["audit"]][-1] == "db.restore"
    assert after["in_flight"] == []


def test_it_goes_on_where_the_backup_was_and_a_worker_of_before_commits_nothing(
    world: World, target: Database, tmp_path: Path
):
    lived_in(world)
    save(world, tmp_path / "b")
    # What happens after the backup is not in it: a worker has claimed what was queued then.
    late = world.worker.claim_any(1)[0]
    restore(target, world.settings, tmp_path / "b")
    old, world.database = world.database, target
    try:
        there = Attempts(target, "new", lease_seconds=30)
        (claim,) = there.claim([late.id])
        zombie = Attempts(target, "worker", lease_seconds=30)
        with pytest.raises(Stale):
            zombie.finish(late, AttemptResult("succeeded", result="from before"))
        there.finish(claim, AttemptResult("succeeded", result="new"))
    finally:
        world.database = old
    again = World(
        str(target._url.render_as_string(hide_password=False)), tmp_path / "home", clock=world.clock
    )
    # The one that failed waits for its next try.
    again.advance(3600)
    again.run_all()
    open_ = again.lineage.open_work()
    assert (open_["queued executions"], open_["running executions"], open_["pending events"]) == (0, 0, 0)
    again.close()


def access(database: Database) -> tuple[int, int, set[str]]:
    """The logins, login links and the names of tokens of a database."""
    with database.read() as tx:
        counts = [
            tx.scalar(sa.select(sa.func.count()).select_from(table))
            for table in (schema.login, schema.login_link)
        ]
        return counts[0], counts[1], set(tx.execute(sa.select(schema.token.c.name)).scalars())


def test_logins_of_the_backup_have_ended_and_tokens_that_were_revoked_since_stay_so(
    world: World, target: Database, tmp_path: Path
):
    users, tokens, logins = Users(world.database), Tokens(world.database), Logins(world.database)
    users.create("ada", SecretStr("correct horse battery"), role="admin")
    made = {name: tokens.create("ada", name) for name in ("kept", "revoked")}
    cookie, _ = logins.log_in("ada", SecretStr("correct horse battery"))
    logins.new_link()
    world.function()
    save(world, tmp_path / "b")
    assert access(world.database) == (1, 1, {"kept", "revoked"})
    # Nothing tells what was revoked: all tokens are there, and counted.
    done = restore(target, world.settings, tmp_path / "b", author="me")
    assert access(target) == (0, 0, {"kept", "revoked"})
    counted = ("logins_ended", "tokens_revoked", "tokens_unchecked")
    assert [done.recovered[name] for name in counted] == [1, 0, 2]
    assert Logins(target).find(cookie) is None
    assert Tokens(target).find(made["kept"]["token"]) is not None
    # The database that is replaced tells it.
    Tokens(target).revoke(made["revoked"]["id"])
    done = restore(target, world.settings, tmp_path / "b", replace=True, author="me")
    assert access(target) == (0, 0, {"kept"})
    assert [done.recovered[name] for name in counted] == [1, 1, 0]
    assert Tokens(target).find(made["revoked"]["token"]) is None


def test_a_file_that_is_there_is_not_overwritten_unless_asked(world: World, tmp_path: Path):
    (tmp_path / "b").write_text("precious")
    with pytest.raises(Conflict, match="exists already"):
        save(world, tmp_path / "b")
    assert (tmp_path / "b").read_text() == "precious"
    save(world, tmp_path / "b", force=True)
    assert archive.read(tmp_path / "b").rows["event"] == 0
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600


def test_two_backups_do_not_write_the_same_file(world: World, tmp_path: Path):
    with archive.create(tmp_path / "b", force=False) as writer:
        with pytest.raises(Conflict, match="another backup"):
            save(world, tmp_path / "b")
        writer.sink.write(b"x")
        writer.finish(archive.Manifest("sqlite", "0100", "0.1.0", "", {}, "x"))
    assert archive.read(tmp_path / "b").bytes == 1


@pytest.mark.parametrize(
    "where", ["a byte of the payload", "a byte of the manifest", "cut", "empty", "no archive", "half"]
)
def test_a_file_that_was_changed_or_cut_is_refused_before_anything_is_touched(
    world: World, target: Database, tmp_path: Path, where: str
):
    lived_in(world)
    manifest = save(world, tmp_path / "b")
    whole = (tmp_path / "b").read_bytes()
    payload, rows_at = archive.BLOCK + manifest.bytes // 2, whole.index(b'"rows"') + 60
    changed = {
        "a byte of the payload": whole[:payload] + bytes([whole[payload] ^ 1]) + whole[payload + 1 :],
        "a byte of the manifest": whole[:rows_at] + bytes([whole[rows_at] ^ 1]) + whole[rows_at + 1 :],
        "cut": whole[:-3000],
        "empty": b"",
        "no archive": b"SQLite format 3\x00" * 100,
        "half": whole[: len(whole) // 2],
    }[where]
    (tmp_path / "b").write_bytes(changed)
    with pytest.raises(Invalid, match="not a complete backup"):
        restore(target, world.settings, tmp_path / "b")
    assert backup_restore.is_empty(target)


def test_a_database_with_something_in_it_is_replaced_only_when_asked(
    world: World, tmp_path: Path, target: Database
):
    lived_in(world)
    save(world, tmp_path / "b")
    migrations.upgrade(target)
    Users(target).create("eve", SecretStr("a password that is long"), role="admin", author="eve")
    with pytest.raises(Conflict, match="not empty"):
        restore(target, world.settings, tmp_path / "b")
    restore(target, world.settings, tmp_path / "b", replace=True)
    with target.write() as tx:
        tx.execute(sa.update(schema.function).values(state="disabled"))
    with pytest.raises(Conflict, match="not empty"):
        restore(target, world.settings, tmp_path / "b")
    assert {row["state"] for row in everything(target)["function"]} == {"disabled"}
    done = restore(target, world.settings, tmp_path / "b", replace=True)
    assert not any(one.count for one in done.invariants)
    assert {row["state"] for row in everything(target)["function"]} == {"enabled"}
    assert migrations.current(target) == migrations.HEAD


def test_what_is_replaced_comes_back_when_the_restore_fails(
    world: World, tmp_path: Path, target: Database, monkeypatch: pytest.MonkeyPatch
):
    lived_in(world)
    save(world, tmp_path / "b")
    restore(target, world.settings, tmp_path / "b")
    before = everything(target)

    def fail(*_: Any) -> Any:
        raise Invalid("no")

    monkeypatch.setattr(backup_restore, "recover_in_progress", fail)
    with pytest.raises(Invalid):
        restore(target, world.settings, tmp_path / "b", replace=True)
    assert everything(target) == before
    assert list(tmp_path.glob("*.restoring*")) == []


def test_a_database_in_use_is_not_replaced(world: World, tmp_path: Path, target: Database):
    lived_in(world)
    save(world, tmp_path / "b")
    migrations.upgrade(target)
    url = target._url.render_as_string(hide_password=False)
    script = (
        "import sys; from functory.engine.database.connection import Database\n"
        "d = Database(sys.argv[1]); c = d.engine.connect()\n"
        "c.exec_driver_sql('SELECT 1'); print('open', flush=True); sys.stdin.readline()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path.cwd(),
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(Conflict, match="stop all roles"):
            restore(target, world.settings, tmp_path / "b")
        other.kill()
    restore(target, world.settings, tmp_path / "b")


def test_a_backup_of_a_newer_schema_is_refused(
    world: World, tmp_path: Path, target: Database, monkeypatch: pytest.MonkeyPatch
):
    save(world, tmp_path / "b")
    monkeypatch.setattr(migrations, "HEAD", "0099")
    with pytest.raises(Conflict, match="knows up to 0099"):
        restore(target, world.settings, tmp_path / "b", replace=True)
    with pytest.raises(Conflict, match="knows up to 0099"):
        save(world, tmp_path / "c")


def test_a_backup_of_a_snapshot_before_the_first_release_is_refused(
    world: World, tmp_path: Path, target: Database, monkeypatch: pytest.MonkeyPatch
):
    save(world, tmp_path / "whole")
    old = Database(f"sqlite:///{tmp_path / 'old.db'}") if world.dialect == "sqlite" else target
    migrations.upgrade(old)
    with old.write() as tx:
        tx.execute(sa.text("UPDATE alembic_version SET version_num = '0013'"))
    with monkeypatch.context() as at_that_time:
        at_that_time.setattr(migrations, "FIRST", "0001")
        assert create.backup(old, tmp_path / "b", version="0.1.0").schema == "0013"
    with pytest.raises(Conflict, match=r"(?s)has schema 0013.*development snapshot.*the snapshot's own code"):
        restore(world.database, world.settings, tmp_path / "b", replace=True)
    with pytest.raises(Conflict, match=r"(?s)has schema 0013.*development snapshot"):
        create.backup(old, tmp_path / "c", version="0.1.0")
    with pytest.raises(Conflict, match=r"(?s)has schema 0013.*development snapshot"):
        restore(old, world.settings, tmp_path / "whole", replace=True)
    old.close()


def test_a_backup_of_the_other_kind_of_database_is_refused(world: World, tmp_path: Path):
    save(world, tmp_path / "b")
    other = (
        "postgresql+psycopg://absent@127.0.0.1:1/x"
        if world.dialect == "sqlite"
        else f"sqlite:///{tmp_path / 'x.db'}"
    )
    with pytest.raises(Invalid, match="same kind"):
        restore(Database(other), world.settings, tmp_path / "b")


def test_one_moment_of_a_database_that_is_written_to_all_the_time(
    world: World, target: Database, tmp_path: Path
):
    """Each round emits one event and routes the one before it; a mixture of two snapshots would break an invariant."""
    world.database.clock = world.clock = target.clock = SystemClock()
    world.function()
    world.trigger("orders", "work", {"type": ["order"]})
    world.route()
    # Large enough that it is copied in many steps.
    for number in range(40):
        world.events.emit("order", {"n": number, "fill": os.urandom(100_000).hex()})
    stop, rounds = threading.Event(), [0]

    def write() -> None:
        while not stop.is_set():
            world.events.emit("order", {"n": rounds[0]})
            world.router.route_batch()
            world.work()
            rounds[0] += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        while rounds[0] < 5:
            time.sleep(0.01)
        manifest = save(world, tmp_path / "b")
        at = rounds[0]
        while rounds[0] <= at:
            time.sleep(0.01)
    finally:
        stop.set()
        thread.join()
    done = restore(target, world.settings, tmp_path / "b")
    assert [(one.code, one.examples) for one in done.invariants if one.count] == []
    assert manifest.rows["event"] > 40
    now = {row["id"]: row for row in everything(world.database)["execution"]}
    then = everything(target)["execution"]
    assert then
    for row in then:
        if row["state"] == "succeeded":
            assert now[row["id"]] == row


def test_a_backup_that_is_killed_leaves_nothing_that_looks_like_one(world: World, tmp_path: Path):
    script = (
        "import sys; from pathlib import Path\n"
        "from functory.engine.maintenance.backup import archive, create as backup\n"
        "from functory.engine.database.connection import Database\n"
        "real = archive.Sink.write\n"
        "def slow(self, piece):\n"
        "    done = real(self, piece); print('writing', flush=True); sys.stdin.readline(); return done\n"
        "archive.Sink.write = slow\n"
        "backup.backup(Database(sys.argv[1]), Path(sys.argv[2]), version='0')\n"
    )
    lived_in(world)
    with subprocess.Popen(
        [sys.executable, "-c", script, world.url, str(tmp_path / "b")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path.cwd(),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        assert not (tmp_path / "b").exists()
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "b").exists()
    with pytest.raises(Invalid, match="not a complete backup"):
        archive.read(tmp_path / "b.part")
    save(world, tmp_path / "b")
    assert archive.read(tmp_path / "b").rows["execution"] > 0
    assert {path.name for path in tmp_path.glob("b*")} == {"b"}


def test_tar_opens_it(world: World, tmp_path: Path):
    save(world, tmp_path / "b")
    with tarfile.open(tmp_path / "b") as opened:
        assert opened.getnames()[1] == "manifest.json"


@on_postgresql
def test_the_password_is_in_no_argument_and_an_old_pg_dump_is_named(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    database = Database(world.url.replace("functory@", "functory:hush-hush@"), clock=world.clock)
    seen: list[tuple[list[str], dict[str, str]]] = []
    real = pg_dump._command

    def spy(*given: Any) -> Any:
        seen.append(real(*given))
        return seen[-1]

    monkeypatch.setattr(pg_dump, "_command", spy)
    create.backup(database, tmp_path / "b", version="0.1.0")
    database.close()
    ((command, environment),) = seen
    assert "hush-hush" not in " ".join(command)
    assert environment["PGPASSWORD"] == "hush-hush"
    assert b"hush-hush" not in (tmp_path / "b").read_bytes()
    monkeypatch.setattr(pg_dump, "_version", lambda _: "9.6")
    with pytest.raises(Invalid, match=r"pg_dump 9\.6 is too old"):
        save(world, tmp_path / "c")
    assert not (tmp_path / "c").exists()


@pytest.mark.postgres
def test_only_our_tables_in_whatever_schema(request: pytest.FixtureRequest, tmp_path: Path):
    with contextlib.ExitStack() as stack:
        server = request.getfixturevalue("postgres_server")
        plain, fresh = (stack.enter_context(server.database()) for _ in range(2))
        for url in (plain, fresh):
            bare = Database(url)
            with bare.write() as tx:
                tx.execute(sa.text("CREATE SCHEMA apart"))
                tx.execute(sa.text("CREATE TABLE public.theirs AS SELECT 1 AS one"))
            bare.close()
        place = "?options=-csearch_path%3Dapart"
        world = World(plain + place, tmp_path / "home", clock=SystemClock())
        migrations.upgrade(world.database)
        lived_in(world)
        manifest = save(world, tmp_path / "b")
        assert manifest.place == "apart"
        assert "theirs" not in manifest.rows
        elsewhere = Database(fresh)
        with pytest.raises(Conflict, match="search_path"):
            restore(elsewhere, world.settings, tmp_path / "b")
        elsewhere.close()
        there = Database(fresh + place)
        done = restore(there, world.settings, tmp_path / "b")
        assert not any(one.count for one in done.invariants)
        assert len(everything(there)["function"]) == 2
        there.close()
        world.close()
