"""Pages that stay open: in many tabs of a browser, while their server restarts, and behind servers that take turns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from functory.api import create_app
from functory.api.bounded_connection import ConnectionLimits
from functory.api.server import Server
from functory.client.functory import Functory
from functory.engine.settings import Settings
from tests.services.http_proxy import HttpProxy
from tests.support.dashboard import Deployment, Screen, dashboard_server
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def test_seven_tabs_of_one_browser_are_all_live(tmp_path: Path, browser: Browser) -> None:
    with dashboard_server(tmp_path) as deployment:
        deployment.functory.functions.save("def lookup(name: str) -> str:\n    return name\n", author="ada")
        context = deployment.context(browser)
        first = deployment.log_in(context)
        tabs = [first, *(Screen(context.new_page(), deployment.url) for _ in range(6))]
        for tab in tabs:
            tab.go("/executions?function=lookup").ready()
        for tab in tabs:
            tab.page.locator(".live-live").wait_for()
        deployment.functory.executions.start("lookup", {"name": "seven"})
        for tab in tabs:
            tab.page.bring_to_front()
            tab.shows("seven")
        context.close()
        for tab in tabs:
            tab.silent()


def test_an_open_page_outlives_a_restart_of_its_server(tmp_path: Path, browser: Browser) -> None:
    with Functory(Settings(home=tmp_path / "home", poll_seconds=0.05)) as functory:
        functory.functions.save("def count(n: int) -> int:\n    return n\n", author="ada")
        functory.start()
        for n in range(160):
            functory.executions.start("count", {"n": n})
        functory.settle()
        server = _serve(functory, 0)
        deployment = Deployment(functory, server.url)
        context = deployment.context(browser)
        screen = deployment.log_in(context)
        # The browser tells of requests and streams without an answer.
        screen.expected = ["net::ERR_", "Failed to load resource"]
        screen.go("/executions").ready()
        rows = screen.page.locator(".table-body")
        # The second page, and some way down.
        rows.evaluate("body => { body.scrollTop = 120 * 32 }")
        wait_for(lambda: _view(screen.page)["height"] == 160 * 32, "the second page")
        before = _view(screen.page)
        screen.page.evaluate("window.same = true")
        port = int(server.url.rsplit(":", 1)[1])
        server.stop(5)
        screen.page.locator(".live-live").wait_for(state="detached")
        again = _serve(functory, port)
        screen.page.locator(".live-live").wait_for()
        assert _view(screen.page) == before
        functory.executions.start("count", {"n": 1000})
        screen.page.locator(".table-fresh").wait_for()
        assert _view(screen.page)["top"] == before["top"]
        assert screen.page.evaluate("window.same") is True
        screen.page.locator(".table-fresh").click()
        screen.shows("n=1000")
        context.close()
        again.stop(5)
        screen.silent()


def _serve(functory: Functory, port: int) -> Server:
    server = Server(create_app(functory, owner=True), "127.0.0.1", port, ConnectionLimits())
    server.start()
    return server


def _view(page: Page) -> dict[str, object]:
    return page.evaluate(
        "() => { const body = document.querySelector('.table-body');"
        " return { top: body.scrollTop, height: document.querySelector('.table-sizer').clientHeight,"
        " rows: [...body.querySelectorAll('.table-row')].map((row) => row.id).sort() } }"
    )


def test_two_servers_that_take_turns_serve_one_page(
    postgres_url: str, tmp_path: Path, browser: Browser
) -> None:
    settings: dict[str, Any] = {"database_url": postgres_url, "poll_seconds": 0.05}
    with (
        Functory(Settings(home=tmp_path / "one", **settings)) as engine,
        Functory(Settings(home=tmp_path / "one", **settings)) as other,
    ):
        engine.functions.save("def count(n: int) -> int:\n    return n\n", author="ada")
        engine.start()
        servers = [_serve(engine, 0), _serve(other, 0)]
        with HttpProxy([server.url for server in servers]) as proxy:
            deployment = Deployment(engine, proxy.url)
            context = deployment.context(browser)
            screen = deployment.log_in(context)
            for turn in range(6):
                screen.go("/executions").ready()
                screen.page.locator(".live-live").wait_for()
                made = engine.executions.start("count", {"n": 7000 + turn})
                screen.shows(f"n={7000 + turn}")
                screen.go(f"/executions/{made['id']}").ready()
                screen.shows("succeeded")
            context.close()
            assert len(proxy.requests) == 2 and min(proxy.requests.values()) > 10
        for server in servers:
            server.stop(5)
        screen.silent()
