"""The check after a round finds what a faster path could leave out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from benchmarks.speed import row_checks
from benchmarks.speed.observer import Observer
from functory.client.functory import Functory
from functory.engine.database import schema
from functory.engine.settings import load_settings

COUNT = 3


@pytest.fixture
def round_(tmp_path: Path) -> Iterator[tuple[Functory, Observer, str]]:
    """An engine after a round, its observer, and the id since which the round's rows were made."""
    settings = load_settings(home=tmp_path)
    with Functory(settings) as engine, contextlib.closing(Observer(settings.database, settings)) as observer:
        engine.functions.save("def noop(event=None):\n    return 1\n")
        engine.register_trigger("noop", on={"type": ["bench.noop"]}, function="noop")
        since = observer.now()
        engine.emit_many({"type": "bench.noop", "data": {"n": n}} for n in range(COUNT))
        engine.settle()
        yield engine, observer, since


def test_a_complete_round_passes(round_) -> None:
    _, observer, since = round_
    observer.wait(since, "noop", COUNT)
    row_checks.check(observer, since, "noop", COUNT)


@pytest.mark.parametrize(
    ("key", "where", "missing"),
    [
        (schema.attempt.c.execution_id, None, "attempts in all but those given back: 2 instead of 3"),
        (schema.firing.c.event_id, None, "firings: 2 instead of 3"),
        (schema.event.c.id, "execution.started", "events execution.started: 2 instead of 3"),
        (schema.event.c.id, "execution.succeeded", "events execution.succeeded: 2 instead of 3"),
    ],
)
def test_a_row_that_is_missing_is_named(round_, key: sa.Column, where: str | None, missing: str) -> None:
    engine, observer, since = round_
    chosen = sa.select(key).limit(1)
    if where is not None:
        chosen = chosen.where(schema.event.c.type == where)
    with engine.database.write() as tx:
        tx.execute(sa.delete(key.table).where(key == tx.scalar(chosen)))
    with pytest.raises(row_checks.RowsMissing, match=missing):
        row_checks.check(observer, since, "noop", COUNT)


def test_a_second_attempt_is_not_taken_for_a_first(round_) -> None:
    engine, observer, since = round_
    first = sa.select(schema.execution.c.id).limit(1)
    with engine.database.write() as tx:
        change = sa.update(schema.execution).where(schema.execution.c.id == tx.scalar(first))
        tx.execute(change.values(fence=2))
    with pytest.raises(row_checks.RowsMissing, match="executions that ran once: 2 instead of 3"):
        row_checks.check(observer, since, "noop", COUNT)
