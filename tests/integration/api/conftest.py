"""One server over a real socket for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from functory.client import Functory
from tests.support.http_sender import serving


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
