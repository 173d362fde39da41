"""Fixtures that every test may ask for: the three servers, and a fresh piece of one for each test.

A test that names `postgres_url`, `redis_url` or `rabbitmq_url` gets an empty database, numbered database or
virtual host of its own. The servers start when the first test needs them, live for the session, and come back
by themselves after a test that stopped or killed them. Tests that use them carry the marks `postgres`,
`redis` and `rabbitmq` without saying so, hence `pytest -m "not rabbitmq"` works.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import settings

from tests.services.missing_servers import report, require

if TYPE_CHECKING:
    from tests.services.postgres import Postgres
    from tests.services.rabbitmq import RabbitMQ
    from tests.services.redis import Redis


# Test modules import from it what their fixtures come from: its asserts are rewritten whoever is first.
pytest.register_assert_rewrite("tests.support.world")

# An example may take long on a busy machine: that is no finding.
settings.register_profile("functory", deadline=None)
settings.load_profile("functory")


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A command that ran in this process has sent the log to a stream that is closed by the next test."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture(scope="session")
def postgres_server() -> "Iterator[Postgres]":
    """The PostgreSQL server of this session; may be stopped, killed and restarted."""
    found = require("postgres")
    from tests.services.postgres import Postgres

    with Postgres(found.programs) as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> "Iterator[Redis]":
    """The Redis server of this session; may be stopped, killed and restarted, and is then empty."""
    found = require("redis")
    from tests.services.redis import Redis

    with Redis(found.programs) as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq_server() -> "Iterator[RabbitMQ]":
    """The RabbitMQ server of this session; may be stopped, killed and restarted."""
    found = require("rabbitmq")
    from tests.services.rabbitmq import RabbitMQ

    with RabbitMQ(found.programs) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: "Postgres") -> Iterator[str]:
    """The SQLAlchemy URL of an empty PostgreSQL database that nobody else uses."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def redis_url(redis_server: "Redis") -> str:
    """The URL of an empty numbered Redis database."""
    return redis_server.empty_database()


@pytest.fixture
def rabbitmq_url(rabbitmq_server: "RabbitMQ") -> Iterator[str]:
    """The URL of an empty RabbitMQ virtual host that nobody else uses."""
    with rabbitmq_server.virtual_host() as url:
        yield url


# Tests of real processes on a machine that others use as well. Where CI says so, one that fails runs once more, and
# the end of the run names it: passing the second time only is a defect of the product or of the test all the same.
# What searches for rare faults by itself (unit, simulation, fuzz) gets no second chance.
RERUN = (
    frozenset({"acceptance", "attacks", "browser", "chaos", "integration"})
    if os.environ.get("CI")
    else frozenset()
)


TESTS = Path(__file__).parent

# Of a first failure, so many lines are shown.
LINES = 40


# First, because pytest's own hook of this name already selects by mark (-m).
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the servers that its fixtures need, and with who shall run beside whom.

    Two processes share the tests (`make test`). What starts something once for many tests stays together:
    a deployment of the acceptance suite, else a file. The documentation's pages are long, and on their own.
    """
    for item in items:
        place = item.path.relative_to(TESTS) if item.path.is_relative_to(TESTS) else Path(item.path.name)
        deployment = getattr(item, "callspec", None) and item.callspec.params.get("functory")
        if deployment:
            item.add_marker(pytest.mark.xdist_group(str(deployment)))
        elif item.path.name != "test_docs.py":
            item.add_marker(pytest.mark.xdist_group(str(place)))
        if place.parts[0] in RERUN:
            item.add_marker(pytest.mark.flaky(reruns=1))
        for service in ("postgres", "redis", "rabbitmq"):
            if f"{service}_server" in getattr(item, "fixturenames", ()):
                item.add_marker(service)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly which servers were missing and how many tests that cost, and which tests needed a second run."""
    again = terminalreporter.stats.get("rerun", [])
    if again:
        terminalreporter.section("FAILED ONCE", sep="!", yellow=True, bold=True)
        for entry in again:
            terminalreporter.line(entry.nodeid)
            terminalreporter.line("\n".join(entry.longreprtext.splitlines()[-LINES:]))
    skipped = terminalreporter.stats.get("skipped", [])
    lines = report(entry.longrepr[2] for entry in skipped if isinstance(entry.longrepr, tuple))
    if lines:
        terminalreporter.section("MISSING SERVERS", sep="!", red=True, bold=True)
        for line in lines:
            terminalreporter.line(line)
