"""What a running function asks of the engine while its database is away: it waits, and sees no outage."""

import threading
from collections.abc import Iterator

import pytest

from functory.engine.database.schema import budget, event, execution
from functory.engine.errors import Unavailable
from functory.workers.execution.engine_services import Services
from functory.workers.execution.host_functions import EngineHost
from tests.support.fault_injection import Faults
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

# What may go wrong, and where: before the statement, with the connection, before the commit, and after it.
ANY = ["before", "lost", "uncommitted", "committed"]


class Asking:
    """A claim's host, and the event that tells it that its run has ended."""

    def __init__(self, world: World) -> None:
        world.function("child")
        world.function("asks")
        services = Services.of(world.database, world.settings, world.functions)
        self.claim = world.claim(world.start("asks"))
        self.ended = threading.Event()
        self.host = EngineHost(self.claim, services, lambda ids: None, self.ended)


@pytest.fixture
def asking(world: World) -> Iterator[Asking]:
    made = Asking(world)
    yield made
    made.ended.set()


@pytest.mark.parametrize("kind", ANY)
def test_an_event_is_written_once_whatever_failed(world: World, asking: Asking, kind: str) -> None:
    with Faults(world.database) as faults:
        faults.once(kind, "INSERT INTO event")
        id_ = asking.host.emit("order.placed", {}, None)
        assert faults.injected[kind] == 1
    assert [row["id"] for row in world.rows(event, event.c.type == "order.placed")] == [id_]


@pytest.mark.parametrize("kind", ANY)
def test_a_child_is_started_once_whatever_failed(world: World, asking: Asking, kind: str) -> None:
    with Faults(world.database) as faults:
        faults.once(kind, "INSERT INTO execution")
        id_ = asking.host.submit("child", None, [], {})
        assert faults.injected[kind] == 1
    (child,) = world.rows(execution, execution.c.cause == "parent")
    assert child["id"] == id_
    # Neither does the root pay for it twice.
    assert [row["used"] for row in world.rows(budget)] == [1]


def test_a_start_whose_first_commit_is_still_under_way_is_the_same_execution(world: World) -> None:
    """The look finds nothing; the insert does."""
    world.function("child")
    id_ = world.executions.new_id()
    first, second = (world.executions.start("child", {}, id_=id_) for _ in range(2))
    assert first["id"] == second["id"] == id_
    assert len(world.rows(execution)) == 1


@pytest.mark.parametrize("kind", ANY)
def test_a_value_is_stored_whatever_failed(world: World, asking: Asking, kind: str) -> None:
    with Faults(world.database) as faults:
        faults.once(kind, "INSERT INTO state")
        asking.host.state_set("key", "value", None)
        assert faults.injected[kind] == 1
    found = asking.host.state_get("key")
    assert found is not None and found[0] == "value"


def test_who_waits_for_the_database_gives_up_with_its_run(world: World, asking: Asking) -> None:
    asking.ended.set()
    with Faults(world.database) as faults:
        faults.once("before", "INSERT INTO event")
        with pytest.raises(Unavailable):
            asking.host.emit("order.placed", {}, None)
