"""No password gets through the log, from any writer."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from functory.engine.telemetry import log_config


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What the root logger writes; as it was before afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers, root.level = handlers, level
    logging.captureWarnings(False)
    structlog.reset_defaults()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("amqp://guest:secret@host:5672//", "amqp://guest:***@host:5672//"),
        ("redis://:secret@host/0", "redis://:***@host/0"),
        ("postgresql+psycopg://ada:se/cr@et@host/db", "postgresql+psycopg://ada:***@host/db"),
        (
            "postgresql://host/db?user=ada&password=secret&sslmode=require",
            "postgresql://host/db?user=ada&password=***&sslmode=require",
        ),
        ("http://host:7400/readyz", "http://host:7400/readyz"),
        ("sqlite:////data/functory.db", "sqlite:////data/functory.db"),
    ],
)
def test_the_password_of_a_url_is_masked(url: str, shown: str) -> None:
    assert log_config.mask(f"cannot reach {url}: refused") == f"cannot reach {shown}: refused"


EVENTS = ["cannot connect to amqp://guest:***@host//", "failed"]


@pytest.mark.parametrize("as_json", [False, True])
def test_our_lines_a_librarys_lines_and_tracebacks_hold_no_password(
    lines: io.StringIO, as_json: bool
) -> None:
    log_config.configure("info", as_json=as_json, stream=lines)
    url = 'amqp://guest:s3"cret@host//'
    structlog.get_logger("functory.test").info("connected", url=url)
    logging.getLogger("celery.worker").error("cannot connect to %s", "amqp://guest:s3cret@host//")
    try:
        raise ValueError("amqp://guest:s3cret@host//")
    except ValueError:
        structlog.get_logger("functory.test").exception("failed")
    written = lines.getvalue()
    assert written.count("guest:***@host") == 4  # the traceback shows the line and the error
    assert "cret" not in written
    if as_json:
        assert [json.loads(line)["event"] for line in written.splitlines()] == ["connected", *EVENTS]


def test_libraries_that_tell_of_each_message_are_heard_only_when_they_warn(lines: io.StringIO) -> None:
    log_config.configure("info", stream=lines)
    logging.getLogger("celery.worker.strategy").info("Task received")
    logging.getLogger("celery.worker.strategy").warning("Task is unknown")
    logging.getLogger("functory.x").debug("detail")
    assert "received" not in lines.getvalue()
    assert "unknown" in lines.getvalue()
    assert "detail" not in lines.getvalue()


SCRIPT = """
import structlog
from functory import Functory
from functory.engine.settings import load_settings

with Functory(load_settings()) as functory:
    structlog.get_logger("functory.anything").warning("noticed", url="redis://:secret@host/0")
    structlog.get_logger("functory.anything").info("not worth a line")
    print("{}")
"""


@pytest.mark.parametrize("database", ["", "postgresql+psycopg://ada@127.0.0.1:1/functory"])
def test_what_a_users_program_prints_has_no_message_of_the_log(tmp_path: Path, database: str) -> None:
    environment = {"FUNCTORY_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    if database:
        environment |= {"FUNCTORY_DATABASE_URL": database, "FUNCTORY_BROKER_URL": "redis://127.0.0.1:1/0"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "{}\n"
    (line,) = done.stderr.splitlines()
    assert "noticed" in line
    assert "redis://:***@host/0" in line
