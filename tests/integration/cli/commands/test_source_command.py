"""``functory source`` and ``functory watch table``: every kind, plug-ins too, also those that are broken or gone."""

import importlib
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from functory.cli.main import main
from functory.client.functory import Functory
from functory.engine.database import schema
from functory.triggers.sources import registry
from tests.support.source_world import plug_in

GOOD = """
    from functory.sources import SourceConfig, SourcePlugin

    class Source(SourcePlugin):
        kind, summary, types, runs = "tides", "high and low water", ("tide.turned",), True

        class Config(SourceConfig):
            harbour: str
            height: float | None = None
"""

Cli = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command line in a folder of its own: its status, its answer (JSON read), what it said beside."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, Any, str]:
        status = main(list(arguments))
        said = capsys.readouterr()
        return status, json.loads(said.out) if "--json" in arguments and said.out else said.out, said.err

    return run


@pytest.fixture
def plugged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with two plug-ins: one that works, and one that cannot be imported."""
    folder = plug_in(tmp_path / "plug", "tides", GOOD)
    plug_in(folder, "broken", "import imaginary_module\n")
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    registry.installed_plugins.cache_clear()
    return folder


@pytest.fixture(autouse=True)
def _fresh_kinds() -> Any:
    yield
    registry.installed_plugins.cache_clear()


def test_the_life_of_a_source_of_a_plug_in(cli: Cli, plugged: Path) -> None:
    status, row, _ = cli("source", "add", "tides", "north", "harbour=5", "height=2", "--json")
    assert (status, row["config"], row["state"], row["created"]) == (
        0,
        {"harbour": "5", "height": 2.0},
        "enabled",
        True,
    )
    assert cli("source", "add", "tides", "north", "--config", '{"harbour": "5"}', "height=2")[1] == (
        "tides north v1 is unchanged\n"
    )
    assert cli("source", "add", "tides", "north", "harbour=null")[1] == "saved tides north v2\n"
    assert cli("source", "show", "tides", "north", "--json")[1]["config"] == {"harbour": "null"}
    assert cli("source", "pause", "tides", "north", "--note", "storm")[0] == 0
    _, (listed,), _ = cli("source", "list", "--kind", "tides", "--json")
    assert (listed["state"], listed["note"]) == ("paused", "storm")
    assert cli("source", "resume", "tides", "north")[0] == 0
    assert cli("source", "list", "-q")[1] == "north\n"
    assert cli("source", "delete", "tides", "north")[0] == 2
    assert cli("source", "delete", "tides", "north", "--yes")[0] == 0
    assert cli("source", "list", "--json")[1] == []
    assert cli("source", "show", "tides", "north")[0] == 3


def test_a_broken_plug_in_is_reported_and_the_others_are_listed(cli: Cli, plugged: Path) -> None:
    _, kinds, _ = cli("source", "kinds", "--json")
    found = {kind["kind"]: kind for kind in kinds}
    assert found["tides"]["types"] == ["tide.turned"]
    assert "imaginary_module" in found["broken"]["problem"]
    assert {"file", "queue", "schedule", "table", "webhook"} <= set(found)
    status, _, said = cli("source", "add", "broken", "x")
    assert status == 2
    assert "the source plug-in broken cannot be loaded" in said


def test_a_source_whose_plug_in_is_gone_is_reported_and_can_be_deleted(
    cli: Cli, plugged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("source", "add", "tides", "north", "harbour=x")
    monkeypatch.undo()
    monkeypatch.chdir(plugged.parent)
    importlib.invalidate_caches()
    registry.installed_plugins.cache_clear()
    _, (listed,), _ = cli("source", "list", "--problems", "--json")
    assert listed["problem"] == "no plug-in for the kind tides is installed here"
    assert cli("source", "resume", "tides", "north")[0] == 3
    assert cli("source", "delete", "tides", "north", "--yes")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["source", "add", "tides", "north"], 2, "harbour: it is missing"),
        (["source", "add", "tides", "north", "harbour"], 2, "name=value"),
        (["source", "add", "tides", "north", "harbour=a", "harbour=b"], 2, "given twice"),
        (["source", "add", "tides", "north", "harbour=a", "depth=1"], 2, "depth"),
        (["source", "add", "tides", "9 x", "harbour=a"], 2, "not a name for a source (kind tides)"),
        (["source", "add", "queue", "north", "queue=jobs", "type='a.b'"], 2, "\n  give url_secret"),
        (["source", "add", "tides", "north", "--config", "[]"], 2, "JSON object"),
        (["source", "add", "nothing", "north"], 3, "there is no kind of source 'nothing'"),
        (["source", "pause", "tides", "south"], 3, "not found"),
        (["watch", "table", "orders", "--table", "shop.orders"], 2, "on PostgreSQL only"),
        (["watch", "table", "orders", "--table", "shop.orders", "--events", "truncate"], 2, "truncate"),
        (
            ["watch", "table", "orders", "--table", "t", "--columns", "a", "--exclude", "b"],
            2,
            "columns or exclude",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    cli: Cli, plugged: Path, arguments: list[str], status: int, said: str
) -> None:
    assert cli("db", "upgrade")[0] == 0
    found, _, beside = cli(*arguments)
    assert found == status
    assert said in beside


@pytest.mark.parametrize(
    "arguments",
    [
        ["watch", "add", "in", "inbox", "--missing"],
        ["webhook", "add", "in", "--auth", "none", "--allow-unauthenticated"],
        ["schedule", "add", "in", "--every", "1h"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_rate_is_saved_shown_and_kept(cli: Cli, arguments: list[str]) -> None:
    saved = [*arguments, "--max-per-minute", "60000", "--json"]
    assert cli(*saved)[1]["config"]["max_per_minute"] == 60_000
    status, row, _ = cli(*arguments, "--json")
    assert (status, row["version"], row["config"]["max_per_minute"]) == (0, 1, 60_000)
    assert "60000" in cli(arguments[0], "show", "in")[1]
    assert cli(*arguments, "--max-per-minute", "0", "--json")[1]["config"]["max_per_minute"] == 0
    status, _, said = cli(*arguments, "--max-per-minute", "-1")
    assert (status, "max_per_minute" in said) == (2, True)


@pytest.mark.postgres
def test_a_table_is_watched(cli: Cli, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg
    import sqlalchemy as sa

    plain = sa.make_url(postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)
    monkeypatch.setenv("FUNCTORY_DATABASE_URL", plain)
    assert cli("db", "upgrade")[0] == 0
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY, card text)")
        status, row, _ = cli(
            "watch", "table", "orders", "--table", "orders", "--events", "insert, delete", "--exclude", "card",
            "--max-per-minute", "60000", "--json"
        )  # fmt: skip
        assert status == 0
        assert row["config"] == {
            "table": "orders", "events": ["insert", "delete"], "exclude": ["card"], "max_bytes": 1_048_576,
            "wake": True, "max_per_minute": 60_000,
        }  # fmt: skip
        connection.execute("INSERT INTO orders VALUES (1, 'secret')")
    _, (event,), _ = cli("event", "list", "--type", "row.inserted", "--full", "--json")
    assert event["data"] == {"table": "public.orders", "key": {"id": 1}, "new": {"id": 1}}
    assert [row["name"] for row in cli("watch", "list", "--json")[1]] == ["orders"]


def test_a_list_says_how_far_behind_each_source_is(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    folder.mkdir()
    assert cli("source", "add", "file", "inbox", f"path={folder}")[0] == 0
    with Functory() as engine:
        long_ago = engine.database.clock.now() - timedelta(hours=3)
        with engine.database.write() as tx:
            tx.execute(sa.update(schema.source).values(looked_at=long_ago))
    assert cli("source", "list", "--json")[1][0]["lag_seconds"] >= 10800
    assert "\t3h" in cli("source", "list")[1]
