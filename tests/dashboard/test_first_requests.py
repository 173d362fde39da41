"""A page that is opened asks for what it shows beside the question who looks at it, and for nothing twice."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.support.dashboard import Deployment, Screen

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Request, Route

# What each page asks first, below /api/v1.
FIRST = {
    "/": ["/overview"],
    "/executions": ["/executions?limit=100"],
    "/executions?state=failed&since=1h": ["/executions?state=failed&since=1h&limit=100"],
    "/executions/{succeeded}": ["/executions/{succeeded}", "/executions/{succeeded}/trace"],
    "/executions/{succeeded}?tab=log": ["/executions/{succeeded}"],
    "/trees/{order 5}": ["/trees/{order 5}", "/trees/{order 5}/outline?budget=200"],
    "/events": ["/events?limit=100"],
    "/functions": ["/functions?limit=100"],
    "/functions/parse_invoice": ["/functions/parse_invoice"],
    "/triggers": ["/triggers?limit=100"],
}


@pytest.mark.parametrize("path", FIRST)
def test_a_page_asks_before_it_is_known_who_looks_at_it(
    path: str, ids: dict[str, str], screen: Screen
) -> None:
    asked: list[str] = []
    held: list[Route] = []

    def note(request: Request) -> None:
        found = urlsplit(request.url)
        if found.path.startswith("/api/v1/") and not found.path.endswith("/stream"):
            asked.append(request.url.split("/api/v1")[1])

    page = screen.page
    # On a busy machine a page would take its time, and ask again for what has waited for more than a second.
    page.clock.set_fixed_time(datetime.now(UTC))
    page.on("request", note)
    page.route("**/api/v1/me", lambda route: held.append(route))
    first = [one.format(**ids) for one in FIRST[path]]
    with page.expect_response(lambda answer: answer.url.endswith(f"/api/v1{first[-1]}")):
        page.goto(f"{screen.url}{path.format(**ids)}", wait_until="commit")
    assert sorted(asked) == sorted(["/me", *first])
    assert page.locator("main").count() == 0
    held[0].continue_()
    page.wait_for_selector("h1")
    screen.ready()
    page.wait_for_timeout(300)
    counts = Counter(asked)
    assert {one: counts[one] for one in first} == dict.fromkeys(first, 1)


@pytest.mark.parametrize("late", ["/me", "/executions?limit=100"])
def test_who_is_not_logged_in_comes_to_the_login_whichever_answer_is_first(
    late: str, deployment: Deployment, browser: Browser
) -> None:
    context = deployment.context(browser)
    screen = Screen(context.new_page(), deployment.url, expected=["401"])
    page = screen.page

    def slowly(route: Route) -> None:
        page.wait_for_timeout(300)
        route.continue_()

    page.route(f"**/api/v1{late}", slowly)
    screen.go("/executions")
    page.wait_for_url(f"{screen.url}/login?next=%2Fexecutions")
    page.wait_for_selector("input[name=password]")
    screen.silent()
    # A late answer must not come when the next test has the browser.
    page.unroute_all(behavior="wait")
    context.close()
