"""The page of a source: why it refused what came, and the times of a schedule in parts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from functory.engine.database import schema
from functory.engine.sources.webhooks import Webhooks
from tests.support.dashboard import Deployment, Screen, dashboard_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def deployment(chromium_server: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with dashboard_server(tmp_path_factory.mktemp("source"), start=False) as deployment:
        yield deployment


def test_a_webhook_says_why_it_refused(screen: Screen, deployment: Deployment) -> None:
    functory = deployment.functory
    functory.secrets.set("HOOK", "a secret value", author="ada")
    functory.sources.save("webhook", "orders", {"auth": {"type": "github", "secret": ["HOOK"]}})
    row = functory.sources.get("webhook", "orders")
    screen.go("/webhooks/orders").ready()
    assert screen.page.get_by_role("heading", name="Why it refused").count() == 0
    Webhooks(functory.database).record_refusals(row["id"], "no", {"proof_wrong": 1200, "too_large": 1})
    screen.go("/webhooks/orders").ready()
    card = screen.page.locator(".card", has=screen.page.get_by_role("heading", name="Why it refused"))
    lines = card.locator("li").all_inner_texts()
    assert len(lines) == 2
    assert "credentials are wrong" in lines[0] and "1,200 times" in lines[0]
    assert "larger than the source takes" in lines[1] and "1 time" in lines[1]
    screen.silent()


def test_the_year_of_a_schedule_has_a_hundred_times_and_more_on_demand(
    screen: Screen, deployment: Deployment
) -> None:
    deployment.functory.schedules.save("hourly", cron="0 * * * *", timezone="Europe/Berlin")
    screen.go("/schedules/hourly").ready()
    screen.shows("The next 100 times are shown")
    screen.page.get_by_role("button", name="Show 1,000 times").click()
    screen.shows("The next 1,000 times are shown")
    assert screen.page.get_by_role("button", name="Show 1,000 times").count() == 0
    # One that has fewer times has no button.
    deployment.functory.schedules.save("yearly", cron="0 0 1 1 *", timezone="UTC", end="2040-01-01T00:00:00")
    screen.go("/schedules/yearly").ready()
    screen.page.get_by_role("heading", name="A year").wait_for()
    assert screen.page.get_by_role("button", name="Show 1,000 times").count() == 0
    screen.silent()


def test_a_schedule_that_no_scheduler_runs_shows_its_lag(screen: Screen, deployment: Deployment) -> None:
    functory = deployment.functory
    deployment.save("late", "def late() -> int:\n    return 7\n")
    functory.schedules.save("late", cron="0 3 * * *", timezone="UTC", function="late", input={})
    due = functory.database.clock.now() - timedelta(hours=3)
    with functory.database.write() as tx:
        tx.execute(sa.update(schema.schedule).values(next_at=due))
    for path in ("/schedules", "/schedules/late"):
        screen.go(path).ready()
        screen.page.locator(".tone-warn").filter(has_text="3 h").first.wait_for()
