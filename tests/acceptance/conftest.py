"""The deployments that the acceptance suite runs on: embedded, and on servers with roles as processes: with either
broker, and without any."""

from __future__ import annotations

import base64
import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from functory.client.functory import Functory
from functory.engine.settings import load_settings
from tests.support.processes import Roles

ON_SERVERS = [
    pytest.param("postgres+rabbitmq", marks=[pytest.mark.postgres, pytest.mark.rabbitmq]),
    pytest.param("postgres+redis", marks=[pytest.mark.postgres, pytest.mark.redis]),
]
WITHOUT_BROKER = pytest.param("postgres+none", marks=[pytest.mark.postgres])


@pytest.fixture(scope="session", params=["embedded", *ON_SERVERS, WITHOUT_BROKER])
def functory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Functory]:
    """An engine (embedded) or a client whose router, scheduler and two workers run as processes."""
    folder = tmp_path_factory.mktemp("deployment")
    with contextlib.ExitStack() as stack:
        if request.param == "embedded":
            engine = Functory(_embedded(folder))
            stack.callback(engine.close)
            yield engine.start()
            return
        database = stack.enter_context(request.getfixturevalue("postgres_server").database())
        if request.param.endswith("none"):
            broker = "none://"
        elif request.param.endswith("redis"):
            broker = request.getfixturevalue("redis_server").empty_database()
        else:
            broker = stack.enter_context(request.getfixturevalue("rabbitmq_server").virtual_host())
        roles = stack.enter_context(
            Roles(folder, database_url=database, broker_url=broker, secret_key=_key())
        )
        roles.migrate()
        for role in ("router", "scheduler"):
            roles.start(role, wait=False)
        for _ in range(2):
            roles.start("worker", "--slots", "2", wait=False)
        for role in roles.started:
            role.wait_ready()
        client = roles.client()
        stack.callback(client.close)
        yield client.start()


@pytest.fixture
def name() -> str:
    """A function name that no other test uses: one deployment serves the whole session."""
    return f"f_{uuid.uuid4().hex[:10]}"


def _key() -> str:
    """The key that all processes of a deployment share."""
    return base64.b64encode(os.urandom(32)).decode()


def _embedded(folder: Path):
    return load_settings(home=folder, namespace=f"t{uuid.uuid4().hex[:10]}", worker_slots=2)
