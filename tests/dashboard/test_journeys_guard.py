"""Journeys through backfills, secrets and grants, once with the mouse and once with the keyboard alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.services.http_proxy import HttpProxy
from tests.support.dashboard import Deployment, dashboard_server
from tests.support.dashboard_hands import Hands

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def server(chromium_server: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A server whose world each journey makes for itself."""
    with dashboard_server(tmp_path_factory.mktemp("guard")) as deployment:
        deployment.functory.functions.save(
            "def report(day: str = '') -> str:\n    return day\n", author="ada"
        )
        yield deployment


def test_a_backfill_is_listed_before_it_fires(server: Deployment, hands: Hands) -> None:
    name, screen = hands.name_for("weekly"), hands.screen
    server.functory.schedules.save(
        name,
        cron="0 6 * * *",
        timezone="UTC",
        function="report",
        input={"day": "{{ event.data.local_time }}"},
    )
    screen.go(f"/schedules/{name}").ready()
    hands.use("b", "Backfill…")
    dialog = screen.page.get_by_role("dialog")
    dialog.get_by_label("From").fill("2026-01-01T00:00")
    dialog.get_by_label("Until").fill("2026-01-04T00:00")
    hands.push("List the times")
    dialog.get_by_text("to be fired").first.wait_for()
    assert server.functory.schedules.ticks(name) == []
    hands.push("Fire 3 times")
    dialog.get_by_role("link", name="event →").first.wait_for()
    assert len(server.functory.schedules.ticks(name)) == 3


def test_the_value_of_a_secret_crosses_the_wire_once_and_only_towards_the_server(
    server: Deployment, hands: Hands, caplog: pytest.LogCaptureFixture, browser: Browser
) -> None:
    caplog.set_level(logging.DEBUG)
    name = hands.name_for("KEY").upper()
    values = [f"first-value-of-{name}-5bd1", f"other-value-of-{name}-77aa"]
    function = hands.name_for("use")
    server.functory.functions.save(
        f"import functory\n\ndef {function}() -> str:\n"
        f"    value = functory.secret('{name}')\n    print('it is', value)\n    return 'sent with ' + value\n",
        author="ada",
        secrets=[name],
    )
    with HttpProxy([server.url]) as proxy:
        context = server.context(browser)
        behind = Deployment(server.functory, proxy.url)
        screen = behind.log_in(context)
        there = Hands(screen, keys=hands.keys)
        screen.go("/secrets").ready()
        screen.shows("not set")
        for version, value in enumerate(values, 1):
            there.push(f"Set{'' if version == 1 else ' new value'}: {name}")
            screen.page.get_by_role("dialog").wait_for()
            there.write("Value", value)
            screen.press("Enter")
            screen.page.get_by_text(f"{name} has version {version}").wait_for()
            assert value not in screen.page.content()
            execution = server.functory.executions.start(function, {})
            server.functory.settle()
            for tab in ("", "?tab=log", "?tab=io"):
                screen.go(f"/executions/{execution['id']}{tab}").ready()
                screen.shows("succeeded")
                assert value not in screen.page.content()
            screen.shows("sent with ***")
            screen.go("/secrets").ready()
            screen.page.get_by_text(f"v{version}").first.wait_for()
        screen.go(f"/audit?subject={name}").ready()
        screen.shows("secret.set")
        context.close()
        assert b"sent with ***" in proxy.answers
        for value in values:
            assert value.encode() not in proxy.answers
            assert value not in caplog.text


def test_a_grant_is_approved_and_another_one_refused_with_a_reason(
    tmp_path_factory: pytest.TempPathFactory, browser: Browser
) -> None:
    with dashboard_server(tmp_path_factory.mktemp("careful"), author_grants=["secret"]) as careful:
        functory = careful.functory
        for keys in (False, True):
            function = "load_by_keys" if keys else "load_by_mouse"
            functory.functions.save(
                f"def {function}() -> int:\n    return 1\n",
                author="bob",
                hosts=["a.example.com", "b.example.com"],
            )
            context = careful.context(browser)
            screen = careful.log_in(context)
            hands = Hands(screen, keys=keys)
            screen.go("/approvals?tab=grants").ready()
            for key, button in (("A", "Approve"), ("D", "Refuse")):
                hands.use(key, button)
                dialog = screen.page.get_by_role("dialog")
                dialog.wait_for()
                # Enter never decides: a reason is given and the button is meant.
                hands.write("Reason, kept in the audit log", "it was talked about")
                screen.press("Enter")
                assert dialog.is_visible()
                hands.reach(dialog.get_by_role("button", name=button))
                if keys:
                    screen.press("Enter")
                dialog.wait_for(state="detached")
            screen.shows("No grant waits for approval")
            of_it = [row for row in functory.grant_approvals.list() if row["function"] == function]
            assert [row["status"] for row in of_it] == ["operator", "pending"]
            assert of_it[0]["reason"] == "it was talked about"
            context.close()
            screen.silent()
