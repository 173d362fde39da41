"""One server over a real socket for the tests of this folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from functory.client.functory import Functory
from functory.engine.access import passwords
from tests.support.http_sender import serving
from tests.support.patient_reads import patient_reads as patient_reads
from tests.support.world import embedded, migrated_template

CHEAP_HASHER = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@pytest.fixture(autouse=True)
def _cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords with the least work: the real one takes longer than most requests. The tests of the engine and of
    the commands have it."""
    monkeypatch.setattr(passwords, "_hasher", lambda: CHEAP_HASHER)


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Functory, str]]:
    with serving(tmp_path_factory.mktemp("served")) as both:
        yield both


@pytest.fixture
def functory(served: tuple[Functory, str]) -> Functory:
    return served[0]


@pytest.fixture
def url(served: tuple[Functory, str]) -> str:
    return served[1]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, migrated_file: Path, run_folder: Path
) -> Iterator[Functory]:
    """An embedded engine on each database: the routes' statements are written for both."""
    (tmp_path / ".functory").mkdir()
    if request.param == "sqlite":
        shutil.copy(migrated_file, tmp_path / ".functory" / "functory.db")
        with embedded(tmp_path) as opened:
            yield opened
        return
    server = request.getfixturevalue("postgres_server")
    with (
        server.database(template=migrated_template(server, run_folder)) as url,
        embedded(tmp_path, database_url=url.replace("+psycopg", "")) as opened,
    ):
        yield opened
