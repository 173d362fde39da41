"""Of two dispatchers one works: the other stands by, takes over when no dispatcher sends, and gives way again."""

import pytest

from functory.workers.sending import dispatcher
from functory.workers.sending.dispatcher import StandbyDispatcher
from functory.workers.sending.task_sender import TaskSender
from tests.support.world import World

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def sent(monkeypatch) -> list[str]:
    """What dispatchers send from now on."""
    found: list[str] = []
    monkeypatch.setattr(TaskSender, "send", lambda _self, ids: found.extend(ids))
    monkeypatch.setattr(dispatcher, "STANDBY_DELAY_SECONDS", 0.0)
    return found


@pytest.fixture
def standby(world: World) -> StandbyDispatcher:
    world.function()
    return StandbyDispatcher(world.database, world.settings)


def test_what_has_just_come_is_left_to_the_first_dispatcher(world, standby, sent):
    world.start()
    standby.run_once()
    assert sent == []
    assert standby.topic is None
    assert standby.poll_seconds == dispatcher.STANDBY_SECONDS


def test_an_idle_round_is_one_statement(world, standby, sent):
    with world.statements() as statements:
        standby.run_once()
    assert len(statements) == 1


def test_it_takes_over_what_is_not_sent_and_follows_the_signals_then(world, standby, sent):
    first = world.start()
    world.advance(dispatcher.STANDBY_OVERDUE_SECONDS + 1)
    standby.run_once()
    assert sent == [first["id"]]
    assert standby.topic == "executions"
    second = world.start()
    standby.run_once()
    assert sent == [first["id"], second["id"]]


def test_it_stands_by_again_when_another_one_sends(world, standby, sent):
    world.start()
    world.advance(dispatcher.STANDBY_OVERDUE_SECONDS + 1)
    standby.run_once()
    world.advance(dispatcher.STANDBY_SECONDS + 1)
    standby.run_once()
    assert standby.topic is None
