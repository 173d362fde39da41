"""The pytest plug-in: the fixture ``functory``, an engine of its own for each test that asks for it.

    def test_an_order_is_counted(functory):
        functory.register_function(orders.count)
        functory.register_trigger("count", on={"type": ["order.placed"]}, function="count")
        functory.emit("order.placed", {"sku": "A1"})
        functory.settle()
        assert functory.state.get("count", "A1") == (1, 1)

pytest loads this module at its start (entry point ``pytest11``), so it imports nothing but pytest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from functory.engine_under_test import EngineUnderTest


@pytest.fixture
def functory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineUnderTest]:
    """An embedded engine in a folder of its own, empty at first; ``functory.settle()`` waits for all work, and
    ``functory.clock`` is the time of the engine.

    Until the end of the test the functions of the package ``functory`` use it, ``functory.state`` is empty, and
    ``functory.secret`` opens the secrets of this engine. No database, broker, server or key of the settings is used.
    """
    from functory import in_function
    from functory.engine.settings import Settings
    from functory.engine_under_test import EngineUnderTest

    settings = Settings(
        home=tmp_path_factory.mktemp("functory") / ".functory",
        url=None,
        database_url=None,
        database_direct_url=None,
        broker_url="memory://",  # type: ignore[arg-type]
        secret_key=None,
        secret_key_file=None,
        metrics_port=None,
        traces="off",
    )
    with EngineUnderTest(settings, author="pytest") as engine, in_function.lent(engine):
        yield engine
