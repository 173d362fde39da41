"""Each test begins with one logging, also where a fixture of its module has configured another."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
import structlog

from functory.engine.telemetry import log_config
from tests.conftest import LOG_LEVEL, STRUCTLOG


@pytest.fixture(scope="module")
def role() -> Iterator[logging.Handler]:
    """What a role that runs in this process does."""
    log_config.configure("debug", stream=io.StringIO())
    (handler,) = logging.getLogger().handlers
    yield handler


def test_what_a_module_has_configured_does_not_reach_its_tests(role: logging.Handler) -> None:
    assert structlog.get_config() == STRUCTLOG
    assert logging.getLogger().level == LOG_LEVEL
    assert role not in logging.getLogger().handlers
