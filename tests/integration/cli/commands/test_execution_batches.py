"""``functory execution retry``, ``replay`` and ``cancel`` with ``--all``, as a user types them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from functory.cli.main import main
from functory.engine.database import schema
from functory.engine.database.clock import SystemClock
from tests.support.world import World, on_sqlite

pytest_plugins = ["tests.support.world"]
pytestmark = on_sqlite

Cli = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    # The command has the real clock.
    world = make_world(clock=SystemClock())
    world.function()
    world.function("other")
    return world


@pytest.fixture
def cli(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.setenv("FUNCTORY_DATABASE_URL", world.url)
    monkeypatch.setenv("FUNCTORY_BROKER_URL", "none://")
    monkeypatch.setenv("FUNCTORY_HOME", str(world.home))

    def run(*arguments: str) -> tuple[int, Any, str]:
        status = main(["execution", *arguments]) or 0
        said = capsys.readouterr()
        return status, json.loads(said.out) if "--json" in arguments and said.out else said.out, said.err

    return run


def failed(world: World, number: int, function: str = "work") -> list[str]:
    made = [world.start(function) for _ in range(number)]
    for row in made:
        world.finish(world.claim(row), "failed")
    return sorted(row["id"] for row in made)


def replayed(world: World) -> list[str]:
    return sorted(row["replay_of"] for row in world.rows(schema.execution) if row["replay_of"])


def test_retry_all_starts_the_failed_ones_of_the_filter_again(cli: Cli, world: World) -> None:
    mine = failed(world, 3)
    failed(world, 1, "other")
    status, said, _ = cli("retry", "--all", "--function", "work", "--state", "failed", "--dry-run")
    assert (status, said.strip()) == (0, "retry is for 3 executions")
    assert replayed(world) == []
    status, row, _ = cli("retry", "--all", "--function", "work", "--reason", "fixed", "--yes", "--json")
    assert (status, row["state"], row["done"], row["failed"]) == (0, "done", 3, 0)
    assert replayed(world) == mine
    (entry,) = world.rows(schema.audit, schema.audit.c.action == "batch.retry")
    assert entry["data"]["reason"] == "fixed"


def test_nothing_happens_without_a_confirmation(cli: Cli, world: World) -> None:
    failed(world, 1)
    status, _, said = cli("retry", "--all")
    assert status and "add --yes" in said
    assert replayed(world) == [] and not world.rows(schema.batch)


def test_cancel_all_ends_what_is_open(cli: Cli, world: World) -> None:
    world.start()
    world.start("other")
    status, said, _ = cli("cancel", "--all", "--function", "work", "--since", "1h", "--yes")
    assert status == 0 and "1 cancelled" in said
    states = {row["function"]: row["state"] for row in world.rows(schema.execution)}
    assert states == {"work": "cancelled", "other": "queued"}


def test_cancel_of_a_tree_goes_on_after_the_end_of_its_execution(cli: Cli, world: World) -> None:
    (done,) = failed(world, 1)
    status, said, _ = cli("cancel", done, "--tree")
    assert status == 0 and "is failed; everything that it has caused is being cancelled" in said
    (found,) = world.rows(schema.open_cancel)
    assert (found["execution_id"], found["whole_tree"]) == (done, True)


def test_a_limit_takes_the_newest(cli: Cli, world: World) -> None:
    mine = failed(world, 3)
    cli("replay", "--all", "--limit", "1", "--yes")
    assert replayed(world) == mine[-1:]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["retry"], "no execution is given"),
        (["retry", "01998c5e-0000-7000-8000-000000000000", "--all"], "an ID and --all"),
        (["retry", "01998c5e-0000-7000-8000-000000000000", "--function", "work"], "--function is only for"),
        (["cancel", "01998c5e-0000-7000-8000-000000000000", "--dry-run"], "--dry-run is only for"),
        (["cancel", "--all", "--tree"], "--tree is only for"),
        (["replay", "--all", "--timeout", "3"], "--timeout is only for"),
        (["retry", "--all", "--state", "succeeded"], "succeeded"),
        (["retry", "--all", "--since", "2026-01-01T00:00:00"], "no zone"),
        (["retry", "--all", "--since", "yesterday"], "yesterday"),
    ],
)
def test_options_that_make_no_sense_together_are_refused(
    cli: Cli, world: World, arguments: list[str], words: str
) -> None:
    failed(world, 1)
    status, _, said = cli(*arguments)
    assert status and words in said
    assert replayed(world) == []
