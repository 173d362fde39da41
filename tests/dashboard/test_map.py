"""The map is fitted to the width of the window as far as it can be read; buttons and keys change its size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.support.dashboard import Deployment, Screen, dashboard_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Pixels of a box at the least scale: still a target of a finger.
TARGET = 24


@pytest.fixture(scope="module")
def deployment(chromium_server: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A chain of functions, each started by the end of the one before: the map is wider than any window of a test."""
    with dashboard_server(tmp_path_factory.mktemp("map")) as deployment:
        functory = deployment.functory
        for name in ("read", "check"):
            functory.functions.save(f"def {name}() -> int:\n    return 7\n", author="ada")
        read = {"type": ["execution.succeeded"], "data": {"function": ["read"]}}
        functory.save_trigger("read-orders", on={"type": ["order.created"]}, function="read", input={})
        functory.save_trigger("check-what-was-read", on=read, function="check", input={})
        yield deployment


def test_the_whole_map_is_seen_when_it_opens(screen: Screen) -> None:
    screen.page.set_viewport_size({"width": 1700, "height": 800})
    screen.go("/map").ready()
    screen.page.locator("[data-box]").first.wait_for()
    assert 0.7 < _scale(screen) < 1
    assert _hidden_width(screen) == 0
    screen.fits()
    screen.silent()


def test_a_map_that_would_be_too_small_to_read_scrolls_and_keeps_targets_for_fingers(screen: Screen) -> None:
    screen.page.set_viewport_size({"width": 360, "height": 800})
    screen.go("/map").ready()
    screen.page.locator("[data-box]").first.wait_for()
    assert _scale(screen) == pytest.approx(0.7, rel=0.001)
    assert _hidden_width(screen) > 0
    assert min(_heights(screen)) >= TARGET
    screen.fits()


def test_the_size_is_changed_and_fitted_again_by_buttons_and_by_keys(screen: Screen) -> None:
    screen.page.set_viewport_size({"width": 1700, "height": 800})
    screen.go("/map").ready()
    screen.page.locator("[data-box]").first.wait_for()
    fitted = _scale(screen)
    fit = screen.page.get_by_role("button", name="Fit", exact=True)
    expect(fit).to_be_disabled()
    screen.page.get_by_role("button", name="Larger").click()
    assert _scale(screen) == pytest.approx(fitted * 1.2, rel=0.01)
    fit.click()
    assert _scale(screen) == pytest.approx(fitted)
    screen.page.keyboard.press("+")
    assert _scale(screen) > fitted
    screen.page.keyboard.press("0")
    assert _scale(screen) == pytest.approx(fitted)


def _scale(screen: Screen) -> float:
    """The width of a box in the window, relative to its width in the layout."""
    return screen.page.evaluate(
        "(() => { const box = document.querySelector('[data-box] > *');"
        " return box.getBoundingClientRect().width / Number.parseFloat(getComputedStyle(box).width) })()"
    )


def _hidden_width(screen: Screen) -> int:
    return screen.page.evaluate(
        "(() => { const map = document.querySelector('.graph'); return map.scrollWidth - map.clientWidth })()"
    )


def _heights(screen: Screen) -> list[float]:
    boxes = [box.bounding_box() for box in screen.page.locator("[data-box] > *").all()]
    return [box["height"] for box in boxes if box is not None]
