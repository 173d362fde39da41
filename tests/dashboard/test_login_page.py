"""Who is not logged in gets the login page, and comes back to where they wanted to go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from tests.support import page_checks
from tests.support.dashboard import Deployment, Screen, dashboard_server
from tests.support.identity_provider import CLIENT, SECRET, provider

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_who_is_not_logged_in_gets_the_login_page_and_comes_back(
    deployment: Deployment, browser: Browser
) -> None:
    deployment.functory.users.create("ada", SecretStr("a long password of ada"), role="operator")
    context = deployment.context(browser)
    page_checks.prepare(context)
    screen = Screen(context.new_page(), deployment.url, expected=["401"])
    screen.go("/executions?state=failed")
    screen.page.fill("input[name=name]", "ada")
    screen.page.fill("input[name=password]", "wrong, and long enough")
    screen.press("Enter")
    screen.page.wait_for_selector(".fault")
    assert page_checks.problems(screen) == []
    screen.page.fill("input[name=password]", "a long password of ada")
    screen.press("Enter")
    screen.page.wait_for_selector("text=failed")
    assert screen.page.url.endswith("/executions?state=failed")
    screen.silent()
    context.close()


def test_a_user_of_an_identity_provider_confirms_a_dangerous_action_there(
    tmp_path: Path, browser: Browser
) -> None:
    with provider() as there, dashboard_server(
        tmp_path, start=False, owner=False, oidc_issuer=there.url, oidc_client_id=CLIENT,
        oidc_client_secret=SECRET, oidc_roles={"admins": "admin"},
    ) as server:  # fmt: skip
        context = server.context(browser)
        page_checks.prepare(context)
        screen = Screen(context.new_page(), server.url, expected=["401", "403", f"{there.url}/authorize"])
        screen.go("/people")
        screen.page.get_by_role("button", name="Log in with single sign-on").click()
        screen.page.wait_for_url(f"{server.url}/")
        screen.go("/people").ready()
        screen.press("n")
        dialog = screen.page.locator("dialog[open]").last
        dialog.get_by_label("Name").fill("bob")
        dialog.get_by_role("button", name="Create").click()
        link = screen.page.get_by_role("link", name="Go to the provider")
        link.wait_for()
        assert page_checks.problems(screen) == []
        with context.expect_page() as opened:
            link.click()
        opened.value.get_by_text("Confirmed").wait_for()
        assert page_checks.problems(Screen(opened.value, server.url)) == []
        opened.value.close()
        # What was asked for before is done now, without another click.
        screen.shows("bob")
        assert [row["name"] for row in server.functory.users.list()] == ["ada", "bob"]
        context.close()
