"""Journeys of those who read: a failure, an event that did not fire, a schedule, a viewer, a login that ends. Once with
the mouse and once with the keyboard alone, on SQLite and on PostgreSQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect
from pydantic import SecretStr

from functory.api import create_app
from functory.api.bounded_connection import ConnectionLimits
from functory.api.server import Server
from functory.client.functory import Functory
from tests.services.http_proxy import HttpProxy
from tests.support.dashboard import Deployment, dashboard_server
from tests.support.dashboard_hands import Hands
from tests.support.patience import patient

if TYPE_CHECKING:
    from playwright.sync_api import Browser

INPUT = "Input, JSON with {{ … }} expressions; empty leaves it"
PASSWORD = "a password that is long"
# An open page shows no row this long after its login has ended elsewhere (seconds).
DEAD_AFTER = 5


_ON_POSTGRES = [pytest.param(name, marks=pytest.mark.postgres) for name in ("postgresql", "two_servers")]


@pytest.fixture(scope="module", params=["sqlite", *_ON_POSTGRES])
def server(
    request: pytest.FixtureRequest, chromium_server: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """A server whose world each journey makes for itself, or two of which each request gets one by chance."""
    with ExitStack() as stack:
        settings: dict[str, Any] = {}
        if request.param != "sqlite":
            databases = request.getfixturevalue("postgres_server")
            settings["database_url"] = stack.enter_context(databases.database())
        deployment = stack.enter_context(dashboard_server(tmp_path_factory.mktemp("reading"), **settings))
        deployment.save("report", "def report(day: str = '') -> str:\n    return day\n")
        if request.param != "two_servers":
            yield deployment
            return
        other = stack.enter_context(Functory(deployment.functory.settings))
        second = Server(create_app(other, owner=True), "127.0.0.1", 0, ConnectionLimits())
        second.start()
        stack.callback(second.stop, 5)
        proxy = stack.enter_context(HttpProxy([deployment.url, second.url]))
        yield Deployment(deployment.functory, proxy.url)
        assert len(proxy.requests) == 2 and min(proxy.requests.values()) > 10, proxy.requests


def test_a_failure_is_found_from_the_overview_and_its_retry_opens_the_new_execution(
    server: Deployment, hands: Hands
) -> None:
    name = hands.name_for("flaky")
    server.save(
        name,
        f"""
        def {name}() -> str:
            from functory import state
            if state.get("tried", False):
                return "fine now"
            state.set("tried", True)
            raise KeyError("amount")
        """,
    )
    failed = server.functory.start_execution(name, {})
    server.functory.settle()
    screen = hands.screen
    screen.go("/").ready()
    if hands.keys:
        screen.press("g", "x").shows("roots")
        screen.press("f")
        screen.page.wait_for_url("**state=failed**")
    else:
        hands.push("failed/h", "link")
    row = screen.page.locator(".table-row").filter(has_text=name).first
    row.wait_for()
    if hands.keys:
        expect(screen.page.locator(".table-row.active")).to_contain_text(name)
        screen.press("Enter")
    else:
        row.click()
    screen.shows("KeyError")
    screen.shows("raise KeyError")
    old = screen.page.url
    hands.use("r", "Retry")
    screen.page.wait_for_url(lambda url: url != old)
    screen.shows("succeeded")
    # Four of the list of keys: `g x` is one.
    assert len(hands.strokes) <= 5, hands.strokes
    assert failed["id"] not in screen.page.url
    screen.page.locator(f"a[href='/executions/{failed['id']}']").first.wait_for()


def test_an_event_that_did_not_fire_shows_the_clause_and_the_corrected_rule_matches_it(
    server: Deployment, hands: Hands
) -> None:
    name = hands.name_for("alarm")
    kind = f"{name}.raised"
    server.save(name, f"def {name}() -> str:\n    return 'told'\n")
    server.functory.register_trigger(
        f"on-{name}", on={"type": [kind], "data": {"level": [{"numeric": [">", 5]}]}}, function=name, input={}
    )
    id_ = server.functory.emit(kind, {"level": 4}, subject="boiler")
    server.functory.settle()
    screen = hands.screen
    screen.go(f"/events/{id_}").ready()
    # The clause is read at the event, and the trigger opens on this event among the newest ones of its preview.
    decision = screen.page.locator(".decision", has_text=f"on-{name}")
    expect(decision).to_contain_text("1 of 2 clauses failed")
    if decision.get_by_role("button", expanded=False).count():
        hands.push(f"Clauses of on-{name}")
    expect(decision.locator(".clause.failed")).to_contain_text("found 4")
    server.functory.emit(kind, {"level": 1}, subject="another boiler")
    server.functory.settle()
    hands.push(f"on-{name}", "link")
    screen.page.wait_for_url(f"**/triggers/on-{name}?event={id_}")
    screen.ready()
    clause = screen.page.locator(".clauses li", has_text="data.level")
    clause.wait_for()
    expect(clause).to_contain_text("found 4")
    expect(screen.page.locator(".verdict.no")).to_have_count(2)
    hands.edit("Pattern", f'{{"type": ["{kind}"], "data": {{"level": [{{"numeric": [">", 3]}}]}}}}')
    screen.page.locator(".verdict.yes").wait_for()
    expect(clause).not_to_have_class(re.compile("tone-bad"))
    hands.use("Control+s", "Save as v2")
    screen.page.locator("dialog").get_by_text("It matches 1 of").wait_for()
    hands.push("Save", exact=True)
    screen.shows(f"Saved on-{name} v2")
    assert len(hands.strokes) <= 5, hands.strokes
    if hands.keys:
        screen.page.evaluate("document.activeElement?.blur()")
        screen.press("d")
    else:
        hands.push("Dry run")
    screen.shows(f"It would run {name}")


def test_a_schedule_shows_its_times_before_it_is_saved_and_its_ticks_with_a_reason_after(
    server: Deployment, hands: Hands
) -> None:
    name, screen = hands.name_for("nightly"), hands.screen
    screen.go("/schedules").ready()
    if hands.keys:
        screen.press("n")
    else:
        screen.page.get_by_role("link", name="New schedule").first.click()
    hands.write("Name", name)
    hands.write("Expression", "30 2 * * *")
    hands.write("Time zone", "Europe/Berlin")
    hands.write("Function to run; empty leaves it to triggers", "report")
    hands.write(INPUT, '{"day": "{{ event.data.local_time }}"}')
    screen.shows("First times after clocks change")
    preview = screen.page.locator(".card", has_text="When it ticks")
    # In its zone and in that of the reader, winter and summer.
    preview.get_by_text(re.compile(r"02:30 \+01:00")).first.wait_for()
    preview.get_by_text(re.compile(r"\+02:00")).first.wait_for()
    preview.get_by_text(re.compile(r"(19|20|21):30:00")).first.wait_for()
    assert server.functory.schedules.list() == [] or name not in str(server.functory.schedules.list())
    # Six fields: every second.
    hands.write("Expression", "* * * * * *")
    preview.get_by_text("First times after clocks change").wait_for(state="detached")
    if hands.keys:
        screen.press("Control+s")
    else:
        hands.push("Save")
    ticks = screen.page.locator(".card", has_text="Newest ticks")
    ticks.get_by_role("link", name="execution →").first.wait_for()
    # A tick that its trigger did not follow says why in its row.
    hands.use("p", "Pause")
    screen.page.get_by_role("dialog").wait_for()
    hands.write("Why", "until tomorrow")
    screen.press("Enter")
    screen.shows("until tomorrow")
    server.functory.triggers.pause(f"schedule-{name}", note="too loud", author="ada")
    hands.use("r", "Run now")
    confirm = screen.page.get_by_role("dialog").get_by_role("button", name="Run now")
    hands.reach(confirm)
    if hands.keys:
        screen.press("Enter")
    ticks.get_by_text("trigger paused").first.wait_for()
    if hands.keys:
        hands.reach(ticks.get_by_role("link", name="execution →").last)
        screen.press("Enter")
    else:
        ticks.get_by_role("link", name="execution →").last.click()
    screen.page.wait_for_url("**/executions/*")
    screen.shows("report")


def test_a_viewer_sees_no_payload(server: Deployment, hands: Hands, browser: Browser) -> None:
    name, screen = hands.name_for("viewer"), hands.screen
    server.functory.users.create(name, SecretStr(PASSWORD), role="viewer")
    event = server.functory.emit(
        "note.taken", {"text": "the content of the note"}, subject="the subject of it"
    )
    execution = server.functory.executions.start("report", {"day": "the content of the input"})
    server.functory.settle()
    with HttpProxy([server.url]) as proxy:
        context = server.context(browser)
        screen = Deployment(server.functory, proxy.url).log_in_as(context, name, PASSWORD)
        # A route of payloads refuses; the page draws the marker in its place.
        screen.expected += ["403"]
        for path in (f"/events/{event}", f"/executions/{execution['id']}?tab=io", "/events", "/executions"):
            screen.go(path).ready()
            screen.shows("redacted")
        assert b"the content of the" not in proxy.answers and b"the subject of it" not in proxy.answers
        context.close()
        screen.silent()


def test_a_login_that_ends_elsewhere_kills_the_open_page(
    server: Deployment, hands: Hands, browser: Browser
) -> None:
    name = hands.name_for("operator")
    server.functory.users.create(name, SecretStr(PASSWORD), role="operator")
    function = hands.name_for("late")
    server.save(function, f"def {function}() -> int:\n    return 1\n")
    with HttpProxy([server.url]) as proxy:
        context = server.context(browser)
        open_page = Deployment(server.functory, proxy.url).log_in_as(context, name, PASSWORD)
        open_page.expected += ["401"]
        open_page.go("/executions").ready()
        open_page.page.get_by_text("live", exact=True).first.wait_for()
        hands.screen.go(f"/people/{name}").ready()
        hands.push("End", exact=True)
        # Also when nothing happens on the page, it soon shows no row any more and asks who is there.
        open_page.page.locator("input[name=password]").wait_for(timeout=patient(DEAD_AFTER) * 1000)
        assert "/login?next=%2Fexecutions" in open_page.page.url
        started = server.functory.executions.start(function, {})
        server.functory.settle()
        # What happens now arrives at the other page, and not even on the wire at this one.
        hands.screen.go(f"/executions?function={function}").ready()
        hands.screen.page.locator(f".table-row a[href='/executions/{started['id']}']").first.wait_for()
        assert started["id"].encode() not in proxy.answers
        assert function not in open_page.text("body")
        answer = "fetch('/api/v1/executions').then((answer) => answer.status)"
        assert open_page.page.evaluate(answer) == 401
        assert started["id"].encode() not in proxy.answers
        context.close()
