"""The servers that other tests stand on: each is ours, can be killed, comes back, is empty for each test."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import sqlalchemy
from kombu.connection import Connection
from sqlalchemy.exc import OperationalError

from tests.services.missing_servers import require
from tests.services.port import free_port
from tests.services.postgres import Postgres
from tests.services.prometheus import Prometheus
from tests.services.rabbitmq import RabbitMQ
from tests.services.redis import DATABASES, Redis
from tests.services.server import NotReady, Server, is_alive
from tests.support.patience import patient

SERVICES = ("postgres", "redis", "rabbitmq")


@pytest.fixture(
    params=[
        # Each server is started once: its tests stay in one process.
        pytest.param(
            service, marks=[getattr(pytest.mark, service), pytest.mark.xdist_group(f"servers-{service}")]
        )
        for service in SERVICES
    ],
)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of each kind in turn, running."""
    server: Server = request.getfixturevalue(f"own_{request.param}_server")
    yield server.start()


def listening(server: Server) -> bool:
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=patient(5)).close()
    except OSError:
        return False
    return True


def test_a_started_server_answers_and_is_ours(server: Server) -> None:
    assert server.running
    assert listening(server)
    assert server.is_ours()


def test_a_server_runs_as_an_ordinary_user(server: Server) -> None:
    assert psutil.Process(server.pid).uids().effective != 0 or os.geteuid() != 0


def test_a_restarted_server_keeps_its_url_and_has_a_new_process(server: Server) -> None:
    url, pid = server.url, server.pid
    server.restart()
    assert (server.url, server.is_ours()) == (url, True)
    assert server.pid != pid


def test_a_killed_server_is_gone_with_all_its_children_and_comes_back_on_its_port(
    server: Postgres | RabbitMQ | Redis,
) -> None:
    family = psutil.Process(server.pid).children(recursive=True)
    server.kill()
    assert not server.running
    assert not listening(server)
    assert [child for child in family if is_alive(child)] == []
    with pytest.raises(NotReady):
        server.is_ours()
    url = server.url
    # What the fixtures give to a test starts it again.
    if isinstance(server, Redis):
        assert server.empty_database()
    else:
        with server.database() if isinstance(server, Postgres) else server.virtual_host() as piece:
            assert piece
    assert (server.url, server.is_ours()) == (url, True)


def test_a_frozen_server_stops_and_goes_on(server: Server) -> None:
    with server.frozen():
        main = psutil.Process(server.pid)
        for one in (main, *main.children(recursive=True)):
            assert one.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE), one
    assert server.is_ours()


def test_another_server_on_our_port_is_recognised(redis_server: Redis) -> None:
    programs = redis_server.programs
    with Redis(programs) as stranger:
        impostor = Redis(programs)
        try:
            impostor.port = stranger.port
            assert not impostor.is_ours()
            with pytest.raises(RuntimeError, match=r"ended with 1 while starting|another server"):
                impostor.start()
        finally:
            impostor.close()
        assert stranger.is_ours()


def test_a_closed_server_leaves_no_folder(redis_server: Redis) -> None:
    with Redis(redis_server.programs) as server:
        assert server.folder.is_dir()
    assert not server.folder.exists()


@pytest.mark.parametrize("service", (*SERVICES, "prometheus"))
def test_servers_die_with_a_test_run_that_is_killed(service: str) -> None:
    require(service)
    module = {
        "postgres": "Postgres",
        "redis": "Redis",
        "rabbitmq": "RabbitMQ",
        "prometheus": "Prometheus",
    }[service]
    script = (
        f"from tests.services.{service} import {module} as Server\n"
        "from tests.services.installation import find\n"
        f"server = Server(find({service!r}).programs).start()\n"
        "print(server.folder, server.pid, flush=True)\n"
        "input()\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    folder, pid = run.stdout.readline().split()
    family = [psutil.Process(int(pid)), *psutil.Process(int(pid)).children(recursive=True)]
    run.send_signal(signal.SIGKILL)
    run.communicate()

    # pytest's timeout ends this test when they do not go.
    while Path(folder).exists() or any(is_alive(member) for member in family):
        time.sleep(0.02)


def test_a_prometheus_is_ours_and_answers_what_it_scraped() -> None:
    programs = require("prometheus").programs
    away = f"127.0.0.1:{free_port()}"
    with Prometheus(programs, {"functory": [away]}) as server:
        assert server.is_ours()
        assert psutil.Process(server.pid).uids().effective != 0 or os.geteuid() != 0
        server.wait_for_scrapes()
        (up,) = server.query("up")
        assert (up["metric"]["instance"], up["value"][1]) == (away, "0")
        with pytest.raises(ValueError, match="parse error"):
            server.query("sum(")


def test_each_test_has_a_postgresql_database_of_its_own(postgres_url: str, postgres_server: Postgres) -> None:
    with postgres_server.database() as other:
        assert other != postgres_url
        for url in (postgres_url, other):
            engine = sqlalchemy.create_engine(url)
            with engine.begin() as connection:
                assert sqlalchemy.inspect(connection).get_table_names() == []
                connection.execute(sqlalchemy.text("CREATE TABLE left_behind (n int)"))
            engine.dispose()


def test_a_postgresql_database_is_dropped_although_someone_is_connected(postgres_server: Postgres) -> None:
    with postgres_server.database() as url:
        engine = sqlalchemy.create_engine(url)
        connection = engine.connect()
        connection.execute(sqlalchemy.text("SELECT 1"))
    with postgres_server.connect() as admin:
        names = [row[0] for row in admin.execute("SELECT datname FROM pg_database")]
    assert url.rpartition("/")[2] not in names
    connection.invalidate()
    engine.dispose()


@pytest.mark.xdist_group("servers-postgres")
@pytest.mark.xdist_group("servers-postgres")
def test_postgresql_keeps_what_it_acknowledged_when_it_is_killed(own_postgres_server: Postgres) -> None:
    postgres_server = own_postgres_server
    postgres_url = postgres_server.template("kept_by_killed")
    engine = sqlalchemy.create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE kept AS SELECT 42 AS n"))
    engine.dispose()
    postgres_server.kill()
    postgres_server.start()
    with engine.connect() as connection:
        assert connection.scalar(sqlalchemy.text("SELECT n FROM kept")) == 42
    engine.dispose()


@pytest.mark.xdist_group("servers-postgres")
@pytest.mark.xdist_group("servers-postgres")
def test_postgresql_recovers_from_an_immediate_shutdown(own_postgres_server: Postgres) -> None:
    postgres_server = own_postgres_server
    postgres_url = postgres_server.template("kept_by_crashed")
    engine = sqlalchemy.create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE kept AS SELECT 1 AS value"))
    postgres_server.crash()
    assert not postgres_server.running
    postgres_server.start()
    engine.dispose()
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text("SELECT value FROM kept")).scalar_one() == 1
        backends = postgres_server.backends(postgres_url)
        assert len(backends) == 1
        postgres_server.terminate(backends)
        with pytest.raises(OperationalError):
            connection.execute(sqlalchemy.text("SELECT 1"))
        connection.rollback()
    engine.dispose()


def test_a_database_on_a_small_disk_finds_it_full_and_has_room_again() -> None:
    with Postgres(require("postgres").programs) as server, server.database() as url:
        try:
            server.move_to_small_disk(url, 64 * 1024 * 1024)
        except RuntimeError as refused:
            pytest.skip(f"no namespace for a small disk: {refused}")
        engine = sqlalchemy.create_engine(url)
        insert = sqlalchemy.text("INSERT INTO filled SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text("CREATE TABLE filled (value text)"))
        with (
            server.full_disk(),
            pytest.raises(OperationalError, match="No space left"),
            engine.begin() as connection,
        ):
            connection.execute(insert)
        with engine.begin() as connection:
            connection.execute(insert)
            count = connection.execute(sqlalchemy.text("SELECT count(*) FROM filled")).scalar_one()
        assert count == 1000
        engine.dispose()


@pytest.mark.rabbitmq
@pytest.mark.xdist_group("servers-rabbitmq")
@pytest.mark.xdist_group("servers-rabbitmq")
def test_rabbitmq_reads_from_no_publisher_while_its_memory_is_short(own_rabbitmq_server: RabbitMQ) -> None:
    rabbitmq_server = own_rabbitmq_server
    with (
        rabbitmq_server.virtual_host() as rabbitmq_url,
        Connection(rabbitmq_url, transport_options={"confirm_publish": True}) as connection,
        ThreadPoolExecutor(1) as publisher,
    ):
        waiting = connection.SimpleQueue("waiting")
        with rabbitmq_server.blocked():
            confirmed = publisher.submit(waiting.put, "held up")
            with pytest.raises(TimeoutError):
                confirmed.result(0.5)
        confirmed.result(patient(60))
        assert rabbitmq_server.queues(rabbitmq_url) == ["waiting"]
        rabbitmq_server.purge(rabbitmq_url)
        assert waiting.qsize() == 0


def test_a_redis_database_is_empty_however_often_it_was_used(redis_server: Redis) -> None:
    urls = []
    for _ in range(DATABASES + 1):
        url = redis_server.empty_database()
        with redis_server.connect(int(url.rpartition("/")[2])) as client:
            assert client.dbsize() == 0
            client.set("left", "behind")
        urls.append(url)
    assert len(set(urls)) == DATABASES


def test_each_test_has_a_rabbitmq_virtual_host_of_its_own(
    rabbitmq_url: str, rabbitmq_server: RabbitMQ
) -> None:
    with rabbitmq_server.virtual_host() as other:
        assert other != rabbitmq_url
        with Connection(rabbitmq_url) as mine, Connection(other) as theirs:
            mine.SimpleQueue("same-name").put({"n": 1})
            assert mine.SimpleQueue("same-name").get(timeout=patient(10)).payload == {"n": 1}
            assert theirs.SimpleQueue("same-name").qsize() == 0


def test_a_server_that_all_processes_share_cannot_be_harmed_and_ends_with_the_last_of_them(
    redis_server: Redis, tmp_path: Path
) -> None:
    for harm in (redis_server.kill, redis_server.stop, redis_server.restart):
        with pytest.raises(RuntimeError, match="own_redis_server"):
            harm()
    assert redis_server.start().is_ours()
    script = (
        "import sys, pathlib\n"
        "from tests.services.redis import Redis\n"
        "from tests.services.installation import find\n"
        "from tests.services.shared import shared\n"
        "server = shared(Redis, find('redis').programs, pathlib.Path(sys.argv[1]))\n"
        "print(server.folder, server.port, server.is_ours(), flush=True)\n"
        "input()\n"
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)],
            cwd=Path(__file__).parents[3],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [run.stdout.readline().split() for run in runs if run.stdout is not None]
    assert said[0] == said[1]
    folder, _, ours = said[0]
    assert ours == "True"
    first, last = runs
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert Path(folder).exists()
    last.communicate("\n")
    while Path(folder).exists():
        time.sleep(0.02)
