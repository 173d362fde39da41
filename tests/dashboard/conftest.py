"""Chromium and a server with a small world for the tests of the dashboard."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from functory.dashboard.serving import is_built
from tests.services.missing_servers import leave_out, require
from tests.support import browser_loop
from tests.support.dashboard import Deployment, Screen, dashboard_server, launch, seed
from tests.support.dashboard_hands import Hands
from tests.support.patient_reads import patient_reads as patient_reads

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def chromium_server(pytestconfig: pytest.Config) -> Iterator[Browser]:
    """Chromium, shared by the tests of this process."""
    found = require("chromium")
    if not is_built():
        leave_out("the dashboard is not built", "make dashboard")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = launch(playwright, found.programs["chromium"])
        loop = pytestconfig.stash[browser_loop.KEY] = asyncio._get_running_loop()
        yield browser
        # The last test of the process may have been one without a browser.
        asyncio._set_running_loop(loop)
        browser.close()


@pytest.fixture
def browser(chromium_server: Browser) -> Browser:
    """Chromium by the name that tests use."""
    return chromium_server


@pytest.fixture(scope="package")
def world(
    chromium_server: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Deployment, dict[str, str]]]:
    """A server whose engine has run a small world, and ids of it."""
    with dashboard_server(tmp_path_factory.mktemp("dashboard")) as deployment:
        yield deployment, seed(deployment.functory)


@pytest.fixture
def deployment(world: tuple[Deployment, dict[str, str]]) -> Deployment:
    return world[0]


@pytest.fixture
def ids(world: tuple[Deployment, dict[str, str]]) -> dict[str, str]:
    return world[1]


@pytest.fixture
def screen(deployment: Deployment, browser: Browser) -> Iterator[Screen]:
    """A page of the owner, light, 1440 wide. The test fails when the browser said anything."""
    context = deployment.context(browser)
    made = deployment.log_in(context)
    yield made
    context.close()
    made.silent()


@pytest.fixture(params=["mouse", "keys"])
def hands(request: pytest.FixtureRequest, server: Deployment, browser: Browser) -> Iterator[Hands]:
    """Hands on a page of the owner of the module's ``server``, once with the mouse and once with the keyboard alone."""
    context = server.context(browser, timezone_id="America/New_York")
    screen = server.log_in(context)
    yield Hands(screen, keys=request.param == "keys")
    context.close()
    screen.silent()
