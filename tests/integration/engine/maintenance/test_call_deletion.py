"""Calls of language models go with their tree, and their texts before that; what is open or needed stays."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from functory.engine.agents import call_queue
from functory.engine.database import schema as t
from functory.engine.database.connection import Database
from functory.engine.maintenance import call_deletion, tree_deletion
from functory.engine.maintenance.backup.create import backup
from functory.engine.maintenance.backup.restore import restore
from functory.engine.maintenance.tree_deletion import RetentionLimits
from tests.support import model_history
from tests.support.aging_world import DAY, MONTH, broken, prune, publish
from tests.support.model_history import add_model, answer_all, ask, send
from tests.support.world import World

pytest_plugins = ["tests.support.world"]

ARCHIVE = RetentionLimits(archive=timedelta(days=30))
TABLES = (t.llm_call, t.llm_try, t.llm_content, t.llm_partial, t.meter)


def counts(world: World) -> dict[str, int]:
    return {table.name: len(world.rows(table)) for table in TABLES}


def asking(world: World) -> Any:
    """An attempt that has asked a model once."""
    claim = world.claim(world.start("work"))
    ask(world, claim=claim)
    answer_all(world)
    return claim


@pytest.fixture
def models(aging: World) -> World:
    add_model(aging)
    return aging


def test_calls_go_with_their_tree_and_not_before(models: World) -> None:
    models.finish(asking(models))
    ask(models, "of a person")
    answer_all(models)
    models.run_all()
    publish(models)
    models.advance(29 * DAY)
    models.finish(asking(models))
    models.run_all()
    publish(models)
    assert counts(models)["llm_call"] == 3
    models.advance(2 * DAY)
    before = counts(models)
    going, _ = tree_deletion.preview(models.database, MONTH)
    gone = prune(models)
    assert counts(models) == {"llm_call": 1, "llm_try": 1, "llm_content": 1, "llm_partial": 0, "meter": 1}
    assert {name: gone[name] for name in before} == {
        name: count - counts(models)[name] for name, count in before.items()
    }
    assert {name: count for name, count in gone.items() if name != "partitions"} == dict(going)
    assert prune(models) == Counter()


@pytest.mark.parametrize("state", ["queued", "sent"])
def test_a_tree_with_an_open_call_is_kept(models: World, state: str) -> None:
    """Steps of runs leave such trees: nothing of them runs while the model is asked."""
    claim = models.claim(models.start("work"))
    of_execution, of_person = ask(models, claim=claim), ask(models, "of a person")
    models.finish(claim)
    models.run_all()
    publish(models)
    if state == "sent":
        send(models)
    models.advance(31 * DAY)
    _, kept = tree_deletion.preview(models.database, MONTH)
    assert kept == Counter({"a call of a language model is open": 1})
    prune(models)
    assert {row["id"] for row in models.rows(t.llm_call)} == {of_execution["id"], of_person["id"]}


def test_a_tree_is_young_until_its_last_call_is_old(models: World) -> None:
    claim = models.claim(models.start("work"))
    ask(models, claim=claim)
    models.finish(claim)
    models.run_all()
    publish(models)
    models.advance(20 * DAY)
    answer_all(models)
    models.advance(20 * DAY)
    prune(models)
    assert len(models.rows(t.llm_call)) == 1
    models.advance(11 * DAY)
    prune(models)
    assert counts(models) == dict.fromkeys((table.name for table in TABLES), 0)


def test_texts_are_emptied_and_costs_stay(models: World) -> None:
    models.finish(asking(models))
    (before,) = models.rows(t.llm_call)
    models.advance(29 * DAY)
    assert prune(models, ARCHIVE) == Counter()
    models.advance(2 * DAY)
    assert prune(models, ARCHIVE) == Counter(archived=1)
    (after,) = models.rows(t.llm_call)
    assert (after["request"], after["response"]) == (None, None)
    assert {**after, "request": 0, "response": 0} == {**before, "request": 0, "response": 0}
    assert models.rows(t.llm_content) == []
    assert prune(models, ARCHIVE) == Counter()


def test_an_attempt_gets_answers_that_are_older_than_the_archive(models: World) -> None:
    claim = asking(models)
    models.advance(31 * DAY)
    assert prune(models, ARCHIVE) == Counter()
    assert ask(models, claim=claim)["response"]["text"] == "ok"


def test_messages_that_a_younger_call_of_the_tree_needs_stay(models: World) -> None:
    root = model_history.ask(models, "both say this")["root_id"]
    answer_all(models)
    models.advance(700)
    ask(models, "both say this", root=root, number=2)
    assert prune(models, RetentionLimits(archive=timedelta(minutes=10))) == Counter(archived=1)
    (sent,) = send(models)
    assert sent.request.messages[0]["content"] == "both say this"


def test_days_are_kept_longer_than_their_calls_and_not_for_ever(models: World) -> None:
    ask(models)
    answer_all(models)
    models.advance(31 * DAY)
    prune(models)
    assert models.rows(t.llm_call) == []
    assert len(models.rows(t.quota_day)) == 1 and broken(models) == {}
    models.advance(call_deletion.KEEP_QUOTA_DAYS.total_seconds())
    assert prune(models, ARCHIVE) == Counter(quota_day=1)


def test_gateways_that_were_killed_are_forgotten(models: World) -> None:
    with models.database.write() as tx:
        call_queue.renew(tx, "killed:1", tx.now, [])
    models.advance(2 * DAY)
    with models.database.write() as tx:
        call_queue.renew(tx, "runs:2", tx.now, [])
    assert prune(models, ARCHIVE) == Counter(gateway=1)
    assert [row["name"] for row in models.rows(t.gateway)] == ["runs:2"]


def test_a_restored_backup_has_no_call_in_flight(world: World, tmp_path: Path) -> None:
    """Whether it was answered, the backup cannot know: it is unknown, and its reservation is spent."""
    add_model(world)
    answered, sent, queued = (ask(world, text) for text in ("a", "b", "c"))
    with world.database.write() as tx:
        tx.execute(
            sa.update(t.llm_call)
            .where(t.llm_call.c.id == queued["id"])
            .values(due_at=world.clock.now() + timedelta(days=1))
        )
    first, second = send(world)
    with world.database.write() as tx:
        call_queue.renew(tx, "host:1", tx.now, [second.row["id"]])
    model_history.settle(world, (first, model_history.ANSWER))
    backup(world.database, tmp_path / "b", version="1")
    target = world.database
    if world.dialect == "sqlite":
        target = Database(f"sqlite:///{tmp_path / 'other.db'}", clock=world.clock)
    done = restore(target, world.settings, tmp_path / "b", replace=True, force=True, author="me")
    assert done.recovered["unknown_calls"] == 1
    assert [(one.code, one.examples) for one in done.invariants if one.count] == []
    with target.read() as tx:
        rows = {row["id"]: row for row in tx.rows(sa.select(t.llm_call))}
        assert tx.rows(sa.select(t.gateway)) == []
        for table in (t.model, t.model_health, t.llm_content, t.quota, t.llm_try):
            assert len(tx.rows(sa.select(table))) >= (table is not t.quota)
    assert [rows[row["id"]]["state"] for row in (answered, sent, queued)] == [
        "succeeded",
        "unknown",
        "queued",
    ]
    assert rows[sent["id"]]["cost"] == second.row["reserved"]
    target.close()
