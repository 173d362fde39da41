"""Every page over full data, over no data and over texts that attack, on a wide screen and on a phone: it stands still
while it loads, fits, is silent, asks no other host, and axe-core finds nothing.

A wide page is light and a phone is dark; `--long` checks both themes in each width. With DASHBOARD_PICTURES set to a
folder, pictures of all of them are saved there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.dashboard.page_list import EMPTY, FULL, HOSTILE, MISSING, Page
from tests.support import dashboard_probes, page_checks
from tests.support.dashboard import Deployment, Screen, dashboard_server
from tests.support.dashboard_agents import attack_agents
from tests.support.dashboard_models import attack_models
from tests.support.dashboard_world import SETTINGS, everything
from tests.support.thoroughness import thorough

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WIDE, PHONE = "1440", "360"
# The widths, each with its themes: the pages are loaded in the first.
WIDTHS: dict[str, tuple[page_checks.Theme, page_checks.Theme]] = {
    WIDE: ("light", "dark"),
    PHONE: ("dark", "light"),
}
PICTURES = os.environ.get("DASHBOARD_PICTURES")
# That a page is made of, and their JSON before compression. No page is by its nature larger over this data: what may
# be long (a log, a payload, the times of a schedule) is asked for in parts.
MOST_ANSWERS = 4
MOST_BYTES = 60_000


class World:
    """A server with its data, and a screen for each width that stays open for all pages."""

    def __init__(self, deployment: Deployment, ids: dict[str, str], browser: Browser) -> None:
        self._deployment, self._ids, self._browser = deployment, ids, browser
        self._screens: dict[str, Screen] = {}

    def open(self, page: Page, width: str) -> Screen:
        """The screen of a width, on a page that has loaded."""
        if width not in self._screens:
            context = self._deployment.context(self._browser, theme=WIDTHS[width][0], phone=width == PHONE)
            page_checks.prepare(context)
            self._screens[width] = self._deployment.log_in(context)
        screen = self._screens[width]
        screen.page.emulate_media(color_scheme=WIDTHS[width][0])
        screen.said.clear()
        screen.expected = []
        screen.go(page.path.format(**self._ids)).ready()
        return screen.shows(page.shows)

    def close(self) -> None:
        """Close the screens."""
        for screen in self._screens.values():
            screen.page.context.close()


@pytest.fixture(scope="module")
def full(chromium_server: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Some of everything."""
    folder = tmp_path_factory.mktemp("full")
    with dashboard_server(folder, **SETTINGS) as deployment:
        ids = everything(deployment.functory, folder)
        world = World(deployment, ids, chromium_server)
        yield world
        world.close()


@pytest.fixture(scope="module")
def empty(chromium_server: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A new installation."""
    with dashboard_server(tmp_path_factory.mktemp("empty"), start=False) as deployment:
        world = World(deployment, {}, chromium_server)
        yield world
        world.close()


@pytest.fixture(scope="module")
def hostile(chromium_server: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Texts that attack, in every field that a stranger or a user fills."""
    folder = tmp_path_factory.mktemp("hostile")
    with dashboard_server(folder, author_grants=["secret"]) as deployment:
        ids = dashboard_probes.attack(deployment.functory, folder)
        dashboard_probes.attack_from_outside(deployment.url)
        ids |= attack_models(deployment.functory, folder, ids["ok"])
        ids |= attack_agents(deployment.functory)
        world = World(deployment, ids, chromium_server)
        yield world
        world.close()


def _every(pages: dict[str, Page]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Each page in each width."""
    return pytest.mark.parametrize(
        ("name", "width"),
        [pytest.param(name, width, id=f"{name}-{width}") for width in WIDTHS for name in pages],
    )


def _check(screen: Screen, name: str, width: str) -> None:
    themes = WIDTHS[width] if PICTURES or thorough() else WIDTHS[width][:1]
    looks = partial(_picture, screen, name, width)
    found = page_checks.problems(screen, themes, looks)
    if width == WIDE:
        found += page_checks.in_forced_colours(screen, looks) + page_checks.zoomed(screen, looks)
    if found:
        pytest.fail("\n".join([screen.page.url, *map(str, found)]), pytrace=False)


def _picture(screen: Screen, name: str, width: str, theme: str) -> None:
    if PICTURES:
        screen.picture(Path(PICTURES) / f"{name}-{theme}-{width}.png")


@_every(FULL)
def test_a_page_is_clean(name: str, width: str, full: World) -> None:
    screen = full.open(FULL[name], width)
    assert len(screen.asked) <= MOST_ANSWERS, [*screen.asked]
    answers = screen.answer_bytes()
    assert sum(answers.values()) <= MOST_BYTES, answers
    screen.expected = ["404"] if name in MISSING else []
    _check(screen, name, width)


@_every(EMPTY)
def test_a_page_without_data_says_how_to_begin(name: str, width: str, empty: World) -> None:
    _check(empty.open(EMPTY[name], width), name, width)


@_every(HOSTILE)
def test_texts_that_attack_are_texts(name: str, width: str, hostile: World) -> None:
    screen = hostile.open(HOSTILE[name], width)
    assert screen.page.locator(".fault").count() == 0, screen.text()
    assert dashboard_probes.is_unharmed(screen.page)
    # Characters that turn the text around are shown by their names.
    assert "\u202e" not in screen.page.inner_text("body")
    _check(screen, name, width)


def test_a_character_that_turns_the_text_around_is_shown_by_its_name(hostile: World) -> None:
    hostile.open(HOSTILE["hostile-event"], WIDE).shows("⟨RLO⟩")
