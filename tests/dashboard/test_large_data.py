"""A tree of thousands and a payload of a megabyte open, and few elements are made of them.

How long that takes is measured in ``benchmarks``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from functory.api import bounded_reads
from functory.engine.database.schema import execution
from functory.engine.executions import tree_shape
from tests.support.dashboard import Deployment, Screen, dashboard_server
from tests.support.patience import patient

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from functory.client.functory import Functory

BURST = """
import functory

def burst(pieces: int) -> int:
    for number in range(pieces):
        functory.emit("piece.made", {"number": number})
    return pieces
"""


@pytest.fixture(scope="module")
def deployment(chromium_server: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with dashboard_server(tmp_path_factory.mktemp("large")) as deployment:
        yield deployment


@pytest.fixture(autouse=True)
def _time_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of a read is for those that no index answers; a busy machine reaches it with a large tree."""
    monkeypatch.setattr(bounded_reads, "READ_SECONDS", patient(60.0))


def test_a_tree_of_five_thousand_is_drawn_with_few_elements(screen: Screen, deployment: Deployment) -> None:
    functory = deployment.functory
    functory.functions.save(textwrap.dedent(BURST).lstrip(), author="ada")
    made = functory.executions.start("burst", {"pieces": 5000})
    functory.settle()
    for view in ("outline", "graph", "time"):
        screen.go(f"/trees/{made['id']}?view={view}").ready()
        screen.shows("burst")
        drawn = _elements(screen)
        assert drawn < 5000, f"{drawn} elements in the view {view}"


def test_the_last_execution_of_a_tree_of_more_than_twenty_thousand_has_its_trace(
    screen: Screen, deployment: Deployment
) -> None:
    functory = deployment.functory
    functory.functions.save("def leaf() -> int:\n    return 7\n", author="ada")
    made = functory.executions.start("leaf", {})
    functory.settle()
    root = functory.executions.get(made["id"])
    ids = _copies_below(functory, root, tree_shape.MAX_ROWS + 500)
    screen.go(f"/executions/{ids[-1]}?tab=trace").ready()
    screen.page.get_by_role("tree", name="Trace").get_by_text("leaf").wait_for()
    expect(screen.page.get_by_role("treeitem")).to_have_count(1)


def test_a_payload_of_a_megabyte_is_shown_with_few_elements(screen: Screen, deployment: Deployment) -> None:
    items = [{"n": n, "text": "x" * 80} for n in range(10_000)]
    functory = deployment.functory
    functory.functions.save("def copied(items: list) -> list:\n    return items\n", author="ada")
    event = functory.emit("large.data", {"items": items})
    execution = functory.executions.start("copied", {"items": items})["id"]
    functory.settle()
    for path, payloads in ((f"/events/{event}", 1), (f"/executions/{execution}?tab=io", 2)):
        screen.go(path).ready()
        # Of each payload the beginning is shown.
        expect(screen.page.get_by_role("link", name="Download the whole")).to_have_count(payloads)
        assert _elements(screen) < 3000


def _elements(screen: Screen) -> int:
    return screen.page.evaluate("document.querySelectorAll('main *').length")


def _copies_below(functory: Functory, root: dict[str, Any], number: int) -> list[str]:
    """Write copies of an execution that it has called."""
    ids: list[str] = []
    with functory.database.write() as tx:
        for _ in range(0, number, 500):
            part = [tx.new_id() for _ in range(500)]
            ids += part
            tx.insert(
                execution, [root | {"id": id_, "parent_id": root["id"], "cause": "parent"} for id_ in part]
            )
    return ids
