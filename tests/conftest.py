"""Fixtures that every test may ask for: the three servers, and a fresh piece of one for each test.

A test that names `postgres_url`, `redis_url` or `rabbitmq_url` gets an empty database, numbered database or
virtual host of its own. The servers start when the first test needs them, are shared by all processes of the run,
and end with it. A test that stops or harms a server asks for `own_postgres_server` and so on. Tests that use
servers carry the marks `postgres`, `redis` and `rabbitmq` without saying so, hence `pytest -m "not rabbitmq"` works.

Long tests (`tests/long.txt`) are left out unless `--long` asks for them. With `--second-look`, as in `make test`, what
fails runs again alone.
"""

import asyncio
import gc
import logging
import os
import secrets
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import structlog
from _pytest.logging import LogCaptureHandler
from hypothesis import settings

from functory.engine.telemetry import log_config
from tests.services.installation import SERVICES
from tests.services.missing_servers import report, require
from tests.services.shared import shared
from tests.support import browser_loop, groups, patience, test_lists
from tests.support.thoroughness import LEFT_OUT, VARIABLE, amount

if TYPE_CHECKING:
    from tests.services.postgres import Postgres
    from tests.services.rabbitmq import RabbitMQ
    from tests.services.redis import Redis


pytest_plugins = ["tests.support.second_look"]

# A message of another thread must not come between what a test reads from stdout.
log_config.warn_on_stderr()

# Test modules import from it what their fixtures come from: its asserts are rewritten in any order of imports.
pytest.register_assert_rewrite("tests.support.world")

# A shell starts a command in the background with SIGINT ignored, and every process of the tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# What each test begins with, whatever an earlier one or a fixture of its module has configured.
STRUCTLOG, LOG_LEVEL = structlog.get_config(), logging.getLogger().level


@pytest.fixture(autouse=True)
def _plain_logging() -> Iterator[None]:
    """A command that ran in this process has sent the log to a stream that is closed by the next test."""
    _reset_logging()
    yield
    _reset_logging()


@pytest.fixture(autouse=True)
def _own_drop_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process reports what guards drop once a minute: without this, a test would read in its log what tests before
    it have dropped."""
    if metrics := sys.modules.get("functory.triggers.routing.firing_metrics"):
        monkeypatch.setattr(metrics, "_report", metrics.DropReport())


def _reset_logging() -> None:
    structlog.configure(**STRUCTLOG)
    root = logging.getLogger()
    root.setLevel(LOG_LEVEL)
    for handler in root.handlers[:]:
        # Those of pytest, which it adds and removes around each step of a test, stay.
        if not isinstance(handler, LogCaptureHandler):
            root.removeHandler(handler)


@pytest.fixture(scope="session", autouse=True)
def _shared_runner(run_folder: Path) -> Iterator[None]:
    """Embedded engines of this process share their zygotes (`tests/support/shared_runner.py`), and copy a migrated
    file (`tests/support/migrated_files.py`)."""
    if "functory.client.functory" not in sys.modules:
        # No test that was collected opens an engine.
        yield
        return
    from tests.support.migrated_files import copied
    from tests.support.shared_runner import share

    with share(), copied(run_folder):
        yield


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this run share."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def postgres_server(run_folder: Path) -> "Postgres":
    """The PostgreSQL server of this run, shared by its processes: no test may stop it."""
    found = require("postgres")
    from tests.services.postgres import Postgres

    return shared(Postgres, found.programs, run_folder)


@pytest.fixture(scope="session")
def redis_server(run_folder: Path) -> "Redis":
    """The Redis server of this run, shared by its processes: no test may stop it."""
    found = require("redis")
    from tests.services.redis import Redis

    return shared(Redis, found.programs, run_folder)


@pytest.fixture(scope="session")
def rabbitmq_server(run_folder: Path) -> "RabbitMQ":
    """The RabbitMQ server of this run, shared by its processes: no test may stop it."""
    found = require("rabbitmq")
    from tests.services.rabbitmq import RabbitMQ

    return shared(RabbitMQ, found.programs, run_folder)


@pytest.fixture(scope="module")
def own_postgres_server() -> "Iterator[Postgres]":
    """A PostgreSQL server of this module; may be stopped, killed and restarted."""
    found = require("postgres")
    from tests.services.postgres import Postgres

    with Postgres(found.programs) as server:
        yield server


@pytest.fixture(scope="module")
def own_redis_server() -> "Iterator[Redis]":
    """A Redis server of this module; may be stopped, killed and restarted, and is then empty."""
    found = require("redis")
    from tests.services.redis import Redis

    with Redis(found.programs) as server:
        yield server


@pytest.fixture(scope="module")
def own_rabbitmq_server() -> "Iterator[RabbitMQ]":
    """A RabbitMQ server of this module; may be stopped, killed and restarted."""
    found = require("rabbitmq")
    from tests.services.rabbitmq import RabbitMQ

    with RabbitMQ(found.programs) as server:
        yield server


@pytest.fixture(scope="session")
def promtool() -> Path:
    """The program that checks metrics, rules and configurations of Prometheus."""
    return require("prometheus").programs["promtool"]


@pytest.fixture(scope="session")
def amtool() -> Path:
    """The program that checks configurations of Alertmanager."""
    return require("alertmanager").programs["amtool"]


@pytest.fixture
def postgres_url(postgres_server: "Postgres") -> Iterator[str]:
    """The SQLAlchemy URL of an empty PostgreSQL database that no other test uses."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def redis_url(redis_server: "Redis") -> str:
    """The URL of an empty numbered Redis database."""
    return redis_server.empty_database()


@pytest.fixture
def rabbitmq_url(rabbitmq_server: "RabbitMQ") -> Iterator[str]:
    """The URL of an empty RabbitMQ virtual host that no other test uses."""
    with rabbitmq_server.virtual_host() as url:
        yield url


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that choose long tests (tests/long.txt)."""
    group = parser.getgroup("functory")
    group.addoption(
        "--long",
        choices=("none", "all", "sample"),
        default="none",
        help="long tests: none of them, all beside the others, or only a sample of them (default: none)",
    )
    group.addoption("--long-seed", type=int, default=1, help="the seed of the sample (default: 1)")
    group.addoption(
        "--long-seconds", type=float, default=600.0, help="seconds of long tests in a sample (default: 600)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of this run's examples, the same one for all its processes."""
    if config.getoption("--long") != "none":
        os.environ[VARIABLE] = "1"
    # An example may take long on a busy machine: that is no finding. Each run has other examples.
    settings.register_profile("functory", deadline=None, print_blob=True, max_examples=amount(50, 200))
    settings.load_profile("functory")
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = int(os.environ.setdefault(SEED, str(secrets.randbelow(2**32))))
    processes = getattr(config.option, "numprocesses", None)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        patience.measure(processes or 1)
        if processes:
            groups.prepare()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> groups.GroupScheduling:
    """Hand out the tests by their groups."""
    return groups.GroupScheduling(config, log)


def pytest_report_header(config: pytest.Config) -> str:
    """Say what this run can be repeated with."""
    return (
        f"seed of examples: {config.option.hypothesis_seed}; limits are {patience.factor():g} times as long"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Collect tests without collecting garbage: what is loaded stays, and is not looked at again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Show the event loop of the browser to tests with a browser only.

    Playwright leaves its loop in the thread as the running one, between its calls too, and a test that starts a loop
    in this process is refused.
    """
    has_browser = "chromium_server" in getattr(item, "fixturenames", ())
    asyncio._set_running_loop(item.config.stash.get(browser_loop.KEY, None) if has_browser else None)
    return (yield)


TESTS = Path(__file__).parent
# The seed of all processes of a run.
SEED = "TESTS_SEED"

# What waits most comes first, so that no process is left with it at the end.
ORDER = (
    "acceptance",
    "chaos",
    "integration/workers/processes",
    "integration/roles",
    # Each a group of its own that takes most of a minute.
    "attacks",
    "integration/support",
    "simulation",
    "integration",
)

# Lines that are shown of a first failure.
LINES = 40

# Fixtures of a session or module that are cheap, or shared by all processes: they keep no tests together.
CHEAP = frozenset(
    {
        *(f"{service}_server" for service in SERVICES),
        *(
            "_shared_runner",
            "run_folder",
            "tmp_path_factory",
            "migrated_file",
            "migrated_postgres",
            "memory",
            "promtool",
            "amtool",
        ),
    }
)


# First, because pytest's own hook of this name already selects by mark (-m).
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with the servers that its fixtures need and with its group, and leave out the long ones."""
    ids = {item: _id(item) for item in items}
    long = test_lists.read(test_lists.LONG)
    all_of_them = config.args in ([str(TESTS)], ["tests"])
    if all_of_them and (missing := test_lists.unused(long, list(ids.values()))):
        raise pytest.UsageError(f"{test_lists.LONG}: there is no such test: {missing}")
    items.sort(key=lambda item: _rank(ids[item]))
    for item in items:
        _group(item, ids[item])
        _have_patience(item)
        for service in SERVICES:
            if {f"{service}_server", f"own_{service}_server"} & set(getattr(item, "fixturenames", ())):
                item.add_marker(service)
        if (line := test_lists.first(long, ids[item])) and line.word != "0":
            item.add_marker(pytest.mark.long(float(line.word)))
    _select_long(config, items, ids)
    groups.write(items)


def _id(item: pytest.Item) -> str:
    """The id of a test below ``tests/``."""
    return item.nodeid.removeprefix("tests/")


def _rank(test: str) -> int:
    return next((number for number, folder in enumerate(ORDER) if test.startswith(f"{folder}/")), len(ORDER))


def _group(item: pytest.Item, test: str) -> None:
    """Keep together what shares something costly: a deployment of the acceptance suite, or a module's fixture.

    Other tests are spread by function, so that the variants of one test follow each other in one process.
    """
    if item.get_closest_marker("xdist_group"):
        return
    deployment = getattr(getattr(item, "callspec", None), "params", {}).get("functory")
    file, _, function = test.partition("::")
    costly = {
        name
        for name, found in getattr(item, "_fixtureinfo", _NoFixtures).name2fixturedefs.items()
        if found[-1].scope in ("module", "session", "package", "class") and name not in CHEAP
    }
    if deployment:
        item.add_marker(pytest.mark.xdist_group(str(deployment)))
    elif costly:
        item.add_marker(pytest.mark.xdist_group(file))
    elif _rank(test) == len(ORDER):
        # Units: quick, and cheaper a file at a time.
        item.add_marker(pytest.mark.xdist_group(file))
    elif not file.endswith("test_docs.py"):
        item.add_marker(pytest.mark.xdist_group(f"{file}::{function.partition('[')[0]}"))


def _have_patience(item: pytest.Item) -> None:
    """Lengthen the limit of pytest-timeout, which ends a test that hangs."""
    mark = item.get_closest_marker("timeout")
    seconds = mark.args[0] if mark else item.config.getoption("timeout") or item.config.getini("timeout")
    if seconds:
        item.add_marker(pytest.mark.timeout(patience.patient(float(seconds))), append=False)


class _NoFixtures:
    name2fixturedefs: ClassVar[dict[str, Any]] = {}


def _select_long(config: pytest.Config, items: list[pytest.Item], ids: dict[pytest.Item, str]) -> None:
    """Leave out the long tests, or all but a sample of them."""
    how = config.getoption("--long")
    marks = {item: item.get_closest_marker("long") for item in items}
    if how == "all" or _named(config):
        return
    chosen = {item for item in items if marks[item] is None}
    if how == "sample":
        estimates = [
            test_lists.Estimate(ids[item], *(mark.args or (1.0,))) for item, mark in marks.items() if mark
        ]
        wanted = test_lists.sample(
            estimates, config.getoption("--long-seed"), config.getoption("--long-seconds")
        )
        chosen = {item for item in items if ids[item] in wanted}
    left_out = [item for item in items if item not in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item in chosen]


def _named(config: pytest.Config) -> bool:
    """Whether the command names tests or their marks: then it means them, long or not."""
    return any("::" in str(argument) for argument in config.args) or "long" in (config.option.markexpr or "")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a failed test at once, with the end of its error: a run that is ended early prints no summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        sys.stderr.write(
            f"\nFAILED {report.nodeid}\n" + "\n".join(report.longreprtext.splitlines()[-LINES:]) + "\n"
        )
        sys.stderr.flush()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how to repeat what failed, what tests left out, and missing servers."""
    from tests.support.second_look import again

    failed = {entry.nodeid for kind in ("failed", "error") for entry in terminalreporter.stats.get(kind, [])}
    if failed:
        terminalreporter.section("AGAIN", sep="=")
        for test in sorted(failed)[:LINES]:
            terminalreporter.line(again(terminalreporter.config, test))
    left_out = [
        value
        for entry in terminalreporter.stats.get("passed", [])
        for name, value in entry.user_properties
        if name == LEFT_OUT
    ]
    if left_out:
        terminalreporter.section("LEFT OUT", sep="!", yellow=True, bold=True)
        for line in left_out:
            terminalreporter.line(line)
    skipped = terminalreporter.stats.get("skipped", [])
    lines = report(entry.longrepr[2] for entry in skipped if isinstance(entry.longrepr, tuple))
    if lines:
        terminalreporter.section("MISSING SERVERS", sep="!", red=True, bold=True)
        for line in lines:
            terminalreporter.line(line)
