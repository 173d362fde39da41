"""Fixture: databases for one scenario after another."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.world import empty_postgres


@pytest.fixture
def next_url(database_url: str, request: pytest.FixtureRequest) -> Callable[[], str]:
    """A function that empties the test's migrated database and returns its URL."""

    def empty() -> str:
        if database_url.startswith("sqlite"):
            file = Path(database_url.removeprefix("sqlite:///"))
            for old in file.parent.glob(f"{file.name}*"):
                old.unlink()
            shutil.copy(request.getfixturevalue("migrated_file"), file)
        else:
            empty_postgres(request.getfixturevalue("postgres_server"), database_url)
        return database_url

    return empty
