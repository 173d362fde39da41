"""The page of a source has its own newest events, and leads to all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.dashboard import Deployment, Screen, dashboard_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# More events of others than a page of events has rows.
OTHERS = 150


@pytest.fixture(scope="module")
def deployment(chromium_server: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with dashboard_server(tmp_path_factory.mktemp("sources")) as deployment:
        yield deployment


def test_the_newest_events_of_a_source_are_found_behind_many_of_others(
    screen: Screen, deployment: Deployment
) -> None:
    functory = deployment.functory
    functory.secrets.set("HOOK", "a secret value", author="ada")
    functory.sources.save("webhook", "orders", {"auth": {"type": "github", "secret": ["HOOK"]}})
    functory.events.emit("order.hooked", {"n": 1}, source="/functory/webhook/orders")
    functory.emit_many({"type": "other.seen", "data": {"n": n}} for n in range(OTHERS))
    screen.go("/webhooks/orders").ready()
    card = screen.page.locator(".card", has=screen.page.get_by_role("heading", name="Newest events"))
    card.get_by_role("link", name="order.hooked").wait_for()
    assert [text.split()[0] for text in card.locator("li").all_inner_texts()] == [
        "order.hooked",
        "source.created",
    ]
    card.get_by_role("link", name="all of them").click()
    screen.page.get_by_role("link", name="order.hooked").wait_for()
    assert "source=" in screen.page.url
    assert screen.page.get_by_text("other.seen").count() == 0
    screen.silent()
