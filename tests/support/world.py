"""A small world for engine tests: a migrated database, its services, and a worker that the test itself plays.

`world` runs each test on SQLite and on PostgreSQL. Its clock changes only when the test moves it. Nothing runs in the
background, so a test decides what happens between two transactions. `engine`
is a complete embedded engine instead, with every role and child processes, in a folder of its own.
"""

import os
import random
import shutil
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from functory.client.functory import Functory
from functory.engine.access import grants
from functory.engine.access.secrets import Secrets
from functory.engine.database import driver_rows, migrations, row_copy, schema
from functory.engine.database.clock import Clock, ManualClock, SystemClock
from functory.engine.database.connection import Database
from functory.engine.database.postgres_pipeline import PipelinedConnection
from functory.engine.events.store import Events
from functory.engine.executions.attempts import Attempts
from functory.engine.executions.claims import Claim
from functory.engine.executions.execution_row import ExecutionRow
from functory.engine.executions.lineage import Lineage
from functory.engine.executions.retry_or_dead import AttemptResult, NextState
from functory.engine.executions.store import Executions
from functory.engine.firings.trigger_store import Triggers
from functory.engine.functions.grant_approvals import GrantApprovals
from functory.engine.functions.registry import Functions
from functory.engine.functions.state import State
from functory.engine.settings import Settings
from functory.triggers import definition
from functory.triggers.routing.release import Release
from functory.triggers.routing.router import Router
from functory.triggers.sources.registry import Registry
from functory.triggers.sources.schedules.ticker import Ticker
from functory.triggers.trigger_history import TriggerHistory
from tests.services.server import roomy_memory
from tests.services.shared import locked
from tests.support import migrated_files

if TYPE_CHECKING:
    from tests.services.postgres import Postgres

LEASE = 30.0
WORLD_SETTINGS: dict[str, Any] = {"poll_seconds": 0.02, "lease_seconds": LEASE}


class _Compiled(MutableMapping[Any, Any]):
    """SQLAlchemy's cache of compiled statements, shared by all databases of one kind.

    Each database has an engine of its own, and compiling costs more than running. The first part of a key is the
    engine's dialect; the others of one kind compile to the same.
    """

    def __init__(self) -> None:
        self._found: dict[Any, Any] = {}

    def __getitem__(self, key: Any) -> Any:
        return self._found[key[1:]]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._found[key[1:]] = value

    def __delitem__(self, key: Any) -> None:
        del self._found[key[1:]]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


_compiled: defaultdict[str, _Compiled] = defaultdict(_Compiled)
_settings: dict[tuple[Any, ...], Settings] = {}


def settings_of(home: Path) -> Settings:
    """The settings of a world in ``home``. To read the environment takes longer than most statements: it is read once
    for the same variables in the same folder."""
    variables = tuple(sorted(item for item in os.environ.items() if item[0].startswith("FUNCTORY_")))
    key = (Path.cwd(), variables)
    if key not in _settings:
        _settings[key] = Settings(home=home, **WORLD_SETTINGS)
    return _settings[key].model_copy(update={"home": home})


class World:
    """The services of one engine over one database; `worker` is the claiming worker's name, `lease` is in seconds.

    `settings` are changed settings; `like` is a world that has made the same ones.
    """

    lease = LEASE

    def __init__(
        self,
        url: str,
        home: Path,
        *,
        clock: Clock | None = None,
        like: "World | None" = None,
        **settings: Any,
    ) -> None:
        self.url = url
        self.home = home
        self.clock = clock or ManualClock()
        self.database = Database(url, clock=self.clock)
        self.database.engine._compiled_cache = _compiled[self.database.dialect]
        if like is not None:
            self.settings = like.settings
        else:
            self.settings = (
                Settings(home=home, **WORLD_SETTINGS, **settings) if settings else settings_of(home)
            )
        self.functions = Functions(self.database, settings=self.settings)
        self.grant_approvals = GrantApprovals(self.database, self.settings)
        self.events = Events(self.database, self.settings.max_event_bytes)
        self.executions = Executions(self.database, self.settings)
        self.triggers = Triggers(self.database)
        self.secrets = Secrets(self.database, self.settings)
        self.state = State(self.database)
        self.lineage = Lineage(self.database)
        self.router = Router(self.database, self.settings)
        self.turn = Release(self.database, self.settings)
        self.ticker = Ticker(self.database, self.settings)
        self.sources = Registry(self.database, own_exchange=self.settings.event_exchange)
        self.worker = self.attempts("worker")

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.database.dialect

    def advance(self, seconds: float) -> None:
        """Move the clock."""
        assert isinstance(self.clock, ManualClock)
        self.clock.advance(seconds)

    def attempts(self, name: str, seed: int = 0) -> Attempts:
        """A worker of this name, with predictable jitter."""
        return Attempts(
            self.database,
            name,
            lease_seconds=LEASE,
            author_grants=grants.author_grant_kinds(self.settings),
            rng=random.Random(seed),
            settings=self.settings,
        )

    def function(
        self, name: str = "work", parameters: str = "*given, **named", **declared: Any
    ) -> dict[str, Any]:
        """Save a function of this name that takes anything."""
        return self.functions.save(f"def {name}({parameters}):\n    return None\n", **declared)

    def trigger(self, name: str, function: str, on: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        """Save a trigger in the second spelling."""
        return self.triggers.save(name, definition.define(on=on, function=function, **fields))

    def start(self, function: str = "work", **options: Any) -> dict[str, Any]:
        """Queue an execution without input."""
        return self.executions.start(function, {}, **options)

    def claim(self, row: Mapping[str, Any] | ExecutionRow, worker: Attempts | None = None) -> Claim:
        """Claim one execution, which must be claimable."""
        (claim,) = (worker or self.worker).claim([row.id if isinstance(row, ExecutionRow) else row["id"]])
        return claim

    def finish(
        self, claim: Claim, outcome: str = "succeeded", result: Any = None, **ending: Any
    ) -> NextState:
        """End an attempt; anything but a success carries an error."""
        if outcome != "succeeded":
            ending.setdefault("error", {"type": "ValueError", "message": "no"})
        return self.worker.finish(claim, AttemptResult(outcome, result=result, **ending))

    def route(self) -> list[tuple[str, str | None]]:
        """Route until nothing is pending; the new firings in their order as (trigger, reason or None)."""
        before = {(row["trigger_id"], row["event_id"]) for row in self.rows(schema.firing)}
        while self.router.route_batch().events:
            pass
        names = {row["id"]: row["name"] for row in self.rows(schema.trigger)}
        return [
            (names[row["trigger_id"]], row["reason"])
            for row in self.rows(schema.firing)
            if (row["trigger_id"], row["event_id"]) not in before
        ]

    def work(self, act: Callable[[Claim], Any] | None = None) -> int:
        """Run all due executions; `act` plays the function (default: it returns None), and may return how the attempt
        ends. Returns their number.
        """
        claims = self.worker.claim_any(1000)
        for claim in claims:
            found = act(claim) if act else None
            if isinstance(found, AttemptResult):
                self.worker.finish(claim, found)
            else:
                self.finish(claim, result=found)
        return len(claims)

    def replay_suppressed(self, trigger: str, event_id: str, author: str = "") -> dict[str, Any]:
        """Replay a suppressed match, as ``functory trigger replay`` does."""
        return self.trigger_history().replay(trigger, event_id, author=author)

    def trigger_history(self) -> TriggerHistory:
        """What its triggers decided about past events."""
        return TriggerHistory(self.database, self.events, self.triggers, self.settings)

    def run_all(self, act: Callable[[Claim], Any] | None = None, rounds: int = 200) -> int:
        """Route and work until nothing is left. Returns the number of executions; fails when the work does not
        end."""
        total = 0
        for _ in range(rounds):
            self.route()
            done = self.work(act)
            total += done
            if not done and not self.lineage.open_work()["pending events"]:
                return total
        raise AssertionError(f"no end after {rounds} rounds")

    def rows(self, table: sa.Table, *conditions: Any) -> list[dict[str, Any]]:
        """The rows of a table, in the order of time."""
        order = [
            c
            for c in (table.c.get("time"), table.c.get("created_at"), *table.primary_key.columns)
            if c is not None
        ]
        with self.database.read() as tx:
            return tx.rows(sa.select(table).where(*conditions).order_by(*order))

    def types(self, prefix: str = "", subject: str | None = None) -> list[str]:
        """The types of the events so far that begin with `prefix`, oldest first."""
        with self.database.read() as tx:
            rows = tx.rows(sa.select(schema.event.c.type, schema.event.c.subject).order_by(schema.event.c.id))
        return [
            row["type"]
            for row in rows
            if row["type"].startswith(prefix) and subject in (None, row["subject"])
        ]

    @contextmanager
    def statements(self, *, of_each_row: bool = False) -> Iterator[list[str]]:
        """Collect the SQL statements inside the block, without BEGIN and COMMIT. A batch counts as one, or
        ``of_each_row`` as PostgreSQL gets it: one for each row.

        NOTIFY does not count either: a thread of its own sends one for many transactions.
        """
        sent: list[str] = []

        def note(
            _connection: Any, _cursor: Any, statement: str, given: Any, _context: Any, many: bool
        ) -> None:
            if not statement.startswith(("BEGIN", "PRAGMA", "SELECT pg_notify")):
                sent.extend([statement] * (len(given) if many and of_each_row else 1))

        def copy(_connection: Any, table: sa.Table, _rows: Any) -> None:
            sent.append(f"COPY {table.name}")
            copy_rows(_connection, table, _rows)

        def later(connection: Any, statement: Any, parameters: Any = None) -> Any:
            if not statement.startswith(("BEGIN", "SAVEPOINT")):
                sent.append(statement)
            return send_later(connection, statement, parameters)

        def run(cursor: Any, statement: str, parameters: Any) -> None:
            sent.append(statement)
            run_statement(cursor, statement, parameters)

        copy_rows, send_later = row_copy.copy_rows, PipelinedConnection.later
        run_statement, driver_rows.run = driver_rows.run, run
        sa.event.listen(self.database.engine, "before_cursor_execute", note)
        row_copy.copy_rows, PipelinedConnection.later = copy, later
        try:
            yield sent
        finally:
            row_copy.copy_rows, PipelinedConnection.later = copy_rows, send_later
            driver_rows.run = run_statement
            sa.event.remove(self.database.engine, "before_cursor_execute", note)

    def close(self) -> None:
        """Close the connections."""
        self.database.close()


@pytest.fixture(scope="session")
def migrated_file(run_folder: Path) -> Path:
    """A migrated SQLite file to copy, made once for all processes of the run."""
    return migrated_files.migrated_file(run_folder)


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: Any, run_folder: Path) -> Iterator[str]:
    """The URL of a migrated PostgreSQL database of this process."""
    with postgres_server.database(template=migrated_template(postgres_server, run_folder)) as url:
        yield url


def migrated_template(postgres_server: Any, run_folder: Path) -> str:
    """The name of a migrated PostgreSQL database to copy, made once for all processes of the run."""
    name, made = "migrated", run_folder / "migrated_postgres"
    with locked(run_folder / "migrated_postgres.lock"):
        if not made.exists():
            database = Database(postgres_server.template(name))
            migrations.upgrade(database)
            database.close()
            made.touch()
    return name


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world on SQLite in memory, for tests of decisions that need no disk."""
    world = World("sqlite:///:memory:", tmp_path_factory.mktemp("home"))
    with world.database.connection(write=True) as connection, connection.begin():
        schema.metadata.create_all(connection)
    yield world
    world.close()


# For a test of what only one of the databases has: the fixture has this parameter alone.
on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
on_postgresql = pytest.mark.parametrize(
    "database_url", [pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True
)


@pytest.fixture
def emptied_postgres(migrated_postgres: str, postgres_server: "Postgres") -> str:
    """The URL of a migrated PostgreSQL database without a row, whatever an earlier test left there.

    The database is emptied and not created anew: CREATE and DROP DATABASE take a second each on a busy disk.
    """
    empty_postgres(postgres_server, migrated_postgres)
    return migrated_postgres


def empty_postgres(postgres_server: "Postgres", url: str) -> None:
    """Delete all rows of a database, and end its other sessions."""
    tables = [table.name for table in reversed(schema.metadata.sorted_tables)]
    deletes = " ".join(f'DELETE FROM "{name}";' for name in tables)
    # A test that failed may have left a session with locks behind.
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    session = postgres_server.session(url)
    session.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {others}")
    # All tables in one message to the server.
    session.execute(f"DO $$ BEGIN {deletes} END $$")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without any table, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a migrated, empty database, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        # In memory where there is room: SQLite waits for the disk at each commit.
        with tempfile.TemporaryDirectory(
            prefix="functory-sqlite-", dir=roomy_memory(), ignore_cleanup_errors=True
        ) as folder:
            file = Path(folder) / "functory.db"
            shutil.copy(request.getfixturevalue("migrated_file"), file)
            yield f"sqlite:///{file}"
        return
    yield request.getfixturevalue("emptied_postgres")


@pytest.fixture
def make_world(database_url: str, tmp_path: Path) -> Iterator[Callable[..., World]]:
    """A function that makes worlds over one database; each world acts as a process of its own."""
    made: list[World] = []

    def make(**options: Any) -> World:
        made.append(World(database_url, tmp_path / "home", **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """One world, with a clock that only the test moves."""
    return make_world()


def embedded(folder: Path, **settings: Any) -> Functory:
    """An embedded engine in `folder` that looks for work every 20 ms."""
    given = {
        "home": folder / ".functory",
        "poll_seconds": 0.02,
        "namespace": f"t{uuid.uuid4().hex[:12]}",
    } | settings
    return Functory(Settings(**given), author="test")


@contextmanager
def world_beside(engine: Functory) -> Iterator[World]:
    """The services over the database of an embedded engine. The test plays router and worker, so the engine starts none
    when a request makes work."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "start", lambda: engine)
        opened = World(str(engine.settings.database), engine.settings.home, clock=SystemClock())
        yield opened
        opened.close()


@pytest.fixture
def engine(tmp_path: Path, migrated_file: Path) -> Iterator[Functory]:
    """An embedded engine, which starts at its first use."""
    home = tmp_path / ".functory"
    home.mkdir()
    shutil.copy(migrated_file, home / "functory.db")
    with embedded(tmp_path) as opened:
        yield opened


def lines(*text: str) -> str:
    """A source text of these lines."""
    return "\n".join(text) + "\n"


def names(rows: Sequence[Mapping[str, Any]], key: str = "name") -> list[Any]:
    """One column of rows."""
    return [row[key] for row in rows]
