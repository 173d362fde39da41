"""``functory event why --times``: where the milliseconds of an event went."""

from __future__ import annotations

import json
from typing import Any

import pytest

from functory.cli.main import main
from functory.engine.errors import NotFound
from functory.engine.events import outbox
from functory.engine.executions import event_timeline
from functory.engine.executions.dispatch_window import DispatchWindow
from tests.support.orders import ORDER
from tests.support.sending import send_due
from tests.support.world import World, on_sqlite

pytest_plugins = ["tests.support.world"]


@pytest.fixture
def shop(world: World) -> World:
    """Two functions that react to an order."""
    for name in ("bill", "pack"):
        world.function(name)
        world.trigger(f"on-{name}", name, ORDER)
    return world


def one_order(shop: World) -> str:
    """Emit an order, and run one of its two executions, with some time between the steps."""
    id_ = shop.events.emit("order.created", {"n": 1})
    shop.advance(0.004)
    shop.route()
    shop.advance(0.002)
    sent: list[str] = []
    send_due(shop.database, sent.extend, redispatch=60, worker_ttl=60, window=DispatchWindow())
    assert len(sent) == 2
    shop.advance(0.003)
    (row,) = shop.executions.list(function="bill")
    claim = shop.claim(row)
    shop.advance(0.005)
    shop.finish(claim, duration_seconds=0.002)
    return id_


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)


def times(steps: list[dict[str, Any]]) -> list[tuple[str, float | None, float | None]]:
    return [
        (step["step"], _milliseconds(step["since_seconds"]), _milliseconds(step["difference_seconds"]))
        for step in steps
    ]


def test_the_rows_of_an_event_give_its_steps_and_those_of_each_execution(shop: World) -> None:
    id_ = one_order(shop)
    found = event_timeline.timeline(event_timeline.read(shop.database, id_), shop.clock.now()).fields()
    assert (found["event_id"], found["event_type"]) == (id_, "order.created")
    assert times(found["steps"]) == [("emitted", 0, None), ("routed", 4, 4), ("published", None, None)]
    by_function = {one["function"]: one for one in found["executions"]}
    assert {name: (one["trigger"], one["state"]) for name, one in by_function.items()} == {
        "bill": ("on-bill", "succeeded"),
        "pack": ("on-pack", "queued"),
    }
    assert times(by_function["bill"]["steps"]) == [
        ("created", 4, 0),
        ("sent", 6, 2),
        ("claimed", 9, 3),
        ("ran", None, 2),
        ("finished", 14, 3),
    ]
    assert times(by_function["pack"]["steps"]) == [("created", 4, 0), ("sent", 6, 2), ("claimed", None, None)]


def test_the_outbox_is_asked_whether_the_event_is_published(shop: World) -> None:
    id_, other = (shop.events.emit("order.created", {"n": n}) for n in range(2))
    shop.route()
    with shop.database.write() as tx:
        outbox.put(tx, [other])
        outbox.put(tx, [id_])

    def published(event_id: str) -> str:
        found = event_timeline.timeline(event_timeline.read(shop.database, event_id), shop.clock.now())
        return next(step.waited_for for step in found.steps if step.name == "published")

    assert "not yet" in published(id_) and "not yet" in published(other)
    outbox.drop_outbox(shop.database, 1)
    assert "not in the outbox" in published(other) and "not yet" in published(id_)


def test_an_event_that_is_not_there_is_an_error(shop: World) -> None:
    with pytest.raises(NotFound):
        event_timeline.read(shop.database, shop.database.new_id())


@pytest.fixture
def cli(shop: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("FUNCTORY_DATABASE_URL", shop.url)
    monkeypatch.setenv("FUNCTORY_BROKER_URL", "none://")
    monkeypatch.setenv("FUNCTORY_HOME", str(shop.home))
    return shop


@on_sqlite
def test_json_has_the_same_as_the_text(cli: World, capsys: pytest.CaptureFixture[str]) -> None:
    id_ = one_order(cli)
    assert not main(["event", "why", id_, "--times", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert not main(["event", "why", id_, "--times"])
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    steps = [(found["event_id"], step) for step in found["steps"]]
    steps += [(one["id"], step) for one in found["executions"] for step in one["steps"]]
    assert [(line[0], line[1], line[4]) for line in lines] == [
        (of, step["step"], step["waited_for"]) for of, step in steps
    ]
    assert ["14.0", "3.0"] in [line[2:4] for line in lines]


@on_sqlite
def test_a_terminal_gets_a_table_of_the_event_and_of_each_execution(
    cli: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    id_ = one_order(cli)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "160")
    assert not main(["event", "why", id_, "--times"])
    text = capsys.readouterr().out
    assert text.count("MS SINCE EVENT") == 3
    for words in ("event order.created", "bill v1 by on-bill: execution", "free slot of a worker"):
        assert words in text
