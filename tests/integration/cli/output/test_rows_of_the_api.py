"""`--json` prints the rows of the API: the same fields with the same values. A list has no others; what one thing has
beside its row is what the API has under routes of its own.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from functory.cli.main import main
from functory.cli.session import sharing
from functory.client.functory import Functory
from functory.engine.settings import Settings
from tests.support.api_client import ApiClient
from tests.support.dashboard import dashboard_server
from tests.support.dashboard_world import SETTINGS, everything
from tests.support.patience import patient
from tests.support.waiting import wait_for


class World(NamedTuple):
    """An engine that is at rest, its API, and ids by what they are."""

    engine: Functory
    api: ApiClient
    ids: dict[str, str]


# A command and the route that has the same.
SAME = [
    ("function list", "/functions?limit=1000"),
    ("function versions parse_invoice", "/functions/parse_invoice/versions"),
    ("function history parse_invoice", "/functions/parse_invoice/history"),
    ("function diff parse_invoice 1 2", "/functions/parse_invoice/diff?a=1&b=2"),
    ("execution list -n 40", "/executions?limit=40"),
    ("execution list --state failed --unresolved", "/executions?state=failed&unresolved=true"),
    ("execution logs {failed}", "/executions/{failed}/logs"),
    ("execution spans {called}", "/executions/{called}/spans"),
    ("execution why {failed}", "/executions/{failed}/why"),
    ("execution why {succeeded}", "/executions/{succeeded}/why"),
    ("execution tree {failed}", "/trees/{failed}/nodes"),
    ("event list -n 40", "/events?limit=40"),
    ("event why {order 5}", "/events/{order 5}/decisions"),
    ("event why {order 5} --times", "/events/{order 5}/times"),
    ("trigger list", "/triggers:definitions?limit=1000"),
    ("trigger versions big-orders", "/triggers/big-orders/versions"),
    ("trigger graph", "/triggers:graph"),
    ("trigger suppressed", "/suppressions"),
    ("source list", "/sources:configs"),
    ("schedule list", "/sources:configs?kind=schedule"),
    ("schedule next nightly", "/sources/schedule/nightly/next?count=10"),
    ("schedule ticks nightly", "/sources/schedule/nightly/ticks"),
    ("webhook list", "/sources:configs?kind=webhook"),
    ("watch list", "/sources:configs?kind=file"),
    ("watch files inbox", "/sources/file/inbox/files"),
    ("grant list", "/grants"),
    ("secret list", "/secrets"),
    ("state list remember", "/state?function=remember"),
    ("user list", "/users"),
    ("token list", "/tokens"),
    ("login list", "/logins"),
    ("model list", "/models"),
    ("llm calls", "/calls"),
    ("llm cost", "/calls:cost"),
    ("budget quotas", "/quotas"),
    ("agent list", "/agents"),
    ("agent runs list", "/runs"),
    ("approval list", "/approvals?state=pending"),
    ("canary list", "/canaries"),
    ("memory list", "/memories"),
    ("memory search bills", "/memories:search?q=bills"),
    ("function search invoice", "/functions:search?q=invoice"),
    ("top --minutes 60", "/activity?minutes=60"),
]
# What a command prints beside the row.
PARTS = [
    (
        "function show parse_invoice",
        "/functions/parse_invoice",
        "missing_dependencies missing_secrets granted pending used_by description versions",
    ),
    ("execution show {failed}", "/executions/{failed}", "input result attempts spans log_lines"),
    (
        "event show {order 5}",
        "/events/{order 5}",
        "specversion datacontenttype functoryroot functorydepth",
    ),
    ("trigger show big-orders", "/triggers/big-orders?totals=true", ""),
    ("source show webhook shop", "/sources/webhook/shop", ""),
    ("schedule show nightly", "/sources/schedule/nightly", "next"),
    ("watch show inbox", "/sources/file/inbox", "files"),
    ("webhook show shop", "/sources/webhook/shop", "warnings"),
    ("user show ada", "/users/ada", "tokens logins"),
    ("model show clerks-model", "/models/clerks-model", ""),
    ("agent show clerk", "/agents/clerk", ""),
    ("canary show remember", "/canaries/remember", ""),
    ("memory show {memory}", "/memories/{memory}", ""),
]
# Lists with payloads: of executions and events that were just listed.
FULL = [
    ("execution list -n 5 --full", "/executions?limit=5", {"input", "result"}),
    ("event list -n 5 --full", "/events?limit=5", {"data"}),
]
SOURCE = """
import functory

def remember(word: str) -> str:
    functory.state.set("word", word)
    return word
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Some of everything, with no role that changes it any more."""
    folder = tmp_path_factory.mktemp("rows")
    with dashboard_server(folder, **SETTINGS) as deployment:
        functory = deployment.functory
        ids = everything(functory, folder)
        functory.functions.save(SOURCE.lstrip())
        functory.functions.save("def caller() -> str:\n    return remember('a')\n", dependencies=["remember"])
        functory.state.set("remember", "word", "b", author="ada")
        ids["memory"] = functory.memory.add("bills are due on Mondays", author="ada")["id"]
        handle = functory.submit("caller")
        handle.result(timeout=patient(60))
        ids["called"] = handle.id
        (folder / "inbox" / "orders.csv").write_text("a,b")
        wait_for(lambda: functory.sources.files("inbox"))
        functory.logins.log_in_by_link(functory.logins.new_link(), address="127.0.0.1", agent="a browser")
        functory.settle()
        functory.functions.save(SOURCE.replace('"word"', '"words"').lstrip(), activate=False)
        functory.functions.delete("caller", force=True)
        functory.canaries.start("remember", 2, author="ada")
    with Functory(Settings(home=folder / "home", **SETTINGS)) as engine:
        yield World(engine, ApiClient(engine), ids)


@pytest.fixture(autouse=True)
def one_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both answers are of one time: a source that no process runs falls behind meanwhile."""
    clock = world.engine.database.clock
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)


def printed(world: World, command: str) -> Any:
    out = io.StringIO()
    with sharing(world.engine), contextlib.redirect_stdout(out):
        assert main([*command.format_map(world.ids).split(), "--json"]) == 0
    text = out.getvalue()
    return [json.loads(line) for line in text.splitlines()] if " logs " in command else json.loads(text)


def sent(world: World, route: str) -> Any:
    path, _, query = route.format_map(world.ids).partition("?")
    found = world.api.get(path, **dict(pair.split("=") for pair in query.split("&") if pair))
    return found["items"] if isinstance(found, dict) and "items" in found else found


@pytest.mark.parametrize(("command", "route"), SAME, ids=[command for command, _ in SAME])
def test_json_is_what_the_api_answers(command: str, route: str, world: World) -> None:
    found = sent(world, route)
    assert found, "there must be something to compare"
    assert printed(world, command) == found


@pytest.mark.parametrize(("command", "route", "parts"), PARTS, ids=[command for command, *_ in PARTS])
def test_one_thing_has_the_fields_of_the_api_and_its_parts(
    command: str, route: str, parts: str, world: World
) -> None:
    row, shown = sent(world, route), printed(world, command)
    assert {name: shown.get(name) for name in row} == row
    assert set(shown) - set(row) == set(parts.split())


@pytest.mark.parametrize(("command", "route", "payloads"), FULL, ids=[command for command, *_ in FULL])
def test_a_full_list_has_the_payloads_beside_the_rows(
    command: str, route: str, payloads: set[str], world: World
) -> None:
    rows = printed(world, command)
    assert all(payloads <= set(row) for row in rows)
    assert [{name: value for name, value in row.items() if name not in payloads} for row in rows] == sent(
        world, route
    )
