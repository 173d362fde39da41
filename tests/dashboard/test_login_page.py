"""Who is not logged in gets the login page, and comes back to where they wanted to go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import SecretStr

from tests.support import page_checks
from tests.support.dashboard import Deployment, Screen

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
