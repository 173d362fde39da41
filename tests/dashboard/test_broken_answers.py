"""Pages whose requests fail: each says so in its frame, and shows what it has to show when the server answers again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.dashboard.page_list import FULL
from tests.support.dashboard import Deployment, Screen, dashboard_server
from tests.support.dashboard_world import SETTINGS, everything
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

# Pages of each part: lists, one thing, a tree, a picture, a source, what waits for a person, numbers.
PAGES = [
    "executions", "execution-failed", "tree", "event", "function", "trigger", "map", "webhook", "approvals-grants",
    "run", "spend", "health",
]  # fmt: skip


def _defect(route: Route) -> None:
    route.fulfill(
        status=500,
        content_type="application/problem+json",
        body='{"title": "the server failed", "detail": "a defect", "status": 500, "trace": "7f3a"}',
    )


def _proxy(route: Route) -> None:
    route.fulfill(status=502, content_type="text/html", body="<html><h1>Bad Gateway</h1></html>")


def _offline(route: Route) -> None:
    route.abort("internetdisconnected")


def _login_page(route: Route) -> None:
    route.fulfill(status=200, content_type="text/html", body="<html><h1>Log in</h1></html>")


def _another_form(route: Route) -> None:
    route.fulfill(status=200, content_type="application/json", body="{}")


BROKEN: dict[str, tuple[Callable[[Route], None], str]] = {
    "a defect": (_defect, "In the server's log: 7f3a"),
    "a proxy without a server": (_proxy, "502"),
    "no connection": (_offline, "the server cannot be reached"),
    "a login page of a proxy": (_login_page, "the answer is not from Functory"),
    "an answer of another form": (_another_form, "this page could not be drawn"),
}


@pytest.fixture(scope="module")
def deployment(chromium_server: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with dashboard_server(tmp_path_factory.mktemp("broken"), **SETTINGS) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def ids(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("files")
    return everything(deployment.functory, folder)


@contextmanager
def broken(screen: Screen, answer: Callable[[Route], None]) -> Iterator[None]:
    """Every request for data gets this answer. Who is logged in and the stream do not fail."""

    def handle(route: Route) -> None:
        path = route.request.url.removeprefix(screen.url)
        if path.startswith("/api/v1/") and not path.startswith(("/api/v1/me", "/api/v1/stream")):
            answer(route)
        else:
            route.continue_()

    screen.page.route("**/*", handle)
    yield
    screen.page.unroute_all(behavior="wait")


@pytest.mark.parametrize(
    ("name", "how"),
    [*((name, "a defect") for name in PAGES), *(("tree", how) for how in BROKEN if how != "a defect")],
)
def test_a_page_says_that_its_request_failed_and_recovers(
    screen: Screen, ids: dict[str, str], name: str, how: str
) -> None:
    page = FULL[name]
    answer, said = BROKEN[how]
    # The browser reports each answer that is an error, and the page its own defects.
    screen.expected = ["Failed to load resource", "TypeError"]
    fault = screen.page.get_by_role("alert").filter(has_text=said)
    with broken(screen, answer):
        screen.go(page.path.format(**ids))
        expect(fault.first).to_be_visible()
        assert "[object" not in screen.text("main")
        expect(screen.page.get_by_role("navigation").first).to_be_visible()

    def recovered() -> bool:
        # A part that asks again by itself may be quicker than a click.
        screen.page.evaluate("document.querySelectorAll('.fault button').forEach(one => one.click())")
        return fault.count() == 0

    wait_for(recovered)
    screen.shows(page.shows)


@pytest.mark.parametrize("name", ["executions", "tree", "function", "health"])
def test_a_page_that_cannot_draw_its_data_says_so_in_plain_words(
    screen: Screen, ids: dict[str, str], name: str
) -> None:
    screen.expected = ["TypeError"]
    fault = screen.page.get_by_role("alert").filter(has_text="this page could not be drawn").first
    # A page that asks for several things has the fault of the answer that comes first.
    ids_of: dict[str, list[str]] = {}
    with broken(screen, _another_form):
        while all(len(seen) < 2 for seen in ids_of.values()):
            screen.go(FULL[name].path.format(**ids))
            fault.wait_for()
            text = fault.inner_text()
            assert "the server sent something that this version of the page does not know" in text
            assert "reload the page" in text
            assert "TypeError" not in text and "undefined" not in text
            found = re.search(r"Id of the fault: .*\b([0-9a-f]{8})$", text, re.MULTILINE)
            assert found, text
            # What the browser says is for a report.
            fault.get_by_text("Details for a report").click()
            expect(fault.locator("pre")).to_be_visible()
            assert "TypeError" in fault.inner_text()
            ids_of.setdefault(fault.locator("pre").inner_text(), []).append(found[1])
            # The same on each installation.
            assert screen.url not in fault.inner_text()
    # The same fault has the same id.
    assert all(len(set(seen)) == 1 for seen in ids_of.values()), ids_of


def test_what_others_save_and_delete_while_a_page_is_open_is_shown(
    screen: Screen, deployment: Deployment
) -> None:
    functions = deployment.functory.functions
    functions.save("def short_lived(n: int) -> int:\n    return n + 41\n")
    screen.expected = ["404"]
    screen.go("/functions/short_lived").ready().shows("v1 active")
    functions.save("def short_lived(n: int) -> int:\n    return n + 42\n")
    screen.shows("v2 active").shows("n + 42")
    functions.delete("short_lived")
    screen.shows("This was deleted meanwhile. What you see is its last state.")
    screen.shows("n + 42")
