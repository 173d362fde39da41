"""The page of the parts (`/dev/parts`): each part in its states, in both themes, on a wide screen and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.dashboard.test_every_page import PHONE, WIDE, WIDTHS
from tests.support import dashboard_probes, page_checks
from tests.support.dashboard import Deployment, Screen, dashboard_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# What a text makes wider than its frame. A state is one of a closed list, and none of them is so long.
_TOO_WIDE = """() => [...document.querySelectorAll(".story")]
  .filter((story) => story.getAttribute("aria-label") !== "State: hostile")
  .filter((story) => story.lastChild.scrollWidth > story.lastChild.clientWidth + 1)
  .map((story) => story.getAttribute("aria-label"))"""

_DIALOG_TOO_WIDE = """() => {
  const dialog = document.querySelector("dialog");
  return dialog.scrollWidth > dialog.clientWidth;
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with dashboard_server(tmp_path_factory.mktemp("parts"), start=False) as deployment:
        yield deployment


@pytest.mark.parametrize("width", WIDTHS)
def test_every_part_is_clean_in_all_its_states(width: str, server: Deployment, browser: Browser) -> None:
    context = server.context(browser, theme=WIDTHS[width][0], phone=width == PHONE)
    page_checks.prepare(context)
    screen = Screen(context.new_page(), server.url).go("/dev/parts").shows("Without a story")
    # The editor comes later than the page.
    screen.page.locator("[aria-label='Diff: hostile'] .cm-line").first.wait_for()
    found = page_checks.problems(screen, WIDTHS[width]) + screen.page.evaluate(_TOO_WIDE)
    if width == WIDE:
        found += page_checks.in_forced_colours(screen) + page_checks.zoomed(screen)
    assert not found, "\n".join(map(str, found))
    assert dashboard_probes.is_unharmed(screen.page)
    assert "\u202e" not in screen.page.inner_text("body")
    assert screen.asked == {}
    context.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_dialogs_and_messages_of_parts_are_clean(width: str, server: Deployment, browser: Browser) -> None:
    context = server.context(browser, theme=WIDTHS[width][0], phone=width == PHONE)
    page_checks.prepare(context)
    screen = Screen(context.new_page(), server.url).go("/dev/parts?part=Dialog&part=Questions&part=Toasts")
    found: list[object] = []
    for story in screen.page.locator(
        "[aria-label^='Dialog: '] button, [aria-label^='Questions: '] button"
    ).all():
        story.click()
        screen.page.locator("dialog").wait_for()
        found += page_checks.problems(screen, WIDTHS[width])
        if screen.page.evaluate(_DIALOG_TOO_WIDE):
            found.append(f"a text is wider than the dialog: {screen.text('dialog')}")
        screen.press("Escape")
    for story in screen.page.locator("[aria-label^='Toasts: '] button").all():
        story.dispatch_event("click")
    assert "\u202e" not in screen.page.inner_text(".toasts")
    found += page_checks.problems(screen, WIDTHS[width])
    assert not found, "\n".join(map(str, found))
    context.close()
